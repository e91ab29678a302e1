//! What is decided while Redis cannot be asked.

use std::num::NonZeroU32;
use std::time::Duration;

use coord_ratelimit::{By, Decision, Limiter, WithoutRedis};
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use tokio::time::Instant;

use super::{
    Alone, DAY, DEADLINE, Faults, SOON, each_algorithm, gcra, limiter, retry_after, subject,
};

/// Calls that would take minutes if each waited for its deadline.
const MANY: u32 = 200;

fn share(instances: u32) -> WithoutRedis {
    let instances = NonZeroU32::new(instances).expect("not zero");
    WithoutRedis::Share { instances }
}

async fn take(limiter: &Limiter, name: &str) -> Decision {
    let decision = limiter.try_acquire(&subject(name), 1).await;
    decision.expect("the policy decides")
}

/// The first two calls wait for their deadlines at most, the others for nothing.
async fn is_degraded(limiter: &Limiter, name: &str) -> Decision {
    let start = Instant::now();
    let first = take(limiter, name).await;
    let second = take(limiter, name).await;
    for early in [&first, &second] {
        assert!(early.is_degraded(), "{early:?}");
    }
    assert!(
        start.elapsed() < DEADLINE * 6,
        "within their deadlines: {:?}",
        start.elapsed()
    );
    let start = Instant::now();
    for _ in 0..MANY {
        assert!(take(limiter, name).await.is_degraded());
    }
    assert!(
        start.elapsed() < DEADLINE * 10,
        "at once: {:?}",
        start.elapsed()
    );
    first
}

