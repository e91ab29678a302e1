//! Permits taken without waiting.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_ratelimit::{By, Decision, Limit, Limiter, WithoutRedis};
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually_some;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{
    Alone, DAY, SOON, Stage, each_algorithm, gcra, limiter, name, quota, retry_after, subject,
};

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_at_once_on_a_fresh_limit_of_ten_exactly_ten_pass() {
    let stage = need!(Stage::new().await);
    for limit in each_algorithm(10, DAY) {
        let mut asking = JoinSet::new();
        // Two nodes, neither of which knows of the other.
        for limiter in [
            stage.limiter([limit.clone()]).await,
            stage.limiter([limit]).await,
        ] {
            for _ in 0..10 {
                let limiter = limiter.clone();
                asking.spawn(async move { limiter.try_acquire(&subject("fresh"), 1).await });
            }
        }
        let decisions = asking.join_all().await;

        let allowed = decisions.into_iter().filter(|decision| {
            let decision = decision.as_ref().expect("the server is there");
            decision.is_allowed()
        });
        assert_eq!(allowed.count(), 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_retry_after_the_wait_that_was_told_succeeds() {
    let stage = need!(Stage::new().await);
    for (number, limit) in each_algorithm(1, Duration::from_millis(300))
        .into_iter()
        .enumerate()
    {
        let limiter = stage.limiter([limit]).await;
        let subject = subject(&format!("one-{number}"));
        for _ in 0..3 {
            let wait = eventually_some(SOON, "it is denied", || async {
                let decision = limiter.try_acquire(&subject, 1).await.unwrap();
                decision.retry_after()
            })
            .await;
            sleep_until(Instant::now() + wait).await;

            // A sliding window weighs what was taken in the one before.
            assert!(wait <= Duration::from_millis(600));
            assert!(limiter.try_acquire(&subject, 1).await.unwrap().is_allowed());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_and_when_all_is_back_are_told() {
    let stage = need!(Stage::new().await);
    for limit in each_algorithm(10, DAY) {
        let limiter = stage.limiter([limit]).await;
        let subject = subject("told");

        let decision = limiter.try_acquire(&subject, 3).await.unwrap();
        let standing = limiter.peek(&subject).await.unwrap();
        let again = limiter.peek(&subject).await.unwrap();

        let told = decision.standing().unwrap();
        assert_eq!((told.remaining, told.by), (7, By::Redis));
        assert_eq!((standing.remaining, again.remaining), (7, 7));
        assert!(standing.reset_after <= told.reset_after);
        assert!(told.reset_after > DAY / 4 && told.reset_after <= DAY * 2);
        assert_eq!(told.limit, name("limit"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nine_of_ten_used_leaves_no_room_for_five_and_nothing_is_taken() {
    let stage = need!(Stage::new().await);
    for limit in each_algorithm(10, DAY) {
        let limiter = stage.limiter([limit]).await;
        let subject = subject("nine");
        assert!(limiter.try_acquire(&subject, 9).await.unwrap().is_allowed());
        let stored = stage.stored().await;

        let five = limiter.try_acquire(&subject, 5).await.unwrap();

        assert!(!five.is_allowed());
        assert_eq!(stage.stored().await, stored);
        assert!(limiter.try_acquire(&subject, 1).await.unwrap().is_allowed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_ever_fits_is_never_allowed_and_redis_is_not_asked() {
    let stage = need!(Alone::new().await);
    for limit in each_algorithm(10, DAY) {
        let limiter = stage.limiter([limit]).await;
        let monitor = stage.server.monitor().await.unwrap();

        let decision = limiter.try_acquire(&subject("much"), 11).await.unwrap();
        let waiting = limiter.acquire(&subject("much"), 11, SOON).await.unwrap();

        let never = Decision::NeverAllowed {
            capacity: 10,
            limit: name("limit"),
        };
        assert_eq!((&decision, &waiting), (&never, &never));
        assert_eq!(monitor.lines_with("much").await.unwrap(), [""; 0]);
        assert!(stage.keys().await.is_empty());
    }
    recorder()
        .event("redis.ratelimit.never_allowed", &[], SOON)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_round_trip_and_a_denial_that_holds_is_none() {
    let stage = need!(Alone::new().await);
    let limiter = stage.limiter([gcra(5, DAY)]).await;
    let subject = subject("trips");
    // The script is known.
    let _ = limiter.try_acquire(&subject, 1).await.unwrap();
    let monitor = stage.server.monitor().await.unwrap();
    let calls = async || {
        let lines = monitor.lines_with("trips").await.unwrap();
        lines.iter().filter(|line| line.contains("EVALSHA")).count()
    };

    assert!(limiter.try_acquire(&subject, 1).await.unwrap().is_allowed());
    assert_eq!(calls().await, 1);
    let denied = limiter.try_acquire(&subject, 5).await.unwrap();
    assert_eq!(calls().await, 2);
    let (as_much, more) = (
        limiter.try_acquire(&subject, 5).await.unwrap(),
        limiter.try_acquire(&subject, 5).await.unwrap(),
    );
    assert_eq!(calls().await, 2);
    let less = limiter.try_acquire(&subject, 3).await.unwrap();
    assert_eq!(calls().await, 3);

    assert_eq!(denied.by(), Some(By::Redis));
    assert_eq!(
        (as_much.by(), more.by()),
        (Some(By::Memory), Some(By::Memory))
    );
    assert!(retry_after(&as_much) <= retry_after(&denied));
    assert!(less.is_allowed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_is_believed_for_a_second_and_then_asked_about_again() {
    let stage = need!(Stage::new().await);
    let (one, other) = (
        stage.limiter([gcra(1, DAY)]).await,
        stage.limiter([gcra(1, DAY)]).await,
    );
    let subject = subject("believed");
    assert!(one.try_acquire(&subject, 1).await.unwrap().is_allowed());
    assert!(!one.try_acquire(&subject, 1).await.unwrap().is_allowed());
    let denied_at = Instant::now();

    other.reset(&subject).await.unwrap();
    sleep_until(denied_at + Duration::from_secs(1)).await;

    assert!(one.try_acquire(&subject, 1).await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_can_be_taken_again_and_never_more_than_the_limit() {
    let stage = need!(Stage::new().await);
    for limit in each_algorithm(10, DAY) {
        let limiter = stage.limiter([limit]).await;
        let subject = subject("refund");
        assert!(
            limiter
                .try_acquire(&subject, 10)
                .await
                .unwrap()
                .is_allowed()
        );
        assert!(!limiter.try_acquire(&subject, 4).await.unwrap().is_allowed());

        limiter.refund(&subject, 4).await.unwrap();
        assert!(limiter.try_acquire(&subject, 4).await.unwrap().is_allowed());
        limiter.refund(&subject, 1000).await.unwrap();
        limiter.refund(&subject, 3).await.unwrap();

        assert_eq!(limiter.peek(&subject).await.unwrap().remaining, 10);
        assert!(stage.keys().await.is_empty(), "it is as new");
        assert!(
            limiter
                .try_acquire(&subject, 10)
                .await
                .unwrap()
                .is_allowed()
        );
        assert!(!limiter.try_acquire(&subject, 1).await.unwrap().is_allowed());
        limiter.reset(&subject).await.unwrap();
        assert!(
            limiter
                .try_acquire(&subject, 10)
                .await
                .unwrap()
                .is_allowed()
        );
        limiter.reset(&subject).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_made_again_goes_on_where_it_was_and_another_quota_holds_at_once() {
    let stage = need!(Stage::new().await);
    for (number, limit) in each_algorithm(10, DAY).into_iter().enumerate() {
        let redis = stage.client().await;
        let subject = subject(&format!("again-{number}"));
        for _ in 0..10 {
            let limiter = limiter(&redis, [limit.clone()]);
            assert!(limiter.try_acquire(&subject, 1).await.unwrap().is_allowed());
        }

        let same = limiter(&redis, [limit]);
        let wider = match number {
            0 => Limit::gcra(name("limit"), quota(10, DAY), 20).unwrap(),
            _ => each_algorithm(20, DAY)[number].clone(),
        };
        let wider = limiter(&redis, [wider]);

        assert!(!same.try_acquire(&subject, 1).await.unwrap().is_allowed());
        assert!(wider.try_acquire(&subject, 1).await.unwrap().is_allowed());
    }
}

/// The clock of a client is not even read for what is sent.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_call_is_sent_at_every_time() {
    let stage = need!(Alone::new().await);
    for limit in each_algorithm(1000, Duration::from_secs(1)) {
        let limiter = stage.limiter([limit]).await;
        let _ = limiter.try_acquire(&subject("clock"), 1).await.unwrap();
        let monitor = stage.server.monitor().await.unwrap();
        for _ in 0..3 {
            let _ = limiter.try_acquire(&subject("clock"), 1).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }

        let lines = monitor.lines_with("EVALSHA").await.unwrap();
        let calls: Vec<_> = lines
            .iter()
            .map(|line| line.split_once("EVALSHA").expect("it is there").1)
            .collect();
        assert_eq!(calls.len(), 3);
        assert!(calls.iter().all(|call| *call == calls[0]), "{calls:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_holds_to_one_permit_while_two_nodes_take_all_they_can_get() {
    let stage = need!(Stage::new().await);
    // No whole number of microseconds a permit.
    let (permits, burst) = (70_001_u32, 7);
    let limit = Limit::gcra(name("rate"), quota(permits, Duration::from_secs(1)), burst).unwrap();
    let (one, other) = (
        stage.limiter([limit.clone()]).await,
        stage.limiter([limit]).await,
    );
    let subject = subject("greedy");
    let granted = |limiter: Limiter| {
        let subject = subject.clone();
        tokio::spawn(async move {
            let mut granted = 0_u64;
            for _ in 0..2000 {
                for ask in [7, 2, 1] {
                    let decision = limiter.try_acquire(&subject, ask).await.unwrap();
                    granted += u64::from(ask) * u64::from(decision.is_allowed());
                }
            }
            granted
        })
    };
    // All of them are on this machine, and go by its clock.
    let time = || async { stage.redis.everywhere(&["TIME"]).await.unwrap().remove(0) };
    let micros = |time: &coord_tests::resp::Resp| {
        let part = |index: usize| time.items()[index].text().parse::<u64>().unwrap();
        part(0) * 1_000_000 + part(1)
    };

    let start = micros(&time().await);
    let (mine, theirs) = (granted(one), granted(other));
    let total = mine.await.unwrap() + theirs.await.unwrap();
    let elapsed = micros(&time().await) - start;

    let rate = u128::from(elapsed) * u128::from(permits) / 1_000_000;
    assert!(
        u128::from(total) <= u128::from(burst) + rate + 1,
        "{total} of {rate}"
    );
    assert!(total > u64::from(burst), "something passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_limiter_or_a_call_is_invalid() {
    let stage = need!(Stage::new().await);
    let redis = stage.client().await;
    let new = |limits: Vec<Limit>| Limiter::new(&redis, limits, WithoutRedis::Allow);
    let kind = |made: coord_core::Result<Limiter>| made.err().expect("refused").kind();

    assert_eq!(kind(new(vec![])), ErrorKind::Invalid);
    assert_eq!(
        kind(new(vec![gcra(1, DAY), gcra(2, DAY)])),
        ErrorKind::Invalid
    );
    let none = limiter(&redis, [gcra(1, DAY)])
        .try_acquire(&subject("a"), 0)
        .await;
    assert_eq!(none.unwrap_err().kind(), ErrorKind::Invalid);
}
