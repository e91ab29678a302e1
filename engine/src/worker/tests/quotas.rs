//! Bounds of a namespace, in virtual time.

use tokio::time::Instant;

use super::*;
use crate::model::TaskKind;
use crate::{Bound, Quotas};

const HOLD: Activity<u64, ()> = Activity::new("tests.hold");
const WORK: Workflow<u64, ()> = Workflow::new("tests.work");

async fn work(ctx: Context, millis: u64) -> Result<(), Failure> {
    ctx.activity(HOLD, &millis).await
}

/// How long work in another queue waits behind `first`, which holds the only place of the namespace.
async fn wait_behind(first: Duration) -> Duration {
    let one = Quotas::default().namespace(TaskKind::Activity, Bound::active(1));
    let engine = Engine::builder(Memory::new()).quotas(one).start().await;
    let engine = engine.expect("a store in memory");
    let queue = |name: &str| Queue::new(name).expect("a name");
    let hold = |_: Attempt, millis: u64| async move {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        Ok::<_, Failure>(())
    };
    let worker = |name: &str| {
        let worker = engine.worker(namespace(), queue(name)).workflow(WORK, work);
        worker.activity(HOLD, hold).start()
    };
    let (_a, _b) = (worker("a"), worker("b"));
    let (a, b) = (
        engine.client(namespace(), queue("a")),
        engine.client(namespace(), queue("b")),
    );
    let millis = u64::try_from(first.as_millis()).expect("a short time");
    let holder = a.start(WORK, id("first"), &millis).await.expect("started");
    // It has the place when the other one comes.
    tokio::time::sleep(first / 2).await;
    let other = b.start(WORK, id("other"), &0).await.expect("started");

    let ended = holder.handle.result(MINUTE).await.expect("an answer");
    assert_eq!(ended, Some(Ok(())));
    let free = Instant::now();
    let ended = other.handle.result(MINUTE).await.expect("an answer");
    assert_eq!(ended, Some(Ok(())));
    free.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_place_of_the_namespace_that_is_free_again_is_taken_at_once_in_whatever_queue() {
    for held in [1700, 2300, 4100] {
        let waited = wait_behind(Duration::from_millis(held)).await;

        // Who is not told looks once a second.
        assert!(waited < Duration::from_millis(20), "{waited:?}");
    }
}
