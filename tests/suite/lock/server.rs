//! Servers that refuse something, and keys that hold something else.

use std::time::Duration;

use coord_core::{ErrorKind, Key, Name};
use coord_lock::{LockOptions, Order, Released};
use coord_tests::need;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;

use super::{Alone, ORDERS, SOON, Stage, job, ordered, take, ttl_ms};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgot_the_scripts_is_sent_them_again() {
    let stage = need!(Alone::new().await);
    let locks = stage.locks().await;

    for order in ORDERS {
        let lock = take(&locks, &ordered(order)).await;
        stage.ask(&["SCRIPT", "FLUSH"]).await;
        lock.renew().await.unwrap();
        stage.ask(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(lock.release().await.unwrap(), Released::Freed);
        stage.ask(&["SCRIPT", "FLUSH"]).await;
    }
    stage.server.restart().await;
    let lock = locks.acquire(&job(), SOON, &LockOptions::default()).await;
    lock.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_only_send_scripts_whole_has_locks() {
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-evalsha"];
    let builder = RedisServer::builder().user("app", &rules);
    let stage = need!(Alone::with(builder).await);
    let url = stage.server.url_as("app", "secret");
    let (mine, theirs) = (stage.locks_at(&url).await, stage.locks_at(&url).await);

    for order in ORDERS {
        let lock = take(&mine, &ordered(order)).await;
        lock.renew().await.unwrap();
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move { theirs.acquire(&job(), SOON, &ordered(order)).await }
        });
        stage.waiting_becomes(1).await;
        assert_eq!(lock.release().await.unwrap(), Released::Freed);
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_run_no_scripts_is_told_what_is_missing_at_once() {
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval"];
    let builder = RedisServer::builder().user("app", &rules);
    let stage = need!(Alone::with(builder).await);
    let locks = stage.locks_at(&stage.server.url_as("app", "secret")).await;

    for order in ORDERS {
        let error = locks.acquire(&job(), SOON, &ordered(order)).await;
        let error = error.expect_err("it is forbidden");

        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("lock."), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_use_no_channels_has_locks_but_cannot_wait_for_them() {
    let rules = ["on", ">secret", "~*", "resetchannels", "+@all"];
    let builder = RedisServer::builder().user("app", &rules);
    let stage = need!(Alone::with(builder).await);
    let (everybody, others) = (stage.locks().await, stage.locks().await);
    let locks = stage.locks_at(&stage.server.url_as("app", "secret")).await;

    for order in ORDERS {
        let lock = take(&everybody, &ordered(order)).await;
        let error = locks.acquire(&job(), SOON, &ordered(order)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
        stage.waiting_becomes(0).await;
        lock.release().await.unwrap();

        let lock = take(&locks, &ttl_ms(1000).order(order)).await;
        let waiting = tokio::spawn({
            let others = others.clone();
            async move { others.acquire(&job(), SOON, &ordered(order)).await }
        });
        stage.waiting_becomes(1).await;
        assert_eq!(lock.release().await.unwrap(), Released::Freed);
        // Nobody is told: it comes by itself.
        waiting.await.unwrap().unwrap().release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_lock_is_left_alone() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let key = stage.key();
    let (record, queue, places) = (key.part("record"), key.part("queue"), key.part("places"));
    let foreign = |key: &Key| [key.as_str().to_owned(), "one".to_owned()];
    let asked = async |order: Order, key: &Key| {
        let before = stage.ask(&["LRANGE", key.as_str(), "0", "-1"]).await;
        let error = locks.try_acquire(&job(), &ordered(order)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt, "{key}");
        let error = locks.acquire(&job(), SOON, &ordered(order)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt, "{key}");
        let after = stage.ask(&["LRANGE", key.as_str(), "0", "-1"]).await;
        assert_eq!(after, before);
    };

    for order in ORDERS {
        for part in [&key, &record] {
            let [name, element] = foreign(part);
            stage.ask(&["RPUSH", &name, &element]).await;
            asked(order, part).await;
            stage.ask(&["DEL", &name]).await;
        }
    }
    for part in [&queue, &places] {
        let [name, element] = foreign(part);
        stage.ask(&["RPUSH", &name, &element]).await;
        asked(Order::Fifo, part).await;
        stage.ask(&["DEL", &name]).await;
    }
    for text in ["", "something", "0123456789abcdef0123456789abcdef:x", "a:1"] {
        stage.ask(&["SET", key.as_str(), text]).await;
        for order in ORDERS {
            let error = locks.try_acquire(&job(), &ordered(order)).await;
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt, "{text}");
        }
        let error = locks.inspect(&job()).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt, "{text}");
        assert_eq!(stage.value().await, text);
    }
    stage.ask(&["DEL", key.as_str()]).await;

    let lock = take(&locks, &LockOptions::default()).await;
    stage.ask(&["DEL", key.as_str()]).await;
    stage.ask(&["RPUSH", key.as_str(), "one"]).await;
    assert_eq!(lock.release().await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(stage.ask(&["LLEN", key.as_str()]).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_grants_nothing_and_still_renews_and_releases() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);

    for order in ORDERS {
        let lock = take(&mine, &ordered(order)).await;
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move { theirs.acquire(&job(), SOON, &ordered(order)).await }
        });
        stage.waiting_becomes(1).await;
        stage
            .ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])
            .await;
        stage.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;

        let other = Name::new("other").unwrap();
        let refused = mine.try_acquire(&other, &ordered(order)).await;
        lock.renew().await.unwrap();
        let released = lock.release().await.unwrap();
        stage.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;

        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(released, Released::Freed);
        waiting.await.unwrap().unwrap().release().await.unwrap();
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_lags_refuses_no_lock() {
    let stage = need!(Alone::new().await);
    let replica = RedisServer::builder().replica_of(&stage.server);
    let replica = need!(replica.start().await);
    let locks = stage.locks().await;

    replica.pause().await;
    for order in ORDERS {
        let lock = take(&locks, &ttl_ms(5000).order(order)).await;
        lock.renew().await.unwrap();
        assert_eq!(lock.release().await.unwrap(), Released::Freed);
    }
    replica.resume().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_replicas_it_does_not_have_is_unavailable_and_not_contended() {
    let stage = need!(Alone::new().await);
    let locks = stage.locks().await;
    stage
        .ask(&["CONFIG", "SET", "min-replicas-to-write", "1"])
        .await;

    for order in ORDERS {
        eventually(SOON, "it is unavailable", || async {
            let wait = Duration::from_millis(300);
            let error = locks.acquire(&job(), wait, &ordered(order)).await;
            match error.unwrap_err().kind() {
                ErrorKind::Unavailable => true,
                // The end of the wait came before the last answer.
                ErrorKind::Timeout => false,
                other => panic!("nobody has the lock: {other:?}"),
            }
        })
        .await;
    }

    stage
        .ask(&["CONFIG", "SET", "min-replicas-to-write", "0"])
        .await;
    take(&locks, &LockOptions::default())
        .await
        .release()
        .await
        .unwrap();
}
