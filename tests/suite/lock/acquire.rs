//! Taking a lock that is free, and finding one that is not.

use std::time::Duration;

use coord_core::{Key, Name};
use coord_lock::{Holder, LockOptions, Owner, Released, TryAcquire};
use coord_tests::need;
use coord_tests::recorder::recorder;

use super::{Alone, ORDERS, SOON, Stage, is_held, job, ordered, take, ttl_ms};

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_is_granted_with_its_ttl_and_a_record_of_its_owner() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let owner = Owner::new(Name::new("billing").unwrap());
    let owner = owner.with("region", "eu").unwrap();

    for order in ORDERS {
        let options = ttl_ms(20_000).owner(&owner).order(order);
        let lock = take(&locks, &options).await;

        let holder = locks.inspect(&job()).await.unwrap().expect("it is held");
        assert_eq!(holder.fence, lock.fence());
        assert_eq!(holder.owner(), Some(&owner));
        assert!((19_000..=20_000).contains(&stage.pttl().await));
        lock.check().unwrap();
        assert_eq!(lock.release().await.unwrap(), Released::Freed);
        assert_eq!(locks.inspect(&job()).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_finds_a_lock_held_is_told_by_whom_and_for_how_long() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    let owner = Owner::new(Name::new("billing").unwrap());
    let lock = take(&mine, &ttl_ms(20_000).owner(&owner)).await;

    for order in ORDERS {
        let attempt = theirs.try_acquire(&job(), &ordered(order)).await.unwrap();

        let TryAcquire::Held(Holder {
            fence, remaining, ..
        }) = &attempt
        else {
            panic!("{attempt:?}")
        };
        assert_eq!(*fence, lock.fence());
        assert!(*remaining > Duration::from_secs(15) && *remaining <= Duration::from_secs(20));
        assert!(attempt.acquired().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_grant_has_a_larger_fence_than_the_one_before() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let mut last = 0;

    for round in 0..20 {
        let order = ORDERS[round % 2];
        let lock = take(&locks, &ordered(order)).await;
        assert!(lock.fence().get() > last);
        last = lock.fence().get();
        lock.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fence_grows_also_when_the_last_grant_is_ahead_of_the_servers_clock() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let record = stage.key().part("record");
    let ahead = "4000000000000000";
    let stored = format!("{ahead}:1000:{{\"name\":\"earlier\"}}");
    stage.ask(&["SET", record.as_str(), &stored]).await;

    for (order, fence) in ORDERS.into_iter().zip(4_000_000_000_000_001..) {
        let lock = take(&locks, &ordered(order)).await;
        assert_eq!(lock.fence().get(), fence);
        lock.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_try_at_once_exactly_one_gets_it() {
    let stage = need!(Stage::new().await);

    for order in ORDERS {
        let mut tries = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let locks = stage.locks().await;
            for _ in 0..8 {
                let locks = locks.clone();
                tries.spawn(async move {
                    let attempt = locks.try_acquire(&job(), &ordered(order)).await;
                    attempt.expect("the server is there").acquired()
                });
            }
        }
        let granted: Vec<_> = tries.join_all().await.into_iter().flatten().collect();

        assert_eq!(granted.len(), 1);
        drop(granted);
        stage.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_look_alike_are_different_locks() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let mut held = Vec::new();

    for name in ["a", "a:queue", "{a}", "a b", "a%20b", "a*", "ä"] {
        let name = Name::new(name).unwrap();
        let attempt = locks.try_acquire(&name, &LockOptions::default()).await;
        held.push(attempt.unwrap().acquired().expect("nobody else has it"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_lock_costs_one_script_to_take_and_one_to_release() {
    let stage = need!(Alone::new().await);
    let locks = stage.locks().await;
    for order in ORDERS {
        // The scripts are known from here on.
        take(&locks, &ordered(order)).await.release().await.unwrap();

        let monitor = stage.server.monitor().await.unwrap();
        let lock = locks.acquire(&job(), SOON, &ordered(order)).await.unwrap();
        lock.release().await.unwrap();

        let lines = monitor.lines().await.unwrap();
        let sent = |line: &&String| !line.contains(" lua]") && !line.contains("\"PING\"");
        let sent: Vec<_> = lines.iter().filter(sent).collect();
        assert_eq!(sent.len(), 2, "{sent:#?}");
        assert!(sent.iter().all(|line| line.contains("\"EVALSHA\"")));
        let published = |line: &&String| line.contains(" lua] \"PUBLISH\"");
        assert_eq!(lines.iter().filter(published).count(), 0, "nobody waits");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_ever_without_a_ttl() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    let look = async || {
        for key in stage.keys().await {
            let pttl = stage.number(&["PTTL", &key]).await;
            assert_ne!(pttl, -1, "{key}");
        }
    };

    for order in ORDERS {
        let lock = take(&mine, &ttl_ms(500).order(order)).await;
        look().await;
        let options = ttl_ms(500).order(order);
        let name = job();
        let (waited, ()) = tokio::join!(theirs.acquire(&name, SOON, &options), async {
            stage.waiting_becomes(1).await;
            look().await;
            lock.renew().await.unwrap();
            look().await;
            lock.release().await.unwrap();
            look().await;
        });
        look().await;
        drop(waited.unwrap());
        stage.is_clean().await;
        look().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_grant_by_its_fence_and_the_owner_learns_of_it() {
    let stage = need!(Stage::new().await);
    let (locks, operator) = (stage.locks().await, stage.locks().await);
    let by = Name::new("alice").unwrap();
    let lock = take(&locks, &ttl_ms(900)).await;
    let waiting = tokio::spawn({
        let locks = operator.clone();
        async move { locks.acquire(&job(), SOON, &LockOptions::default()).await }
    });
    stage.waiting_becomes(1).await;

    let found = operator.inspect(&job()).await.unwrap().expect("it is held");
    let ended = operator.force_release(&job(), found.fence, &by).await;

    assert_eq!(ended.unwrap(), Released::Freed);
    let next = waiting.await.unwrap().unwrap();
    let again = operator.force_release(&job(), found.fence, &by).await;
    assert_eq!(again.unwrap(), Released::HeldByOther);
    tokio::time::timeout(SOON, lock.lost()).await.unwrap();
    assert!(lock.check().is_err());
    drop(lock);
    next.check().unwrap();
    next.release().await.unwrap();
    let later = operator.force_release(&job(), found.fence, &by).await;
    assert_eq!(later.unwrap(), Released::Gone);
    let key = stage.key();
    let fields = [("lock", key.as_str()), ("by", "alice")];
    recorder().event("redis.lock.forced", &fields, SOON).await;
    let lost = recorder().event("redis.lock.lost", &fields[..1], SOON);
    assert_eq!(lost.await.field("cause"), Some("revoked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_one_server_have_locks_and_messages_of_their_own() {
    let stage = need!(Alone::new().await);
    let url = |database| format!("{}/{database}", stage.server.url());
    let (zero, one) = (stage.locks_at(&url(0)).await, stage.locks_at(&url(1)).await);
    let other = stage.locks_at(&url(1)).await;
    let first = take(&zero, &LockOptions::default()).await;
    let second = take(&one, &LockOptions::default()).await;

    let options = LockOptions::default();
    let name = job();
    let (third, ()) = tokio::join!(other.acquire(&name, SOON, &options), async {
        let queue: Key = stage.key().part("queue");
        coord_tests::wait::eventually(SOON, "somebody waits", || async {
            let mut connection = stage.server.connect().await.unwrap();
            connection.command(&["SELECT", "1"]).await.unwrap();
            let waiting = connection.command(&["EXISTS", queue.as_str()]).await;
            waiting.unwrap().int() == Some(1)
        })
        .await;
        second.release().await.unwrap();
    });

    third.unwrap().release().await.unwrap();
    first.check().unwrap();
    let attempt = zero.try_acquire(&job(), &LockOptions::default()).await;
    assert!(is_held(&attempt.unwrap()));
}