async fn comes_back(limiter: &Limiter, name: &str) {
    eventually(SOON, "Redis is asked again", || async {
        !take(limiter, name).await.is_degraded()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_replaced_by_the_policy_until_it_is_back() {
    let stage = need!(Alone::new().await);
    for (number, (policy, allows)) in [
        (WithoutRedis::Allow, true),
        (WithoutRedis::Deny, false),
        (share(1), true),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("down-{number}");
        let redis = stage.client().await;
        let limiter = Limiter::new(&redis, [gcra(1000, DAY)], policy).unwrap();
        assert_eq!(take(&limiter, &name).await.by(), Some(By::Redis));

        stage.server.kill().await;
        let decision = is_degraded(&limiter, &name).await;
        stage.server.restart().await;

        assert_eq!(decision.is_allowed(), allows, "{policy:?}");
        comes_back(&limiter, &name).await;
        let limit = redis.keys().key("ratelimit", &[&super::name(&name)]);
        let limit = limit.part_for("gcra", &super::name("limit"));
        recorder()
            .event(
                "redis.ratelimit.degraded",
                &[("limit", limit.as_str())],
                SOON,
            )
            .await;
        recorder()
            .event("redis.ratelimit.restored", &[], SOON)
            .await;
        let labels = [("by", if number == 2 { "share" } else { "policy" })];
        assert!(recorder().count("redis.ratelimit.decided", &labels) > u64::from(MANY));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_in_the_network_costs_two_deadlines_and_no_more() {
    let stage = need!(Alone::new().await);
    let (proxy, limiter) = stage.proxied(gcra(1000, DAY), WithoutRedis::Allow).await;
    let _ = take(&limiter, "hole").await;

    proxy.hole();
    let decision = is_degraded(&limiter, "hole").await;
    proxy.heal().await;

    assert!(decision.is_allowed());
    comes_back(&limiter, "hole").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_costs_two_deadlines_and_no_more() {
    let stage = need!(Alone::new().await);
    let limiter = stage.limiter([gcra(1000, DAY)]).await;
    let _ = take(&limiter, "still").await;

    stage.server.pause().await;
    let decision = is_degraded(&limiter, "still").await;
    stage.server.resume().await;

    assert!(!decision.is_allowed());
    comes_back(&limiter, "still").await;
    // The calls of the outage but the first two were never sent.
    let left = limiter.peek(&subject("still")).await.unwrap().remaining;
    assert!(left >= 1000 - 4, "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_without_an_answer_is_no_outage() {
    let stage = need!(Alone::new().await);
    let limiter = stage.limiter([gcra(1000, DAY)]).await;
    for round in 0..3 {
        let _ = take(&limiter, "hiccup").await;

        stage.server.pause().await;
        let decision = take(&limiter, "hiccup").await;
        stage.server.resume().await;

        assert!(decision.is_degraded());
        let next = take(&limiter, "hiccup").await;
        assert_eq!(next.by(), Some(By::Redis), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_away_until_it_does() {
    let stage = need!(Alone::new().await);
    let limiter = stage.limiter([gcra(1000, DAY)]).await;
    let _ = take(&limiter, "full").await;

    stage.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let _ = is_degraded(&limiter, "full").await;
    stage.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;

    comes_back(&limiter, "full").await;
    for key in stage.keys().await {
        assert_ne!(stage.ask(&["PTTL", &key]).await, "-1", "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_reply_is_lost_is_decided_by_policy_and_never_sent_again() {
    let stage = need!(Alone::new().await);
    for (number, limit) in each_algorithm(10, DAY).into_iter().enumerate() {
        let name = format!("lost-{number}");
        let (proxy, limiter) = stage.proxied(limit, WithoutRedis::Allow).await;
        let _ = take(&limiter, "warm").await;
        let monitor = stage.server.monitor().await.unwrap();
        let lost = proxy.lose_reply_to(&name);

        let decision = take(&limiter, &name).await;

        lost.await;
        assert!(decision.is_allowed() && decision.is_degraded());
        comes_back(&limiter, "warm").await;
        let calls = monitor.lines_with(&name).await.unwrap();
        let calls = calls.iter().filter(|line| line.contains("EVALSHA"));
        assert_eq!(calls.count(), 1);
        // What it cost: its one permit.
        assert_eq!(limiter.peek(&subject(&name)).await.unwrap().remaining, 9);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_whose_reply_is_lost_is_not_given_twice() {
    let stage = need!(Alone::new().await);
    let (proxy, limiter) = stage.proxied(gcra(10, DAY), WithoutRedis::Allow).await;
    let name = "lost-refund";
    let five = limiter.try_acquire(&subject(name), 5).await.unwrap();
    assert!(five.is_allowed());
    let lost = proxy.lose_reply_to(name);

    let error = limiter.refund(&subject(name), 1).await.unwrap_err();

    lost.await;
    assert_eq!(error.kind(), coord_core::ErrorKind::Timeout);
    assert_eq!(limiter.peek(&subject(name)).await.unwrap().remaining, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_alone_lets_its_share_pass_and_no_more() {
    let stage = need!(Alone::new().await);
    for limit in each_algorithm(10, DAY) {
        let (proxy, limiter) = stage.proxied(limit, share(3)).await;
        proxy.hole();
        assert!(take(&limiter, "first").await.is_degraded());

        let (mut passed, mut last) = (0, None);
        for _ in 0..10 {
            let decision = take(&limiter, "share").await;
            assert_eq!(decision.by(), Some(By::Share));
            passed += u32::from(decision.is_allowed());
            last = Some(decision);
        }
        let much = limiter.try_acquire(&subject("other"), 4).await.unwrap();

        assert_eq!(passed, 3);
        assert!(retry_after(&last.unwrap()) > Duration::from_mins(1));
        assert!(!much.is_allowed(), "its share is three");
        assert!(
            take(&limiter, "other").await.is_allowed(),
            "each subject has its own"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_goes_on_through_an_outage_and_ends_with_the_permit() {
    let stage = need!(Alone::new().await);
    let limiter = stage.limiter([gcra(1000, DAY)]).await;
    let _ = take(&limiter, "through").await;
    stage.server.kill().await;

    let through = subject("through");
    let (decision, ()) = tokio::join!(limiter.acquire(&through, 1, SOON), async {
        tokio::time::sleep(DEADLINE * 2).await;
        stage.server.restart().await;
    });

    let decision = decision.unwrap();
    assert!(decision.is_allowed());
    assert_eq!(decision.by(), Some(By::Redis));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limiters_of_one_client_learn_of_an_outage_from_one_another() {
    let stage = need!(Alone::new().await);
    let redis = stage.client().await;
    let (one, other) = (
        limiter(&redis, [gcra(1000, DAY)]),
        limiter(&redis, [gcra(1000, DAY)]),
    );
    stage.server.kill().await;
    for _ in 0..2 {
        assert!(take(&one, "a").await.is_degraded());
    }

    let start = Instant::now();
    let decision = take(&other, "b").await;

    assert!(decision.is_degraded());
    assert!(start.elapsed() < DEADLINE, "it did not find out by itself");
}
