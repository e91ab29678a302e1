//! Keeping a lock while renewals fail, and losing it in time.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_lock::{LockOptions, Released};
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{Alone, Faults, ORDERS, SOON, Stage, job, ordered, take, ttl_ms};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_cannot_be_renewed_is_lost_before_the_server_gives_it_away() {
    let stage = need!(Alone::new().await);
    let others = stage.locks().await;

    for order in ORDERS {
        let (proxy, locks) = stage.proxied().await;
        let lock = take(&locks, &ttl_ms(1000).order(order)).await;
        let waiting = tokio::spawn({
            let others = others.clone();
            async move {
                let lock = others.acquire(&job(), SOON, &ordered(order)).await;
                (lock, Instant::now())
            }
        });
        stage.waiting_becomes(1).await;

        proxy.hole();
        lock.check().unwrap();
        let lost = async {
            lock.lost().await;
            Instant::now()
        };
        let (lost_at, waited) = tokio::join!(lost, waiting);

        let (next, granted_at) = waited.unwrap();
        let next = next.unwrap();
        assert!(lock.valid_until() < granted_at);
        assert!(lost_at < lock.valid_until() + Duration::from_millis(500));
        assert_eq!(lock.check().unwrap_err().kind(), ErrorKind::Lost);
        proxy.heal().await;
        drop(lock);
        next.check().unwrap();
        next.release().await.unwrap();
        stage.is_clean().await;
    }
    let key = stage.key();
    let fields = [("lock", key.as_str()), ("cause", "expired")];
    recorder().events("redis.lock.lost", &fields, 2, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_shorter_than_the_ttl_keeps_the_lock() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;
    let lock = take(&locks, &ttl_ms(10_000)).await;
    eventually(SOON, "a renewal is near", || async {
        lock.valid_until() - Instant::now() < Duration::from_millis(6800)
    })
    .await;

    proxy.refuse().await;
    proxy.cut().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    proxy.heal().await;

    let before = lock.valid_until();
    eventually(SOON, "it is renewed", || async {
        lock.valid_until() > before
    })
    .await;
    lock.check().unwrap();
    assert!(stage.pttl().await > 2000);
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_whose_answer_is_lost_is_repeated_and_the_next_ones_go_on() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;
    let lock = take(&locks, &ttl_ms(1500)).await;
    let value = stage.value().await;

    for _ in 0..2 {
        let before = lock.valid_until();
        // The renewal alone compares the whole value.
        proxy.lose_reply_to(&value).await;
        eventually(SOON, "it is renewed", || async {
            lock.valid_until() > before
        })
        .await;
    }

    lock.check().unwrap();
    assert_eq!(stage.value().await, value);
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_fails_touches_nothing_and_the_next_one_succeeds() {
    let stage = need!(Alone::new().await);
    let locks = stage.locks().await;
    let lock = take(&locks, &ttl_ms(20_000)).await;
    let (value, before) = (stage.value().await, lock.valid_until());

    stage.server.pause().await;
    let error = lock.renew().await.expect_err("nobody answers");
    stage.server.resume().await;

    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(lock.valid_until(), before);
    lock.check().unwrap();
    assert_eq!(stage.value().await, value);
    eventually(SOON, "a renewal succeeds", || async {
        lock.renew().await.is_ok()
    })
    .await;
    assert!(lock.valid_until() > before);
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_comes_too_late_writes_nothing() {
    let stage = need!(Alone::new().await);
    let others = stage.locks().await;
    let (proxy, locks) = stage.proxied().await;

    for order in ORDERS {
        let lock = take(&locks, &ttl_ms(500).order(order)).await;
        let value = stage.value().await;
        let (token, _) = value.split_once(':').unwrap();
        proxy.hole();
        tokio::time::timeout(SOON, lock.lost()).await.unwrap();
        let next = others.acquire(&job(), SOON, &ordered(order)).await.unwrap();
        proxy.heal().await;
        eventually(SOON, "its owner is connected again", || async {
            locks.inspect(&job()).await.is_ok()
        })
        .await;
        let (theirs, pttl) = (stage.value().await, stage.pttl().await);
        let monitor = stage.server.monitor().await.unwrap();

        let renewed = lock.renew().await.expect_err("it is lost");
        assert_eq!(renewed.kind(), ErrorKind::Lost);
        let asked = monitor.lines_with(token).await.unwrap();
        assert_eq!(asked, Vec::<String>::new(), "there was nothing to ask");
        let released = lock.release().await.unwrap();

        assert_eq!(released, Released::HeldByOther);
        assert_eq!(stage.value().await, theirs);
        assert!(stage.pttl().await <= pttl);
        next.check().unwrap();
        next.release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_past_its_ttl_finds_its_lock_lost_and_frees_nobodys() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let mut node = stage.node().await;
    node.send("acquire job any 700 5000").await.unwrap();
    node.line_starting("acquired", SOON).await;

    node.pause().await;
    let lock = locks.acquire(&job(), SOON, &LockOptions::default()).await;
    let lock = lock.expect("the other one is asleep");
    node.resume().await;

    node.send("check").await.unwrap();
    node.line_starting("lost", SOON).await;
    node.send("release").await.unwrap();
    node.line_starting("held by other", SOON).await;
    lock.check().unwrap();
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
}

#[tokio::test(flavor = "current_thread")]
async fn a_runtime_that_is_blocked_does_not_hold_up_renewals() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let lock = take(&locks, &ttl_ms(900)).await;

    std::thread::sleep(Duration::from_secs(3));

    lock.check().unwrap();
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_vanished_is_told_by_the_next_renewal() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let lock = take(&locks, &ttl_ms(3000)).await;

    stage.ask(&["DEL", stage.key().as_str()]).await;
    tokio::time::timeout(SOON, lock.lost()).await.unwrap();

    assert!(
        Instant::now() < lock.valid_until(),
        "it did not wait for that"
    );
    assert_eq!(stage.value().await, "", "nobody wrote it anew");
    assert_eq!(lock.release().await.unwrap(), Released::Gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lock_is_reported_at_once_and_once() {
    let stage = need!(Alone::new().await);
    let key = stage.key();
    let (lock_is, lease_is) = ([("lock", key.as_str())], [("lease", key.as_str())]);
    let reported = || recorder().seen("redis.lock.lost", &lock_is).len();

    for (round, cause) in ["revoked", "expired"].into_iter().enumerate() {
        let (proxy, locks) = stage.proxied().await;
        let lock = take(&locks, &ttl_ms(1000)).await;
        if cause == "revoked" {
            stage.ask(&["DEL", key.as_str()]).await;
        } else {
            proxy.hole();
        }

        let fields = [("lock", key.as_str()), ("cause", cause)];
        recorder().event("redis.lock.lost", &fields, SOON).await;
        lock.check().unwrap_err();
        proxy.heal().await;
        if cause == "revoked" {
            assert_eq!(lock.release().await.unwrap(), Released::Gone);
        } else {
            drop(lock);
        }

        stage.is_clean().await;
        assert_eq!(reported(), round + 1);
    }
    let by_lease = recorder().seen("redis.resource_lease.lost", &lease_is);
    assert_eq!(by_lease, [], "one loss is one page");
}
