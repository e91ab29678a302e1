//! What is said of a task whose process is silent, in virtual time.

use super::fleet::{Node, WORK, hangs_once};
use super::*;
use crate::client::Handle;
use crate::health::{Explanation, Liveness};
use crate::recovery::Recovery;

const SECOND: Duration = Duration::from_secs(1);

async fn explained(handle: &Handle<u32>) -> Explanation {
    let explained = handle.explain().await.expect("an answer");
    explained.expect("a run")
}

async fn is_leased(handle: &Handle<u32>) -> bool {
    let described = handle.describe().await.expect("an answer").expect("a run");
    described.tasks.iter().any(|task| task.status == "leased")
}

/// One that begins before the other, and so looks after both.
async fn two(store: &Memory, recovery: Recovery) -> (Node, Node) {
    let first = Node::with(store, |engine| engine.recovery(recovery)).await;
    tokio::time::sleep(SECOND).await;
    let second = Node::with(store, |engine| engine.recovery(recovery)).await;
    tokio::time::sleep(MINUTE).await;
    (first, second)
}

/// A process dies that has a task, and the other one says so, and by when it has it back.
async fn says_when(recovery: Recovery, (dying, other): (Node, Node)) {
    let worker = dying.worker().activity(DOUBLE, hangs_once());
    let worker = worker.lease(60 * MINUTE).start();
    let started = dying.client.start(WORK, id("a"), &4).await;
    started.expect("started");
    let handle = other.client.handle(WORK, id("a"));
    tokio::time::sleep(SECOND).await;
    let before = explained(&handle).await;
    assert_eq!(before.state, Liveness::ActivityTaskLeased);
    assert!(before.message.contains("works on"), "{before:?}");

    drop((worker, dying));

    tokio::time::sleep(recovery.ttl * 2 / 3).await;
    let silent = explained(&handle).await;
    assert_eq!(silent.state, Liveness::ActivityTaskLeased);
    assert!(silent.message.contains("is silent for"), "{silent:?}");
    assert!(silent.age >= recovery.ttl * 2 / 3, "{silent:?}");
    assert!(silent.action.contains("is taken back within"), "{silent:?}");
    let until = silent.until.expect("it is taken back");
    let rest = until.since(silent.since.plus(silent.age));
    assert!(rest <= recovery.term + SECOND + recovery.ttl + recovery.every);
    assert!(is_leased(&handle).await);
    tokio::time::sleep(rest).await;
    assert!(!is_leased(&handle).await, "{silent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_says_by_when_others_have_what_a_silent_process_has() {
    let patient = Recovery {
        ttl: MINUTE,
        term: 50 * SECOND,
        ..Recovery::default()
    };
    for recovery in [Recovery::default(), patient] {
        let (first, second) = two(&Memory::new(), recovery).await;
        says_when(recovery, (second, first)).await;
        // Nobody looks after both until the other one does.
        says_when(recovery, two(&Memory::new(), recovery).await).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_says_that_nobody_takes_back_what_a_silent_process_has() {
    let store = Memory::new();
    let dying = Node::with(&store, |engine| engine).await;
    let other = Node::with(&store, crate::EngineBuilder::without_recovery).await;
    let worker = dying.worker().activity(DOUBLE, hangs_once()).start();
    let started = dying.client.start(WORK, id("a"), &4).await;
    started.expect("started");
    tokio::time::sleep(SECOND).await;

    drop((worker, dying));
    tokio::time::sleep(MINUTE / 2).await;

    let handle = other.client.handle(WORK, id("a"));
    let silent = explained(&handle).await;
    assert_eq!(silent.until, None);
    assert!(silent.action.contains("recovery role"), "{silent:?}");
}
