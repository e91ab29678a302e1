//! Stores that share nothing but the database.

use std::process::{Command, Stdio};
use std::sync::Arc;

use coord_core::{Env, Variable};
use coord_engine::model::{Ids, TaskKind};
use coord_engine::store::{Incarnation, Outcome, Registration, Start, Store, Write};

use crate::dialect::Database;
use crate::stage::{LONG, Stage, held, owner, queue};
use crate::writes::join_all;

pub(crate) async fn many_processes_migrate_at_once(stage: Stage) {
    let empty = stage.database.another().await;
    let stores: Vec<_> = (0..8).map(|_| empty.open()).collect();
    // On the empty one, and on the one that is there.
    for _ in 0..2 {
        let migrations = stores.iter().map(|store| store.migrate()).collect();

        for migrated in join_all(migrations).await {
            migrated.expect("migrated");
        }
    }
    let stage = Stage::new(empty).await;
    stage.start("w").await;
}

pub(crate) async fn many_processes_claim_and_commit_side_by_side(stage: Stage) {
    let starts = (0..40).map(|number| {
        Write::Start(Box::new(Start {
            queue: queue("q"),
            ..stage.new_run(&format!("w{number}"))
        }))
    });
    stage.batch(starts).await;
    let stores: Vec<_> = (0..4).map(|_| stage.database.open()).collect();
    let work = async |store: &dyn Store| {
        let mut turned = 0;
        loop {
            let claim = stage.claim_of(TaskKind::Workflow, "q", 3);
            let tasks = store.claim(&claim).await.expect("claimed").tasks;
            if tasks.is_empty() {
                return turned;
            }
            for task in tasks {
                let turn = Write::Turn(Box::new(crate::stage::turn(&task)));
                let applied = store.apply(&[turn]).await.expect("applied");
                assert!(
                    matches!(applied.outcomes[0], Outcome::Done { .. }),
                    "{:?} {applied:?}",
                    held(&task)
                );
                turned += 1;
            }
        }
    };

    let turned = join_all(stores.iter().map(|store| work(&**store)).collect()).await;

    let rest = stage.claim_of(TaskKind::Workflow, "q", 100);
    let rest = stage.claim(&rest).await.tasks.len();
    assert_eq!(turned.iter().sum::<usize>() + rest, 40);
}

/// Where a child finds its database.
const CHILD: Variable = Variable::new(
    "COORD_TEST_CHILD",
    "",
    "database of a child process of a test",
);
const CHILDREN: usize = 3;
const RUNS: usize = 15;

pub(crate) async fn processes_of_their_own_share_the_work(stage: Stage) {
    let empty = stage.database.another().await;
    let Some(address) = empty.address() else {
        return;
    };
    let test = std::env::current_exe().expect("this program");
    let spawn = |_| {
        Command::new(&test)
            .args(["a_process_of_another_test", "--exact", "--nocapture"])
            .env(CHILD.name, &address)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child")
    };

    let children: Vec<_> = (0..CHILDREN).map(spawn).collect();

    let mut turned = 0;
    for child in children {
        let output = tokio::task::block_in_place(|| child.wait_with_output());
        let output = output.expect("its output");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        let count = text.lines().find_map(|line| line.split("turned ").nth(1));
        turned += count.expect(&text).parse::<usize>().expect("a number");
    }
    assert_eq!(turned, CHILDREN * RUNS, "each task was taken once");
}

/// Migrates, starts runs, and takes tasks until all runs of all children were turned.
pub(crate) async fn child() {
    let env = Env::process();
    let Some(address) = env.text(&CHILD).expect("readable") else {
        return;
    };
    let store = Database::open_address(address);
    store.migrate().await.expect("migrated");
    let stage = Stage {
        store: Arc::clone(&store),
        other: store,
        database: Database::sqlite_memory().await.expect("always there"),
        ids: Ids::random(),
    };
    for number in 0..RUNS {
        let start = Start {
            queue: queue("q"),
            ..stage.new_run(&format!("{}{number}", stage.ids.stem()))
        };
        stage.apply(start).await;
    }
    let (mut turned, mut idle) = (0, 0);
    while idle < 20 {
        let claim = stage.claim_of(TaskKind::Workflow, "q", 2);
        let tasks = stage.claim(&claim).await.tasks;
        idle = if tasks.is_empty() { idle + 1 } else { 0 };
        for task in tasks {
            let done = stage.apply(crate::stage::turn(&task)).await;
            assert!(matches!(done, Outcome::Done { .. }), "{done:?}");
            turned += 1;
        }
    }
    println!("turned {turned}");
}

pub(crate) async fn a_process_that_is_alone_takes_over_at_once(stage: Stage) {
    let Database::SqliteFile(_) = &stage.database else {
        return;
    };
    let register = async |store: &dyn Store, id: &str| {
        let registration = Registration {
            incarnation: Incarnation {
                id: owner(id),
                node: "node".to_owned(),
                build: None,
                pid: 1,
            },
            ttl: LONG,
            alone: false,
            exclusive: false,
        };
        store.register(&registration).await.expect("registered");
    };
    register(&*stage.store, "a").await;
    stage.start("w").await;
    stage.claim_workflow("w").await;
    // Another process proves nothing while this one lives.
    register(&*stage.database.open(), "b").await;
    assert_eq!(stage.sweep().await.ready, 0);
    let Stage {
        store,
        other,
        database,
        ids,
    } = stage;
    drop((store, other));

    let next = database.open();
    register(&*next, "c").await;

    let stage = Stage {
        other: Arc::clone(&next),
        store: next,
        database,
        ids,
    };
    assert_eq!(stage.sweep().await.ready, 1);
}
