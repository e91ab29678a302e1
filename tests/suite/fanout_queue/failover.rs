//! The queue behind sentinels whose master dies.

use std::time::Duration;

use coord_fanout::{Enqueued, Queue};
use coord_tests::need;
use coord_tests::servers::Sentinel;
use coord_tests::wait::eventually;

use super::{SOON, connect, drain, enqueue, message, messages, next, open, visibility};

const VISIBILITY: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_failover_loses_whole_calls_with_the_memory_of_their_ids_and_repeats_what_was_completed()
{
    let group = need!(Sentinel::start().await);
    let queue = open(&connect(&group.url()).await, visibility(VISIBILITY));
    enqueue(&queue, &messages(0..3)).await;
    let first = next(&queue).await;
    group.detach_replicas().await;
    queue.complete(&first).await.expect("it is ours");
    let lost = [message("lost"), message("lost too")];
    assert_eq!(enqueue(&queue, &lost).await, [Enqueued::Added; 2]);

    group.fail_over().await;
    eventually(SOON, "the queue is there again", || async {
        queue.depth().await.is_ok()
    })
    .await;

    let depth = queue.depth().await.expect("there");
    assert_eq!(depth.open(), 3, "as before the two calls");
    let known = enqueue(&queue, &messages(0..3)).await;
    assert_eq!(known, [Enqueued::Duplicate; 3]);
    assert_eq!(enqueue(&queue, &lost).await, [Enqueued::Added; 2]);
    let mut drained = drain(&queue, 5).await;
    drained.sort_unstable();
    assert_eq!(drained, ["lost", "lost too", "m0", "m1", "m2"]);
    assert_eq!(queue.depth().await.expect("there").open(), 0);
}
