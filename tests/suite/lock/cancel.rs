//! Dropping a call, or a lock, at any point.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use coord_core::Error;
use coord_lock::{LockOptions, Order};
use coord_tests::need;
use coord_tests::wait::eventually;

use super::{Alone, ORDERS, SOON, Stage, connect, job, ordered, take, ttl_ms};

/// More polls than a call takes until it waits for a release.
const POLLS: usize = 8;

/// When a call is dropped that has been polled so often.
#[derive(Clone, Copy, Debug)]
enum Drops {
    /// As soon as it waits again.
    AtOnce,
    /// When it would be polled again: what it waits for has come, and it has not seen it.
    WhenWoken,
}

const DROPS: [Drops; 2] = [Drops::AtOnce, Drops::WhenWoken];

/// Polls `call` at most `polls` times, and drops it.
async fn polled<T>(call: impl Future<Output = T>, polls: usize, drops: Drops) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 && matches!(drops, Drops::AtOnce) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn taking_a_free_lock_may_be_dropped_at_any_point_and_leaves_nothing() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    take(&locks, &LockOptions::default())
        .await
        .release()
        .await
        .unwrap();

    for (order, drops) in ORDERS
        .into_iter()
        .flat_map(|order| DROPS.map(|drops| (order, drops)))
    {
        for polls in 0..POLLS {
            let options = ordered(order);
            let name = job();
            let call = locks.acquire(&name, SOON, &options);
            drop(polled(call, polls, drops).await);
            stage.is_clean().await;

            let call = locks.try_acquire(&name, &options);
            drop(polled(call, polls, drops).await);
            stage.is_clean().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_may_be_dropped_at_any_point_and_leaves_neither_place_nor_lock() {
    let stage = need!(Stage::new().await);
    let (holder, locks) = (stage.locks().await, stage.locks().await);

    for (order, drops) in ORDERS
        .into_iter()
        .flat_map(|order| DROPS.map(|drops| (order, drops)))
    {
        for polls in 0..POLLS {
            let lock = take(&holder, &ordered(order)).await;
            let options = ordered(order);
            let name = job();
            let call = locks.acquire(&name, SOON, &options);
            // The last wait is for a message, and there is none.
            let patience = Duration::from_millis(200);
            _ = tokio::time::timeout(patience, polled(call, polls, drops)).await;

            lock.release().await.unwrap();
            stage.is_clean().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_dropped_in_the_moment_of_its_grant_leaves_the_lock_to_others() {
    let stage = need!(Alone::new().await);
    let (holder, locks) = (stage.locks().await, stage.locks().await);

    for (order, drops) in ORDERS
        .into_iter()
        .flat_map(|order| DROPS.map(|drops| (order, drops)))
    {
        // Polled once by the message, and some times more until the grant.
        for more in 0..4 {
            let lock = take(&holder, &ordered(order)).await;
            let options = ordered(order);
            let name = job();
            let mut waiting = Box::pin(locks.acquire(&name, SOON, &options));
            let asleep = async {
                stage.waiting_becomes(1).await;
                // It has asked, subscribed and asked again once the server is idle.
                eventually(SOON, "it listens", || async {
                    let channels = match order {
                        Order::Any => format!("{}@0", stage.key()),
                        Order::Fifo => format!("{}:waiter:*", stage.key()),
                    };
                    let listening = stage.ask(&["PUBSUB", "CHANNELS", &channels]).await;
                    !listening.is_empty()
                })
                .await;
            };
            tokio::select! {
                _ = &mut waiting => panic!("it is held"),
                () = asleep => {}
            }
            let (_, released) = tokio::join!(polled(waiting, 1 + more, drops), lock.release());
            released.unwrap();

            stage.is_clean().await;
            let next = locks.acquire(&name, Duration::from_secs(3), &options).await;
            next.expect("nothing is in the way")
                .release()
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_may_be_dropped_at_any_point_and_frees_the_lock() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;

    for (order, drops) in ORDERS
        .into_iter()
        .flat_map(|order| DROPS.map(|drops| (order, drops)))
    {
        for polls in 0..4 {
            let lock = take(&locks, &ordered(order)).await;
            drop(polled(lock.release(), polls, drops).await);
            stage.is_clean().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_lock_may_be_dropped_at_any_point_and_frees_the_lock() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;

    for drops in DROPS {
        for polls in 0..POLLS {
            let (options, name) = (LockOptions::default(), job());
            let call = locks.with_lock(&name, SOON, &options, async |_| {
                for _ in 0..POLLS {
                    tokio::task::yield_now().await;
                }
                Ok::<_, Error>(())
            });
            drop(polled(call, polls, drops).await);
            stage.is_clean().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_renewed_for_a_call_that_was_dropped() {
    let stage = need!(Alone::new().await);
    let locks = stage.locks().await;
    // Renewed every 100 ms, if at all.
    for order in ORDERS {
        for polls in 0..POLLS {
            let options = ttl_ms(300).order(order);
            let name = job();
            drop(
                polled(
                    locks.acquire(&name, SOON, &options),
                    polls,
                    Drops::WhenWoken,
                )
                .await,
            );
        }
    }
    stage.is_clean().await;

    let monitor = stage.server.monitor().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;

    let key = stage.key();
    assert_eq!(
        monitor.lines_with(key.as_str()).await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_dropped_on_a_thread_without_a_runtime_is_released() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let lock = take(&locks, &LockOptions::default()).await;

    std::thread::scope(|scope| _ = scope.spawn(move || drop(lock)).join());

    stage.is_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_outlives_its_runtime_is_released_when_it_is_dropped() {
    let stage = need!(Stage::new().await);
    let (url, prefix) = (stage.redis.url(), stage.prefix.clone());
    let made = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let redis = connect(&url, &prefix).await;
            let locks = coord_lock::Locks::new(&redis);
            take(&locks, &LockOptions::default()).await
        })
    });
    let lock = tokio::task::spawn_blocking(move || made.join()).await;
    let lock = lock.unwrap().unwrap();
    lock.check().unwrap();

    drop(lock);

    // Its runtime, and with it the connection that took the lock, are gone.
    eventually(SOON, "it is released", || async {
        stage.value().await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_the_release_of_what_was_dropped() {
    let stage = need!(Stage::new().await);
    let redis = connect(&stage.redis.url(), &stage.prefix).await;
    let locks = coord_lock::Locks::new(&redis);
    let held: Vec<_> = (0..50)
        .map(|n| coord_core::Name::new(format!("job {n}")).unwrap())
        .collect();
    let options = ordered(Order::Any);
    let mut taken = Vec::new();
    for name in &held {
        let attempt = locks.try_acquire(name, &options).await.unwrap();
        taken.push(attempt.acquired().expect("it is free"));
    }

    drop(taken);
    redis.shutdown(SOON).await.unwrap();

    let mut left = stage.keys().await;
    left.retain(|key| !key.ends_with(":record"));
    assert_eq!(left, Vec::<String>::new());
}
