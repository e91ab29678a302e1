//! Taking a lock while connections and servers break.

use std::time::Duration;

use coord_core::{ErrorKind, Name};
use coord_lock::{LockOptions, Locks, Owner, Released};
use coord_redis::Redis;
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{Alone, DEADLINE, Faults, ORDERS, SOON, config, is_held, job, ordered, take, ttl_ms};

/// A word that only the requests of this owner to take a lock contain.
const MARK: &str = "who-asks-here";

fn marked() -> LockOptions {
    LockOptions::default().owner(&Owner::new(Name::new(MARK).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_paused_server_grants_too_late_is_released_once_it_goes_on() {
    let stage = need!(Alone::new().await);
    let (locks, others) = (stage.locks().await, stage.locks().await);
    for order in ORDERS {
        // Both scripts are known.
        take(&locks, &ordered(order)).await.release().await.unwrap();

        stage.server.pause().await;
        let error = locks.try_acquire(&job(), &ordered(order)).await;
        let error = error.expect_err("nobody answers");
        tokio::time::sleep(Duration::from_millis(200)).await;
        stage.server.resume().await;

        assert_eq!(error.kind(), ErrorKind::Timeout);
        let start = Instant::now();
        let lock = others.acquire(&job(), SOON, &ordered(order)).await.unwrap();
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "long before the TTL"
        );
        lock.release().await.unwrap();
        stage.is_clean().await;
    }
    let key = stage.key();
    let fields = [("lock", key.as_str())];
    recorder()
        .events("redis.lock.unavailable", &fields, 2, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_outlasts_a_pause_of_the_server_ends_with_the_lock() {
    let stage = need!(Alone::new().await);
    let locks = stage.locks().await;

    for order in ORDERS {
        take(&locks, &ordered(order)).await.release().await.unwrap();
        stage.server.pause().await;
        let (name, options) = (job(), ordered(order));
        let (lock, ()) = tokio::join!(locks.acquire(&name, SOON, &options), async {
            // Longer than a call may take: the first one is given up.
            tokio::time::sleep(DEADLINE + Duration::from_millis(300)).await;
            stage.server.resume().await;
        });

        let lock = lock.unwrap();
        lock.check().unwrap();
        assert!(is_held(&locks.try_acquire(&name, &options).await.unwrap()));
        lock.release().await.unwrap();
        stage.is_clean().await;
        // Nothing of the attempts that were given up comes back.
        let next = locks.acquire(&name, SOON, &options).await.unwrap();
        next.release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_pause_shorter_than_the_deadline_is_only_slow() {
    let stage = need!(Alone::new().await);
    let locks = stage.locks().await;
    stage.ask(&["CLIENT", "PAUSE", "400", "ALL"]).await;

    let lock = take(&locks, &LockOptions::default()).await;

    lock.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_answer_is_lost_recognizes_its_own_grant() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;

    for order in ORDERS {
        let options = marked().order(order);
        take(&locks, &options).await.release().await.unwrap();
        let monitor = stage.server.monitor().await.unwrap();
        let lost = proxy.lose_reply_to(MARK);

        let start = Instant::now();
        let lock = take(&locks, &options).await;

        lost.await;
        assert!(start.elapsed() < SOON, "it does not wait for itself");
        let value = stage.value().await;
        assert!(value.ends_with(&format!(":{}", lock.fence())));
        let asked = monitor.lines_with(MARK).await.unwrap();
        let asked: Vec<_> = asked
            .iter()
            .filter(|line| line.contains("EVALSHA"))
            .collect();
        let (token, _) = value.split_once(':').unwrap();
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|line| line.contains(token)));
        assert_eq!(lock.release().await.unwrap(), Released::Freed);
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_never_arrived_is_repeated() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;

    for order in ORDERS {
        let options = marked().order(order);
        let cut = proxy.cut_before(MARK);

        let lock = take(&locks, &options).await;

        cut.await;
        assert_eq!(lock.release().await.unwrap(), Released::Freed);
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_answer_is_lost_keeps_its_place_and_gets_the_lock() {
    let stage = need!(Alone::new().await);
    let others = stage.locks().await;
    let (proxy, locks) = stage.proxied().await;

    for order in ORDERS {
        let options = marked().order(order);
        let lock = take(&others, &ordered(order)).await;
        // The first question, and the one after the subscription.
        let (first, second) = (proxy.lose_reply_to(MARK), proxy.lose_reply_to(MARK));
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { locks.acquire(&job(), SOON, &options).await }
        });
        first.await;
        second.await;
        stage.waiting_becomes(1).await;

        lock.release().await.unwrap();

        let lock = waiting.await.unwrap().unwrap();
        lock.release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_arrives_after_its_caller_gave_up_is_undone() {
    let stage = need!(Alone::new().await);
    let others = stage.locks().await;
    let proxy = FaultProxy::start(stage.server.addr()).await;
    // One that does not take the connection for dead meanwhile.
    let patient = config(&proxy.url(), &stage.prefix).ping_interval(SOON);
    let locks = Locks::new(&Redis::connect(patient).await.unwrap());

    for order in ORDERS {
        let options = marked().order(order);
        let mut hold = proxy.hold_request(MARK);
        let error = locks.try_acquire(&job(), &options).await;
        let error = error.expect_err("it never arrived");
        hold.reached().await;
        assert_eq!(error.kind(), ErrorKind::Timeout);

        hold.release();

        // It may be executed now: on its heels comes the release.
        let next = others.acquire(&job(), SOON, &ordered(order)).await.unwrap();
        next.release().await.unwrap();
        eventually(Duration::from_secs(5), "the late claim is gone", || async {
            stage.value().await.is_empty()
        })
        .await;
        proxy.heal().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_executed_after_the_lock_was_released_is_undone() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;

    for order in ORDERS {
        let options = marked().order(order);
        take(&locks, &options).await.release().await.unwrap();
        // Its connection is taken for dead; the repetition on the next one is granted.
        let mut hold = proxy.hold_request(MARK);
        let name = job();
        let (lock, _) = tokio::join!(locks.acquire(&name, SOON, &options), hold.reached());
        assert_eq!(lock.unwrap().release().await.unwrap(), Released::Freed);

        let monitor = stage.server.monitor().await.unwrap();
        hold.release();

        eventually(Duration::from_secs(5), "it is not there", || async {
            stage.value().await.is_empty()
        })
        .await;
        let late = monitor.lines_with(MARK).await.unwrap();
        if !late.is_empty() {
            // It was executed: and undone since.
            stage.is_clean().await;
        }
        proxy.heal().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_dead_server_every_call_ends_by_its_deadline_and_says_that_nobody_was_there() {
    let stage = need!(Alone::new().await);
    let (locks, others) = (stage.locks().await, stage.locks().await);
    let held = take(&others, &LockOptions::default()).await;
    let wait = Duration::from_millis(600);
    let within = |start: Instant, limit: Duration| {
        assert!(start.elapsed() < limit + Duration::from_secs(2));
    };

    for order in ORDERS {
        let start = Instant::now();
        let error = locks.acquire(&job(), wait, &ordered(order)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Contended);
        within(start, wait);
    }
    stage.server.kill().await;
    for order in ORDERS {
        let start = Instant::now();
        let error = locks.acquire(&job(), wait, &ordered(order)).await;
        let kind = error.unwrap_err().kind();
        // What was under way when the server died may have been executed.
        assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout));
        within(start, wait);

        let start = Instant::now();
        let error = locks.acquire(&job(), wait, &ordered(order)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
        within(start, wait);

        let start = Instant::now();
        let error = locks.try_acquire(&job(), &ordered(order)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
        within(start, DEADLINE);

        let body = async |_: &coord_lock::Lock| panic!("nobody has the lock");
        let error: coord_core::Result<()> =
            locks.with_lock(&job(), wait, &ordered(order), body).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_hole_every_call_ends_by_its_deadline_and_nothing_is_left_afterwards() {
    let stage = need!(Alone::new().await);

    for order in ORDERS {
        let (proxy, locks) = stage.proxied().await;
        take(&locks, &ordered(order)).await.release().await.unwrap();
        // Requests are executed, and nobody learns of it.
        proxy.hole_down();

        let start = Instant::now();
        let wait = Duration::from_millis(1500);
        let error = locks
            .acquire(&job(), wait, &ordered(order))
            .await
            .unwrap_err();

        assert!(matches!(
            error.kind(),
            ErrorKind::Timeout | ErrorKind::Unavailable
        ));
        assert!(start.elapsed() < wait + Duration::from_secs(2));
        proxy.heal().await;
        eventually(Duration::from_secs(5), "it is undone", || async {
            stage.value().await.is_empty() && stage.waiting().await == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_goes_on_over_an_outage() {
    let stage = need!(Alone::new().await);

    for order in ORDERS {
        let (proxy, locks) = stage.proxied().await;
        proxy.refuse().await;
        proxy.cut().await;
        let (name, options) = (job(), ordered(order));
        let (lock, ()) = tokio::join!(locks.acquire(&name, SOON, &options), async {
            tokio::time::sleep(DEADLINE + Duration::from_millis(300)).await;
            proxy.heal().await;
        });

        lock.unwrap().release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_after_the_ttl_is_no_grant() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;

    for order in ORDERS {
        take(&locks, &ordered(order)).await.release().await.unwrap();
        proxy.delay_replies(Duration::from_millis(150));
        let error = locks.try_acquire(&job(), &ttl_ms(100).order(order)).await;

        assert_eq!(error.unwrap_err().kind(), ErrorKind::Lost);
        proxy.heal().await;
        stage.is_clean().await;
    }
}
