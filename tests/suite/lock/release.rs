//! Giving a lock back.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_lock::{LockOptions, Locks, Released};
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;

use super::{Alone, DEADLINE, Faults, ORDERS, SOON, Stage, connect, job, ordered, take};

#[tokio::test(flavor = "multi_thread")]
async fn a_release_never_frees_the_lock_of_a_successor() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    let key = stage.key();

    for order in ORDERS {
        let first = take(&mine, &ordered(order)).await;
        stage.ask(&["DEL", key.as_str()]).await;
        let second = take(&theirs, &ordered(order)).await;

        assert_eq!(first.release().await.unwrap(), Released::HeldByOther);
        second.check().unwrap();
        assert_eq!(second.release().await.unwrap(), Released::Freed);

        let leaving = connect(&stage.redis.url(), &stage.prefix).await;
        let first = take(&Locks::new(&leaving), &ordered(order)).await;
        stage.ask(&["DEL", key.as_str()]).await;
        let second = take(&theirs, &ordered(order)).await;
        drop(first);
        // Which waits for the release of the first.
        leaving.shutdown(SOON).await.unwrap();
        second.renew().await.unwrap();
        assert_eq!(second.release().await.unwrap(), Released::Freed);
    }
    let fields = [("lock", key.as_str()), ("outcome", "held_by_other")];
    recorder()
        .events("redis.lock.released", &fields, 2, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_gone_is_said_to_be_gone() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let key = stage.key();

    for order in ORDERS {
        let lock = take(&locks, &ordered(order)).await;
        stage.ask(&["DEL", key.as_str()]).await;

        assert_eq!(lock.release().await.unwrap(), Released::Gone);
        stage.is_clean().await;
    }
    let fields = [("lock", key.as_str()), ("cause", "revoked")];
    recorder().events("redis.lock.lost", &fields, 2, SOON).await;
    let fields = [("lock", key.as_str()), ("outcome", "gone")];
    recorder()
        .events("redis.lock.released", &fields, 2, SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_answer_is_lost_counts_as_done() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;

    for order in ORDERS {
        let lock = take(&locks, &ordered(order)).await;
        let token = stage.value().await;
        let token = token.split_once(':').unwrap().0;
        let lost = proxy.lose_reply_to(token);

        let released = lock.release().await.unwrap();

        lost.await;
        assert_eq!(released, Released::Freed);
        stage.is_clean().await;
    }
    let key = stage.key();
    let lost = recorder().seen("redis.lock.lost", &[("lock", key.as_str())]);
    assert_eq!(lost, Vec::new(), "nothing was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_nobody_answers_goes_on_in_the_background() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;

    for order in ORDERS {
        let lock = take(&locks, &ordered(order)).await;
        proxy.hole();
        let error = lock.release().await.expect_err("nobody answers");
        assert!(matches!(
            error.kind(),
            ErrorKind::Timeout | ErrorKind::Unavailable
        ));
        assert_ne!(stage.value().await, "");

        proxy.heal().await;

        eventually(SOON, "it is released long before its TTL", || async {
            stage.value().await.is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_dropped_during_an_outage_is_released_after_it() {
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;
    let lock = take(&locks, &LockOptions::default()).await;
    proxy.refuse().await;
    proxy.cut().await;

    drop(lock);
    tokio::time::sleep(DEADLINE + Duration::from_millis(500)).await;
    assert_ne!(stage.value().await, "");
    proxy.heal().await;

    eventually(SOON, "it is released long before its TTL", || async {
        stage.value().await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_the_work_stands_whatever_the_release_says() {
    #[derive(Debug, PartialEq)]
    enum Failure {
        Work,
        Lock(ErrorKind),
    }
    impl From<coord_core::Error> for Failure {
        fn from(error: coord_core::Error) -> Self {
            Self::Lock(error.kind())
        }
    }
    let stage = need!(Alone::new().await);
    let (proxy, locks) = stage.proxied().await;
    let key = stage.key();
    let (name, options) = (job(), LockOptions::default());

    let done = locks.with_lock(&name, SOON, &options, async |_| {
        stage.ask(&["DEL", key.as_str()]).await;
        Err::<(), _>(Failure::Work)
    });
    assert_eq!(done.await, Err(Failure::Work));

    let done = locks.with_lock(&name, SOON, &options, async |_| {
        stage.ask(&["DEL", key.as_str()]).await;
        Ok::<_, Failure>(7)
    });
    assert_eq!(done.await, Ok(7));

    let done = locks.with_lock(&name, SOON, &options, async |_| {
        proxy.hole();
        Err::<(), _>(Failure::Work)
    });
    assert_eq!(done.await, Err(Failure::Work));
    proxy.heal().await;
    eventually(SOON, "it is released", || async {
        stage.value().await.is_empty()
    })
    .await;

    let held = take(&stage.locks().await, &options).await;
    let wait = Duration::from_millis(50);
    let done = locks.with_lock(&name, wait, &options, async |_| Ok::<_, Failure>(7));
    assert_eq!(done.await, Err(Failure::Lock(ErrorKind::Contended)));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_dropped_where_it_stands_when_its_lock_is_lost() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let (started, mut begun) = tokio::sync::oneshot::channel();
    let (alive, mut dropped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn({
        let locks = locks.clone();
        async move {
            let options = super::ttl_ms(900);
            let work = async move |lock: &coord_lock::Lock| {
                let _alive = alive;
                _ = started.send(lock.fence());
                std::future::pending::<Result<(), coord_core::Error>>().await
            };
            locks.with_lock(&job(), SOON, &options, work).await
        }
    });
    let fence = (&mut begun).await.unwrap();
    assert!(
        dropped
            .try_recv()
            .is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty)
    );

    let operator = coord_core::Name::new("alice").unwrap();
    locks.force_release(&job(), fence, &operator).await.unwrap();

    let error = working.await.unwrap().expect_err("it is lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(dropped.await.is_err(), "the work is gone");
    stage.is_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_panics_releases_its_lock() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;

    let working = tokio::spawn({
        let locks = locks.clone();
        async move {
            let work = async |_: &coord_lock::Lock| -> Result<(), coord_core::Error> {
                panic!("on purpose")
            };
            let options = LockOptions::default();
            locks.with_lock(&job(), SOON, &options, work).await
        }
    });

    assert!(working.await.unwrap_err().is_panic());
    stage.is_clean().await;
}
