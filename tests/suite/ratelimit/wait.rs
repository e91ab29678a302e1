//! Waiting for permits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_ratelimit::{By, Decision, Limiter, Subject};
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Alone, DAY, SOON, Stage, each_algorithm, gcra, name, retry_after, subject};

/// Takes all that is there.
async fn drained(limiter: &Limiter, subject: &Subject) {
    let capacity = limiter.limits()[0].capacity();
    let decision = limiter.try_acquire(subject, capacity).await.unwrap();
    assert!(decision.is_allowed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_its_permit_when_it_is_there() {
    let stage = need!(Alone::new().await);
    for (number, limit) in each_algorithm(2, Duration::from_millis(400))
        .into_iter()
        .enumerate()
    {
        let limiter = stage.limiter([limit]).await;
        let subject = subject(&format!("there-{number}"));
        drained(&limiter, &subject).await;
        let monitor = stage.server.monitor().await.unwrap();

        let decision = limiter.acquire(&subject, 1, SOON).await.unwrap();

        assert!(decision.is_allowed());
        let calls = monitor.lines_with("EVALSHA").await.unwrap();
        assert_eq!(calls.len(), 2, "it asked, slept, and asked again");
    }
    recorder().event("redis.ratelimit.wait", &[], SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_ready_to_wait_for_ever_gets_a_permit_when_it_is_there() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(1, Duration::from_millis(400))]).await;
    let subject = subject("for-ever");
    drained(&limiter, &subject).await;

    let decision = limiter.acquire(&subject, 1, Duration::MAX).await.unwrap();

    assert!(decision.is_allowed());
}

// On one thread, tasks start in the order in which they were spawned.
#[tokio::test]
async fn those_who_wait_are_served_in_the_order_of_their_arrival_whatever_they_ask_for() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(20, Duration::from_millis(400))]).await;
    let subject = subject("order");
    drained(&limiter, &subject).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = JoinSet::new();

    for (place, permits) in [15, 1, 5, 1, 10, 1].into_iter().enumerate() {
        let (limiter, subject) = (limiter.clone(), subject.clone());
        let served = Arc::clone(&served);
        waiting.spawn(async move {
            let decision = limiter.acquire(&subject, permits, SOON).await.unwrap();
            assert!(decision.is_allowed());
            served.lock().unwrap().push(place);
        });
    }
    waiting.join_all().await;

    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_cannot_end_in_time_is_not_begun() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(1, DAY)]).await;
    drained(&limiter, &subject("late")).await;

    let start = Instant::now();
    let decision = limiter.acquire(&subject("late"), 1, SOON).await.unwrap();
    let once = limiter
        .acquire(&subject("late"), 1, Duration::ZERO)
        .await
        .unwrap();

    assert!(start.elapsed() < SOON);
    assert!(retry_after(&decision) > SOON);
    assert!(!once.is_allowed());
    assert!(
        limiter
            .acquire(&subject("else"), 1, Duration::ZERO)
            .await
            .unwrap()
            .is_allowed()
    );
    let limit = stage
        .client()
        .await
        .keys()
        .key("ratelimit", &[&name("late")]);
    let limit = limit.part_for("gcra", &name("limit"));
    recorder()
        .events(
            "redis.ratelimit.timeout",
            &[("limit", limit.as_str())],
            2,
            SOON,
        )
        .await;
}

/// Waits behind a first waiter that has all the time there is.
async fn behind(limiter: &Limiter, subject: &Subject) -> tokio::task::JoinHandle<Decision> {
    let (first, of) = (limiter.clone(), subject.clone());
    let first = tokio::spawn(async move { first.acquire(&of, 1, DAY * 2).await.unwrap() });
    // It was told that nothing is there, so it waits.
    let before = recorder().count("redis.ratelimit.decided", &[("by", "line")]);
    eventually(SOON, "the first one has its turn", || async {
        let second = limiter
            .acquire(subject, 1, Duration::from_millis(20))
            .await
            .unwrap();
        assert!(!second.is_allowed());
        second.by() == Some(By::Line)
    })
    .await;
    assert!(recorder().count("redis.ratelimit.decided", &[("by", "line")]) > before);
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_does_not_come_within_the_wait_is_a_denial() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(1, DAY)]).await;
    drained(&limiter, &subject("turn")).await;

    let first = behind(&limiter, &subject("turn")).await;
    let start = Instant::now();
    let wait = Duration::from_millis(100);
    let decision = limiter.acquire(&subject("turn"), 1, wait).await.unwrap();

    assert_eq!(decision.by(), Some(By::Line));
    assert!(start.elapsed() >= wait);
    assert!(!first.is_finished());
    first.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_dropped_frees_its_place_wherever_it_stood() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(1, DAY)]).await;
    let subject = subject("dropped");
    drained(&limiter, &subject).await;
    let first = behind(&limiter, &subject).await;
    let spawn = || {
        let (limiter, subject) = (limiter.clone(), subject.clone());
        tokio::spawn(async move { limiter.acquire(&subject, 1, SOON).await.unwrap() })
    };
    let (middle, last) = (spawn(), spawn());

    limiter.reset(&subject).await.unwrap();
    middle.abort();
    first.abort();

    assert!(last.await.unwrap().is_allowed());
}
