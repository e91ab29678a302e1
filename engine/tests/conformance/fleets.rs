//! Fleets of processes: how nodes are replaced, how they find each other, and what an outage does to
//! them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use coord_core::Variable;
use coord_engine::model::{EventKind, Namespace};
use coord_engine::store::Role;
use coord_engine::{Engine, Recovery};

use crate::deaths::{CHAIN, LEASE, LIFE, Nodes, RUNS, SOON, WORK, id, now_ms, recovery};
use crate::dialect::Database;
use crate::server;
use crate::stage::{Stage, queue};

pub(crate) async fn an_exclusive_node_that_is_restarted_goes_on_at_once(stage: Stage) {
    // Nobody is found dead meanwhile.
    let Some(nodes) = Nodes::on(stage, SOON).await else {
        return;
    };
    let _leads = nodes.node("idle").await;
    nodes.somebody_leads().await;
    let dying = nodes.node_with("q", "shop-1", &[]).await;
    nodes.all_hang().await;

    let killed = now_ms();
    drop(dying);
    let _back = nodes.node_with("q", "shop-1", &[]).await;
    let began = now_ms() - killed;
    let (first, last) = nodes.all_end(killed).await;

    println!("restarted an exclusive node within {began} ms: again from {first:?} to {last:?}");
    assert!(last < LEASE / 2, "from {first:?} to {last:?}");
}

pub(crate) async fn nodes_that_are_replaced_in_turn_under_load_lose_nothing(stage: Stage) {
    const WAVE: u32 = 10;
    // Nobody is found dead meanwhile: what is handed over is handed over by those who stop.
    let Some(nodes) = Nodes::on(stage, SOON).await else {
        return;
    };
    let mut fleet = [
        nodes.node("q").await,
        nodes.node("q").await,
        nodes.node("q").await,
    ];
    let client = nodes.client();
    let mut started = 0;
    for wave in 0..=fleet.len() {
        for _ in 0..WAVE {
            let start = client.start(CHAIN, id(started), &started).await;
            assert!(start.expect("its database").was_created);
            started += 1;
        }
        if wave < fleet.len() {
            // The next one comes before the old one goes, under the same name.
            let next = nodes.node("q").await;
            std::mem::replace(&mut fleet[wave], next).stop();
        }
    }

    for number in 0..started {
        let handle = client.handle(CHAIN, id(number));
        let result = handle.result(LEASE / 2).await.expect("an answer");
        assert_eq!(result, Some(Ok(6)), "run {number}");
        let history = handle.history().await.expect("a history");
        let ends = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted(_));
        let ended = history.iter().filter(|event| ends(&event.kind)).count();
        assert_eq!(ended, 3, "run {number}");
    }
    let lines = nodes.book().lines();
    let effects: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("effect"))
        .collect();
    let distinct: BTreeSet<_> = effects.iter().collect();
    println!(
        "replaced three nodes under load: {started} runs, {} effects, {} of them again",
        distinct.len(),
        effects.len() - distinct.len()
    );
    assert_eq!(distinct.len(), 3 * started as usize);
}

pub(crate) async fn only_what_a_killed_node_had_is_done_again(stage: Stage) {
    let Some(nodes) = Nodes::on(stage, LIFE).await else {
        return;
    };
    let dying = nodes.node("q").await;
    let (_one, _other) = (nodes.node("q").await, nodes.node("q").await);
    nodes.all_hang().await;
    let by = format!("by-{}", dying.pid());
    let lines = nodes.book().lines();
    let had = lines.iter().filter(|line| line.ends_with(&by));
    let had: BTreeSet<u32> = had
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect();

    drop(dying);
    for number in &had {
        let handle = nodes.client().handle(WORK, id(*number));
        let result = handle.result(SOON).await.expect("an answer");
        assert_eq!(result, Some(Ok(2)), "run {number}");
    }

    let again: BTreeSet<u32> = nodes.book().attempts(2).into_keys().collect();
    println!(
        "killed one of three nodes: {} of {RUNS} runs were done again",
        again.len()
    );
    assert_eq!(again, had);
    assert!(nodes.book().attempts(3).is_empty());
}

