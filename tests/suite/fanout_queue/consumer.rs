//! Consumers whose runtime, connection or queue is in trouble.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::ErrorKind;
use coord_fanout::{Consumer, Delivery, Failure, Queue, StreamQueue};
use coord_tests::need;
use coord_tests::need::unique;
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::{Deployment, RedisServer};
use coord_tests::wait::eventually;
use tokio::sync::{Notify, oneshot};

use super::{
    SOON, connect, connect_as, drain, enqueue, ids, is_blocked, message, messages, name, next,
    receive, visibility,
};

const VISIBILITY: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_mins(1);

/// One queue, seen through a proxy and past it.
struct Sides {
    server: RedisServer,
    proxy: FaultProxy,
    through: StreamQueue,
    past: StreamQueue,
}

async fn sides(visible: Duration) -> Result<Sides, coord_tests::need::Missing> {
    let server = RedisServer::start().await?;
    let proxy = FaultProxy::start(server.addr()).await;
    let prefix = unique("queue");
    let mut queues = Vec::new();
    for url in [server.url(), proxy.url()] {
        let redis = connect_as(&url, &prefix).await;
        queues.push(StreamQueue::new(&redis, name("mails"), visibility(visible)));
    }
    let through = queues.pop().expect("two");
    let past = queues.pop().expect("two");
    // From now on the server knows the scripts.
    enqueue(&past, &[message("first")]).await;
    drain(&past, 1).await;
    Ok(Sides {
        server,
        proxy,
        through,
        past,
    })
}

#[tokio::test]
async fn a_handler_that_blocks_its_runtime_keeps_its_delivery() {
    let server = need!(Deployment::shared().await);
    let (url, prefix) = (server.url(), unique("queue"));
    let redis = connect_as(&url, &prefix).await;
    let queue = StreamQueue::new(&redis, name("mails"), visibility(VISIBILITY));
    enqueue(&queue, &[message("a")]).await;
    let (started, rival) = oneshot::channel::<()>();
    let started = Mutex::new(Some(started));
    let done = Arc::new(Notify::new());

    // On a thread of its own, since this one is blocked.
    let rival = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let redis = connect_as(&url, &prefix).await;
            let queue = StreamQueue::new(&redis, name("mails"), visibility(VISIBILITY));
            rival.await.expect("it started");
            receive(&queue, 1, VISIBILITY * 2).await
        })
    });
    let finished = Arc::clone(&done);
    let handler = move |_| {
        if let Some(started) = started.lock().expect("no panic").take() {
            started.send(()).expect("the rival waits");
        }
        std::thread::sleep(VISIBILITY * 3);
        finished.notify_one();
        std::future::ready(Ok(()))
    };
    let ended = Consumer::new(queue.clone())
        .run(handler, done.notified())
        .await;

    ended.expect("a clean end");
    assert_eq!(ids(&rival.await.expect("no panic")), [""; 0]);
    assert_eq!(queue.depth().await.expect("there").open(), 0, "completed");
}

/// Says that it was dropped.
struct Tell(Arc<Notify>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_handler_whose_delivery_is_lost_is_dropped() {
    let sides = need!(sides(VISIBILITY).await);
    enqueue(&sides.past, &[message("a")]).await;
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));

    let shared = (Arc::clone(&started), Arc::clone(&dropped));
    let handler = move |_| {
        let (started, dropped) = shared.clone();
        async move {
            let _tell = Tell(dropped);
            started.notify_one();
            std::future::pending().await
        }
    };
    let fault = async {
        started.notified().await;
        sides.proxy.hole();
        dropped.notified().await;
        let taken_over = next(&sides.past).await;
        assert_eq!(taken_over.attempt, 2);
        sides.proxy.heal().await;
        sides.past.complete(&taken_over).await.expect("it is ours");
    };
    let ended = Consumer::new(sides.through.clone())
        .run(handler, Box::pin(fault))
        .await;

    ended.expect("a clean end");
    assert_eq!(sides.past.depth().await.expect("there").open(), 0);
}

#[tokio::test]
async fn a_consumer_rides_out_an_outage() {
    const COUNT: usize = 60;
    let sides = need!(sides(VISIBILITY).await);
    enqueue(&sides.past, &messages(0..COUNT)).await;
    let done = Arc::new(Mutex::new(BTreeSet::new()));

    let shared = Arc::clone(&done);
    let handler = move |delivery: Arc<Delivery>| {
        let done = Arc::clone(&shared);
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let id = delivery.message.id.as_str().to_owned();
            done.lock().expect("no panic").insert(id);
            Ok(())
        }
    };
    let fault = async {
        eventually(SOON, "some are handled", || async {
            done.lock().expect("no panic").len() > 10
        })
        .await;
        sides.proxy.refuse().await;
        sides.proxy.cut().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        sides.proxy.heal().await;
        eventually(SOON * 2, "all are settled", || async {
            sides.past.depth().await.expect("there").open() == 0
        })
        .await;
    };
    let ended = Consumer::new(sides.through.clone())
        .run(handler, Box::pin(fault))
        .await;

    ended.expect("a clean end");
    assert_eq!(done.lock().expect("no panic").len(), COUNT);
}

#[tokio::test]
async fn what_arrives_after_the_shutdown_is_handed_back_without_an_attempt() {
    let sides = need!(sides(LONG).await);
    let started = Arc::new(AtomicUsize::new(0));

    let starting = Arc::clone(&started);
    let handler = move |_| {
        starting.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(()))
    };
    let mut given = sides.proxy.hold_reply("XREADGROUP");
    let (late, stop) = oneshot::channel::<()>();
    let shutdown = async {
        stop.await.expect("the other side tells");
    };
    let (ended, ()) = tokio::join!(
        Consumer::new(sides.through.clone()).run(handler, shutdown),
        async {
            is_blocked(&sides.server).await;
            enqueue(&sides.past, &[message("a")]).await;
            given.reached().await;
            late.send(()).expect("it waits");
            // The consumer cannot end while its call is on its way.
            tokio::task::yield_now().await;
            given.release();
        }
    );

    ended.expect("a clean end");
    assert_eq!(started.load(Ordering::SeqCst), 0);
    let delivery = next(&sides.past).await;
    assert_eq!((delivery.message.id, delivery.attempt), (name("a"), 1));
}

#[tokio::test]
async fn a_consumer_of_what_is_no_queue_ends() {
    let server = need!(Deployment::shared().await);
    let redis = connect(&server.url()).await;
    let queue = super::open(&redis, visibility(LONG));
    let key = redis.keys().key("queue", &[queue.name()]);
    server
        .command(&["SET", key.as_str(), "mine"])
        .await
        .expect("somebody else's");

    let handler = |_| std::future::ready(Err(Failure::new("never called")));
    let ended = Consumer::new(queue)
        .run(handler, std::future::pending())
        .await;

    assert_eq!(ended.expect_err("theirs").kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_consumer_that_is_dropped_leaves_its_messages_to_the_others() {
    let sides = need!(sides(VISIBILITY).await);
    enqueue(&sides.past, &messages(0..3)).await;
    let started = Arc::new(Notify::new());

    let starting = Arc::clone(&started);
    let handler = move |_| {
        starting.notify_one();
        std::future::pending()
    };
    tokio::select! {
        ended = Consumer::new(sides.through.clone()).run(handler, std::future::pending()) => {
            panic!("it ended: {ended:?}")
        }
        () = started.notified() => {}
    }

    let mut rest = drain(&sides.past, 3).await;
    rest.sort_unstable();
    assert_eq!(rest, ["m0", "m1", "m2"]);
}
