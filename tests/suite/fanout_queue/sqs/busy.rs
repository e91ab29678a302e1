//! A runtime that its owner holds up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use coord_fanout::{Consumer, Delivery, Queue, SqsOptions};
use coord_tests::need;
use tokio::sync::Notify;

use super::{Pair, Sqs};
use crate::fanout_queue::{enqueue, ids, message, receive};

const VISIBILITY: Duration = Duration::from_secs(2);

/// What somebody else gets from the queue until `over` is set, on a runtime of its own.
fn others(pair: &Pair, over: &AtomicBool) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().expect("room for a thread");
    runtime.block_on(async {
        let sqs = Sqs::start().await.expect("it runs already");
        let queue = sqs.open(pair, SqsOptions::default()).await;
        let mut taken = Vec::new();
        while !over.load(Ordering::SeqCst) {
            let deliveries = receive(&queue, 1, Duration::from_secs(1)).await;
            taken.extend(ids(&deliveries).into_iter().map(str::to_owned));
        }
        taken
    })
}

#[tokio::test]
async fn a_handler_that_blocks_its_runtime_keeps_its_delivery() {
    let sqs = need!(Sqs::start().await);
    let pair = sqs.pair(VISIBILITY).await;
    let queue = sqs.open(&pair, SqsOptions::default()).await;
    enqueue(&queue, &[message("a")]).await;
    let (over, handled) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let (started, start) = mpsc::channel();
    let until = Arc::clone(&over);
    let thief = std::thread::spawn(move || {
        start.recv().expect("the handler starts");
        others(&pair, &until)
    });

    let shared = (Arc::clone(&over), Arc::clone(&handled));
    let handler = move |_: Arc<Delivery>| {
        let ((over, handled), started) = (shared.clone(), started.clone());
        async move {
            started.send(()).expect("somebody waits");
            // All of this runtime stands still.
            std::thread::sleep(VISIBILITY * 4);
            over.store(true, Ordering::SeqCst);
            handled.notify_one();
            Ok(())
        }
    };
    let ended = Consumer::new(queue.clone()).run(handler, handled.notified());

    ended.await.expect("a clean end");
    assert_eq!(thief.join().expect("no panic"), [""; 0]);
    assert_eq!(queue.depth().await.expect("it is there").open(), 0);
}