/// Waits until somebody has led for so long that he may declare others dead, and has looked.
async fn somebody_may_bury(nodes: &Nodes) {
    let age = LIFE + Duration::from_secs(2);
    let waits = async {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let Ok(roles) = nodes.stage.store.roles().await else {
                continue;
            };
            let term = roles.term(Role::Recovery);
            let term = term.filter(|term| term.expires_at > roles.now);
            if term.is_some_and(|term| roles.now.since(term.acquired_at) > age) {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, waits).await.expect("it leads");
}

pub(crate) async fn an_outage_shorter_than_a_life_costs_nobody_his_life(stage: Stage) {
    let Some(nodes) = Nodes::on(stage, LIFE).await else {
        return;
    };
    let busy = nodes.node("q").await;
    let (_one, _other) = (nodes.node("q").await, nodes.node("idle").await);
    nodes.all_hang().await;
    somebody_may_bury(&nodes).await;

    nodes
        .stage
        .database
        .goes_away_for(Duration::from_secs(3))
        .await;
    somebody_may_bury(&nodes).await;

    let book = nodes.book();
    assert!(book.attempts(2).is_empty(), "{:?}", book.lines());
    assert!(!book.lines().iter().any(|line| line == "given up"));
    // And the dead are found as before, whatever was killed with the outage.
    let by = format!("by-{}", busy.pid());
    let had = book
        .lines()
        .iter()
        .filter(|line| line.ends_with(&by))
        .count();
    drop(busy);
    book.holds(had, "its work is done again", |line| {
        line.split(' ').nth(1) == Some("2")
    })
    .await;
}

pub(crate) async fn a_database_that_goes_amid_recovery_loses_nothing(stage: Stage) {
    let Some(nodes) = Nodes::on(stage, LIFE).await else {
        return;
    };
    let [dying, _one, _other] = nodes.three(true).await;
    let killed = now_ms();
    drop(dying);
    let book = nodes.book();
    book.holds(1, "somebody goes on", |line| {
        line.split(' ').nth(1) == Some("2")
    })
    .await;

    nodes
        .stage
        .database
        .goes_away_for(Duration::from_secs(2))
        .await;

    let (first, last) = nodes.all_end(killed).await;
    println!("killed the leader, and the database amid recovery: again from {first:?} to {last:?}");
}

/// The library that shows a process another time.
const FAKETIME: Variable = Variable::new(
    "COORD_TEST_FAKETIME",
    "",
    "libfaketime, for tests of nodes whose clocks differ; default: where Debian puts it",
);

fn faketime() -> Option<PathBuf> {
    if let Some(named) = server::set(&FAKETIME) {
        return Some(PathBuf::from(named));
    }
    // A folder for each kind of processor.
    let folders = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    libraries.find(|library| library.is_file())
}

pub(crate) async fn clocks_that_differ_take_nothing_early_and_leave_nothing_behind(stage: Stage) {
    // A file is on one machine, with one clock.
    if matches!(stage.database, Database::SqliteFile(_)) {
        return;
    }
    let Some(nodes) = Nodes::on(stage, LIFE).await else {
        return;
    };
    let Some(library) = faketime() else {
        let may_skip = server::set(&server::ALLOW_SKIP).as_deref() == Some("1");
        assert!(
            may_skip,
            "this test needs libfaketime: `cargo xtask test` finds or installs it"
        );
        return server::count_skip("libfaketime");
    };
    let skewed = |by: &str| {
        [
            ("LD_PRELOAD", library.display().to_string()),
            ("FAKETIME", by.to_owned()),
            // It has no zero, and cannot be wrong.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    };
    let dying = nodes.node_with("q", "", &skewed("-10m")).await;
    let _ahead = nodes.node_with("q", "", &skewed("+10m")).await;
    let _right = nodes.node("idle").await;
    nodes.all_hang().await;
    let book = nodes.book();
    let by = format!("by-{}", dying.pid());
    let had = book
        .lines()
        .iter()
        .filter(|line| line.ends_with(&by))
        .count();

    somebody_may_bury(&nodes).await;
    assert!(book.attempts(2).is_empty(), "{:?}", book.lines());
    drop(dying);
    book.holds(had, "its work is done again", |line| {
        line.split(' ').nth(1) == Some("2")
    })
    .await;

    println!("clocks ten minutes apart: {had} runs of the killed node were done again");
}

pub(crate) async fn five_processes_have_one_leader(stage: Stage) {
    let start = async |_: u32| {
        let builder = stage.database.builder().recovery(recovery(LIFE));
        builder.start().await.expect("it starts")
    };
    let engines: Vec<Engine> = crate::writes::join_all((0..5).map(start).collect()).await;
    let leader = async || {
        let waits = async {
            loop {
                let roles = stage.store.roles().await.expect("an answer");
                if roles
                    .left(Role::Recovery)
                    .is_some_and(|left| !left.is_zero())
                {
                    return roles.term(Role::Recovery).cloned().expect("somebody");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(SOON, waits).await.expect("it leads")
    };
    let first = leader().await;
    stage
        .pass(first.expires_at.plus(Duration::from_secs(4)))
        .await;

    let later = leader().await;

    assert_eq!((later.holder, later.number), (first.holder, first.number));
    for engine in engines {
        engine.shutdown().await.expect("the database is there");
    }
}

pub(crate) async fn a_service_that_stops_in_time_leaves_nothing_leased(stage: Stage) {
    let mut quick = Recovery::default();
    quick.ttl = SOON;
    let engine = stage.database.builder().recovery(quick).start().await;
    let engine = engine.expect("it starts");
    let worker = engine.worker(Namespace::default(), queue("q"));
    let add = async |_, (_, step): (u32, u32)| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(step)
    };
    let worker = worker.workflow(CHAIN, crate::deaths::chain);
    let worker = worker.activity(crate::deaths::LINK, add).start();
    let client = engine.client(Namespace::default(), queue("q"));
    for number in 0..20 {
        client
            .start(CHAIN, id(number), &number)
            .await
            .expect("started");
    }

    assert!(worker.shutdown(SOON).await, "all had time enough");

    for number in 0..20 {
        let described = client.handle(CHAIN, id(number)).describe().await;
        let described = described.expect("an answer").expect("there");
        let leased = described
            .tasks
            .iter()
            .filter(|task| task.status == "leased");
        assert_eq!(leased.count(), 0, "{:?}", described.tasks);
        assert!(described.tasks.iter().all(|task| task.recoveries == 0));
    }
    drop(client);
    engine.shutdown().await.expect("the database is there");
}
