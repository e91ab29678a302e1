//! Stores that share nothing but the database.

use coord_engine::store::{Start, Write};

use crate::stage::{Stage, held, queue};
use crate::writes::join_all;
use coord_engine::model::TaskKind;

pub(crate) async fn many_processes_migrate_at_once(stage: Stage) {
    let empty = stage.database.another().await;
    let stores: Vec<_> = (0..8).map(|_| empty.open()).collect();
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
    let work = async |store: &dyn coord_engine::store::Store| {
        let mut turned = 0;
        loop {
            let claim = stage.claim_of(TaskKind::Workflow, "q", 3);
            let tasks = store.claim(&claim).await.expect("claimed").tasks;
            if tasks.is_empty() {
                return turned;
            }
            for task in tasks {
                let turn = Write::Turn(Box::new(stage.turn(&task)));
                let applied = store.apply(&[turn]).await.expect("applied");
                assert!(
                    matches!(
                        applied.outcomes[0],
                        coord_engine::store::Outcome::Done { .. }
                    ),
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
