//! Waiting for a lock that somebody else has.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_lock::{LockOptions, Order};
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{Alone, Faults, ORDERS, SOON, Stage, job, ordered, take, ttl_ms};

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_lock_when_it_is_released_and_not_when_it_would_end() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);

    for order in ORDERS {
        let lock = take(&mine, &ordered(order)).await;
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move { theirs.acquire(&job(), SOON * 3, &ordered(order)).await }
        });
        stage.waiting_becomes(1).await;

        let released = Instant::now();
        lock.release().await.unwrap();
        let lock = waiting.await.unwrap().unwrap();

        assert!(released.elapsed() < Duration::from_secs(5), "{order:?}");
        lock.check().unwrap();
        // At once, or by the first renewal of an offer that was taken as it stood.
        eventually(SOON, "it has its whole TTL", || async {
            stage.pttl().await > 20_000
        })
        .await;
        lock.release().await.unwrap();
        stage.is_clean().await;
        let key = stage.key();
        let fields = [("lock", key.as_str())];
        recorder().event("redis.lock.wait", &fields, SOON).await;
        recorder().event("redis.lock.held", &fields, SOON).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_ready_to_wait_for_ever_gets_the_lock_when_it_is_released() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);

    for order in ORDERS {
        let lock = take(&mine, &ordered(order)).await;
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move { theirs.acquire(&job(), Duration::MAX, &ordered(order)).await }
        });
        stage.waiting_becomes(1).await;
        lock.release().await.unwrap();

        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_in_vain_is_told_by_the_deadline_that_others_had_it() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);

    for order in ORDERS {
        let lock = take(&mine, &ordered(order)).await;
        for wait in [
            Duration::ZERO,
            Duration::from_millis(50),
            Duration::from_millis(600),
        ] {
            let start = Instant::now();
            let error = theirs.acquire(&job(), wait, &ordered(order)).await;
            let error = error.expect_err("it is held");

            assert_eq!(error.kind(), ErrorKind::Contended);
            assert!(start.elapsed() >= wait);
            assert!(start.elapsed() < wait + Duration::from_secs(5));
            assert!(error.message().contains("unnamed"), "{error}");
        }
        let wait = Duration::from_millis(50);
        let body = async |_: &coord_lock::Lock| panic!("others have the lock");
        let error: coord_core::Result<()> =
            theirs.with_lock(&job(), wait, &ordered(order), body).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Contended);
        lock.check().unwrap();
        lock.release().await.unwrap();
        stage.is_clean().await;
        let key = stage.key();
        let fields = [
            ("lock", key.as_str()),
            ("order", if order == Order::Any { "any" } else { "fifo" }),
        ];
        recorder().event("redis.lock.timeout", &fields, SOON).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_hears_of_no_deletion_and_has_the_lock_a_second_after_its_ttl() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    let ttl = Duration::from_secs(1);

    for order in ORDERS {
        let lock = take(&mine, &ttl_ms(1000).order(order)).await;
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move {
                theirs
                    .acquire(&job(), SOON, &ttl_ms(30_000).order(order))
                    .await
            }
        });
        stage.waiting_becomes(1).await;

        let deleted = Instant::now();
        stage.ask(&["DEL", stage.key().as_str()]).await;
        let next = waiting.await.unwrap().unwrap();

        assert!(
            deleted.elapsed() < ttl + Duration::from_secs(1),
            "{order:?}"
        );
        tokio::time::timeout(SOON, lock.lost()).await.unwrap();
        next.check().unwrap();
        drop(lock);
        next.release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_process_that_was_killed_goes_on_a_second_after_its_ttl() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;

    for (order, word) in [(Order::Any, "any"), (Order::Fifo, "fifo")] {
        let mut node = stage.node().await;
        node.send(&format!("acquire job {word} 1500 5000"))
            .await
            .unwrap();
        node.line_starting("acquired", SOON).await;
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { locks.acquire(&job(), SOON, &ordered(order)).await }
        });
        stage.waiting_becomes(1).await;
        // It is renewed for longer than its TTL.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!waiting.is_finished());

        let killed = Instant::now();
        node.kill().await;
        let lock = waiting.await.unwrap().unwrap();

        assert!(killed.elapsed() < Duration::from_millis(2500), "{order:?}");
        lock.release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_announced_while_the_subscription_is_down_is_found_when_it_is_back() {
    let stage = need!(Alone::new().await);
    let mine = stage.locks().await;

    for order in ORDERS {
        let (proxy, theirs) = stage.proxied().await;
        let lock = take(&mine, &ordered(order)).await;
        let waiting =
            tokio::spawn(async move { theirs.acquire(&job(), SOON * 3, &ordered(order)).await });
        stage.waiting_becomes(1).await;

        proxy.refuse().await;
        proxy.cut().await;
        lock.release().await.unwrap();
        proxy.heal().await;

        let lock = tokio::time::timeout(SOON, waiting).await;
        let lock = lock.expect("long before the TTL").unwrap().unwrap();
        lock.release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_release_is_missed_however_it_falls_between_asking_and_listening() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);

    for order in ORDERS {
        let start = Instant::now();
        for round in 0..200_u64 {
            let lock = take(&mine, &ordered(order)).await;
            let (options, name) = (ordered(order), job());
            let (waited, released) = tokio::join!(theirs.acquire(&name, SOON, &options), async {
                tokio::time::sleep(Duration::from_micros(round % 50 * 60)).await;
                lock.release().await
            });
            released.unwrap();
            waited.unwrap().release().await.unwrap();
        }
        // A message that is missed costs the TTL of 30 s.
        assert!(start.elapsed() < Duration::from_secs(25), "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_goes_on_over_a_restart_of_the_server() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);

    for order in ORDERS {
        let lock = take(&mine, &ordered(order)).await;
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move { theirs.acquire(&job(), SOON * 2, &ordered(order)).await }
        });
        stage.waiting_becomes(1).await;

        // Without its data: the lock is gone with it.
        stage.server.restart().await;

        let next = tokio::time::timeout(SOON, waiting).await;
        let next = next.expect("long before the TTL").unwrap().unwrap();
        drop(lock);
        next.check().unwrap();
        next.release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_of_one_process_listen_on_one_connection_and_all_get_their_turn() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);

    for order in ORDERS {
        let lock = take(&mine, &ordered(order)).await;
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let theirs = theirs.clone();
            waiting.spawn(async move {
                let lock = theirs.acquire(&job(), SOON * 2, &ordered(order)).await;
                lock.expect("its turn comes").release().await
            });
        }
        let places = if order == Order::Any { 1 } else { 20 };
        stage.waiting_becomes(places).await;
        eventually(SOON, "they listen on one connection", || async {
            let listening = stage.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
            listening.lines().count() == 1
        })
        .await;

        lock.release().await.unwrap();

        for released in waiting.join_all().await {
            released.unwrap();
        }
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_polls_while_the_lock_is_held() {
    for order in ORDERS {
        let stage = need!(Alone::new().await);
        let (mine, theirs) = (stage.locks().await, stage.locks().await);
        let lock = take(&mine, &ordered(order)).await;
        let monitor = stage.server.monitor().await.unwrap();
        let key = stage.key();
        let asked = async || {
            let mut lines = monitor.lines_with(key.as_str()).await.unwrap();
            lines.retain(|line| line.contains("\"EVALSHA\""));
            lines
        };
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move { theirs.acquire(&job(), SOON, &ordered(order)).await }
        });
        // It asks, subscribes, asks again, and goes to sleep.
        eventually(SOON, "it has asked twice", || async {
            asked().await.len() >= 2
        })
        .await;

        let before = asked().await;
        tokio::time::sleep(Duration::from_secs(2)).await;

        assert_eq!(asked().await, before, "{order:?}");
        lock.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_lock_is_in_its_guard_alone() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let options = LockOptions::default();
    let mut held = Vec::new();
    for n in 0..1000 {
        let name = coord_core::Name::new(format!("job {n}")).unwrap();
        let attempt = locks.try_acquire(&name, &options).await.unwrap();
        held.push(attempt.acquired().expect("it is free"));
    }

    drop(locks);

    for lock in held {
        lock.check().unwrap();
        lock.renew().await.unwrap();
        assert_eq!(lock.release().await.unwrap(), coord_lock::Released::Freed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_again_soon_asks_once_and_is_subscribed_already() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    let key = stage.key();

    for order in ORDERS {
        let fewest = match order {
            // It asks, there is the release, and it asks again.
            Order::Any => (3, 0),
            // It asks, and the release grants it.
            Order::Fifo => (2, 0),
        };
        let mut asked = Vec::new();
        // Once would do on a machine that has the time to wait again soon.
        while asked.len() < 2 || (asked.len() < 10 && asked.last() != Some(&fewest)) {
            let lock = take(&mine, &ordered(order)).await;
            let monitor = stage.server.monitor().await.unwrap();
            let waiting = tokio::spawn({
                let theirs = theirs.clone();
                async move { theirs.acquire(&job(), SOON, &ordered(order)).await }
            });
            stage.waiting_becomes(1).await;
            lock.release().await.unwrap();
            let lock = waiting.await.unwrap().unwrap();
            let lines = monitor.lines_with(key.as_str()).await.unwrap();
            asked.push((counted(&lines, "EVAL"), counted(&lines, "SUBSCRIBE")));
            lock.release().await.unwrap();
            stage.waiting_becomes(0).await;
        }

        assert_eq!(asked[0].1, 1, "{order:?}: {asked:?}");
        assert_eq!(asked.last(), Some(&fewest), "{order:?}: {asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_ends_a_moment_after_its_last_waiter_left() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);

    for order in ORDERS {
        let lock = take(&mine, &ordered(order)).await;
        let waited = theirs
            .acquire(&job(), Duration::from_millis(200), &ordered(order))
            .await;

        assert_eq!(waited.unwrap_err().kind(), ErrorKind::Contended);
        eventually(SOON, "nobody listens", || async {
            let listening = stage.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
            listening.is_empty()
        })
        .await;
        lock.release().await.unwrap();
    }
}

/// How many of the lines of a monitor are calls of clients that begin with `verb`.
fn counted(lines: &[String], verb: &str) -> usize {
    let verb = format!("] \"{verb}");
    let is_call = |line: &&String| line.contains(&verb) && !line.contains(" lua]");
    lines.iter().filter(is_call).count()
}
