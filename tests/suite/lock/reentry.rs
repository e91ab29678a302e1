//! Asking for a lock that one has already.

use std::time::Duration;

use coord_core::{Error, ErrorKind, Name};
use coord_lock::{LockOptions, Locks};
use coord_tests::need;
use tokio::time::Instant;

use super::{SOON, Stage, job, take};

const WAIT: Duration = Duration::from_millis(100);

async fn asked_again(locks: &Locks) -> [ErrorKind; 3] {
    let (name, options) = (job(), LockOptions::default());
    let nested = locks.with_lock(&name, SOON, &options, async |_| Ok::<_, Error>(()));
    [
        locks
            .acquire(&name, SOON, &options)
            .await
            .unwrap_err()
            .kind(),
        locks.try_acquire(&name, &options).await.unwrap_err().kind(),
        nested.await.unwrap_err().kind(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lock_is_refused_that_lock_at_once() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let (name, other) = (job(), Name::new("other").unwrap());
    let options = LockOptions::default();
    let start = Instant::now();

    let done = locks.with_lock(&name, SOON, &options, async |_| {
        assert_eq!(asked_again(&locks).await, [ErrorKind::Invalid; 3]);
        locks
            .clone()
            .with_lock(&other, SOON, &options, async |_| {
                assert_eq!(asked_again(&locks).await, [ErrorKind::Invalid; 3]);
                Ok::<_, Error>(())
            })
            .await
    });

    Box::pin(done).await.unwrap();
    assert!(start.elapsed() < SOON);
    // Afterwards it is like any other.
    take(&locks, &options).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_task_and_another_client_wait_like_anybody_else() {
    let stage = need!(Stage::new().await);
    let (locks, others) = (stage.locks().await, stage.locks().await);
    let (name, options) = (job(), LockOptions::default());

    let done = locks.with_lock(&name, SOON, &options, async |_| {
        let spawned = tokio::spawn({
            let (locks, name, options) = (locks.clone(), name.clone(), options.clone());
            async move { locks.acquire(&name, WAIT, &options).await }
        });
        assert_eq!(
            spawned.await.unwrap().unwrap_err().kind(),
            ErrorKind::Contended
        );
        let error = others.acquire(&name, WAIT, &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contended);
        Ok::<_, Error>(())
    });

    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_holds_a_lock_by_its_guard_and_asks_again_waits_no_longer_than_it_said() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let lock = take(&locks, &LockOptions::default()).await;

    let error = locks.acquire(&job(), WAIT, &LockOptions::default()).await;

    assert_eq!(error.unwrap_err().kind(), ErrorKind::Contended);
    lock.check().unwrap();
}
