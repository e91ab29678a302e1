//! Several limits in one call.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_ratelimit::{By, Limit, Subject};
use coord_tests::need;

use super::{Alone, DAY, Stage, name, quota, retry_after, subject};

/// One by each algorithm: so many permits a day each.
fn three(gcra: u32, sliding: u32, fixed: u32) -> [Limit; 3] {
    [
        Limit::gcra(name("smooth"), quota(gcra, DAY), gcra).unwrap(),
        Limit::sliding_window(name("sliding"), quota(sliding, DAY)),
        Limit::fixed_window(name("daily"), quota(fixed, DAY)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_taken_of_all_limits_or_of_none_whichever_is_short() {
    let stage = need!(Stage::new().await);
    for (number, limits) in [three(5, 9, 9), three(9, 5, 9), three(9, 9, 5)]
        .into_iter()
        .enumerate()
    {
        let short = limits[number].name().clone();
        let limiter = stage.limiter(limits).await;
        let subject = subject(&format!("all-{number}"));
        let first = limiter.try_acquire(&subject, 3).await.unwrap();
        assert_eq!(
            first.standing().unwrap().limit,
            short,
            "the tightest one is told"
        );
        assert_eq!(first.standing().unwrap().remaining, 2);
        let stored = stage.stored().await;

        let denied = limiter.try_acquire(&subject, 3).await.unwrap();

        assert!(!denied.is_allowed());
        assert_eq!(denied.standing().unwrap().limit, short);
        assert_eq!(stage.stored().await, stored);
        assert!(limiter.try_acquire(&subject, 2).await.unwrap().is_allowed());
        let known = limiter.try_acquire(&subject, 3).await.unwrap();
        assert_eq!(known.by(), Some(By::Memory));
        limiter.refund(&subject, 5).await.unwrap();
        assert_eq!(limiter.peek(&subject).await.unwrap().remaining, 5);
        limiter.reset(&subject).await.unwrap();
        assert!(stage.keys().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_limit_and_that_of_all_users_hold_in_one_round_trip() {
    let stage = need!(Alone::new().await);
    let limits = [
        Limit::gcra(name("user"), quota(2, DAY), 2).unwrap(),
        Limit::fixed_window(name("org"), quota(3, DAY)),
    ];
    let limiter = stage.limiter(limits).await;
    let of = |user: &str| {
        let (org, user) = (name("acme"), name(user));
        Subject::each([Subject::member(&org, &user), Subject::new(&org)])
    };
    let _ = limiter.try_acquire(&of("warm"), 1).await.unwrap();
    limiter.reset(&of("warm")).await.unwrap();
    let monitor = stage.server.monitor().await.unwrap();

    assert!(
        limiter
            .try_acquire(&of("jane"), 2)
            .await
            .unwrap()
            .is_allowed()
    );
    let jane = limiter.try_acquire(&of("jane"), 1).await.unwrap();
    assert!(
        limiter
            .try_acquire(&of("joe"), 1)
            .await
            .unwrap()
            .is_allowed()
    );
    let joe = limiter.try_acquire(&of("joe"), 1).await.unwrap();

    assert_eq!(jane.standing().unwrap().limit, name("user"));
    assert_eq!(joe.standing().unwrap().limit, name("org"));
    let calls = monitor.lines_with("EVALSHA").await.unwrap();
    assert_eq!(calls.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_that_is_told_is_that_of_the_slowest_limit() {
    let stage = need!(Stage::new().await);
    let limits = [
        Limit::gcra(name("second"), quota(1, Duration::from_secs(1)), 1).unwrap(),
        Limit::gcra(name("hour"), quota(1, Duration::from_hours(1)), 1).unwrap(),
    ];
    let limiter = stage.limiter(limits).await;
    assert!(
        limiter
            .try_acquire(&subject("a"), 1)
            .await
            .unwrap()
            .is_allowed()
    );

    let denied = limiter.try_acquire(&subject("a"), 1).await.unwrap();

    assert_eq!(denied.standing().unwrap().limit, name("hour"));
    assert!(retry_after(&denied) > Duration::from_mins(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_subjects_than_of_limits_is_invalid() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter(three(1, 1, 1)).await;

    let error = limiter
        .try_acquire(&Subject::each([subject("a"), subject("b")]), 1)
        .await
        .unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Invalid);
}
