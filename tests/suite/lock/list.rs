//! Which locks somebody has, for operators.

use coord_core::Name;
use coord_lock::LockOptions;
use coord_tests::need;
use tokio::task::JoinSet;

use super::{ORDERS, SOON, Stage, job, ordered, take};

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_the_locks_that_somebody_has_whose_names_start_so() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    assert_eq!(locks.list("").await.expect("up"), []);
    let mut held = Vec::new();
    for text in ["eu*:1", "eu*:2", "eu:3", "us"] {
        let lock = locks
            .try_acquire(&name(text), &LockOptions::default())
            .await;
        held.push(lock.expect("up").acquired().expect("free"));
    }
    held.remove(1).release().await.expect("up");

    let listed = locks.list("eu*").await.expect("up");
    let all = locks.list("").await.expect("up");

    let names = |listed: &[(Name, _)]| -> Vec<String> {
        let names = listed.iter().map(|(name, _)| name.as_str().to_owned());
        names.collect()
    };
    assert_eq!(names(&listed), ["eu*:1"]);
    assert_eq!(listed[0].1.fence, held[0].fence());
    let inspected = locks
        .inspect(&name("eu*:1"))
        .await
        .expect("up")
        .expect("held");
    assert_eq!(listed[0].1.owner(), inspected.owner());
    assert_eq!(names(&all), ["eu*:1", "eu:3", "us"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_wait_for_is_listed_once_and_what_is_no_lock_is_not() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    for order in ORDERS {
        let lock = take(&locks, &ordered(order)).await;
        let other = stage.locks().await;
        let mut waiting = JoinSet::new();
        waiting.spawn(async move {
            let lock = other.acquire(&job(), SOON * 2, &ordered(order)).await;
            lock.expect("its turn comes").release().await
        });
        stage.waiting_becomes(1).await;
        let foreign = stage.0.key("lock", &[&name("foreign")]);
        stage.ask(&["LPUSH", foreign.as_str(), "1"]).await;

        let listed = locks.list("").await.expect("up");

        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!((&listed[0].0, listed[0].1.fence), (&job(), lock.fence()));
        lock.release().await.expect("up");
        for released in waiting.join_all().await {
            released.expect("released");
        }
    }
}
