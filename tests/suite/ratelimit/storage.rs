//! What lies in the server: never without a TTL, never somebody else's.

use std::time::Duration;

use coord_core::{ErrorKind, KeySpace};
use coord_ratelimit::Limit;
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;

use super::{DAY, SOON, Stage, each_algorithm, name, quota, subject};

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_ever_without_a_ttl_and_each_ends_when_its_state_is_as_new() {
    let stage = need!(Stage::new().await);
    let period = Duration::from_secs(10);
    for (number, limit) in each_algorithm(10, period).into_iter().enumerate() {
        let limiter = stage.limiter([limit]).await;
        let subject = subject(&format!("ttl-{number}"));
        for permits in [1, 3, 9, 2, 4] {
            let _ = limiter.try_acquire(&subject, permits).await.unwrap();
            let _ = limiter.peek(&subject).await.unwrap();
            limiter.refund(&subject, 1).await.unwrap();
            let reset = limiter.peek(&subject).await.unwrap().reset_after;
            for key in stage.keys().await {
                let life: i64 = stage.ask(&["PTTL", &key]).await.parse().unwrap();
                assert_ne!(life, -1, "{key}");
                assert!(life <= 20_000, "{key}: {life}");
                if key.contains(&format!("ttl-{number}")) && life > 0 {
                    // Read later than the state, and rounded up.
                    let reset = i64::try_from(reset.as_millis()).unwrap();
                    assert!(life <= reset + 2, "{key}: {life}, {reset}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_idle_subjects_vanish() {
    let stage = need!(Stage::new().await);
    let mut limits = each_algorithm(5, Duration::from_millis(200)).to_vec();
    // No whole number of microseconds.
    limits.push(Limit::gcra(name("sevenths"), quota(7, Duration::from_millis(200)), 7).unwrap());
    for limit in limits {
        let limiter = stage.limiter([limit]).await;
        for number in 0..20 {
            let _ = limiter
                .try_acquire(&subject(&format!("idle-{number}")), 5)
                .await
                .unwrap();
        }
    }

    eventually(SOON, "no key is left", || async {
        stage.keys().await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn something_else_under_a_limits_key_is_reported_and_left_alone() {
    let stage = need!(Stage::new().await);
    let keys = KeySpace::new(&stage.prefix).unwrap();
    let foreign = [
        "somebody's",
        "12:",
        ":12",
        "-5",
        "1.5",
        "1e9",
        "0x10",
        "nan",
        "99999999999999999999",
        "1:2:3:4",
        "5:99999999999999999999",
        "5:5:99999999999999999999",
    ];
    let parts = ["gcra", "sliding", "fixed"];
    for (limit, part) in each_algorithm(10, DAY).into_iter().zip(parts) {
        let limiter = stage.limiter([limit]).await;
        for (number, value) in foreign.into_iter().enumerate() {
            let group = format!("{part}-{number}");
            let key = keys
                .key("ratelimit", &[&name(&group)])
                .part_for(part, &name("limit"));
            stage.ask(&["SET", key.as_str(), value]).await;

            for error in [
                limiter.try_acquire(&subject(&group), 1).await.err(),
                limiter.peek(&subject(&group)).await.err(),
                limiter.refund(&subject(&group), 1).await.err(),
            ] {
                let error = error.unwrap_or_else(|| panic!("{part}: {value} is no limit"));
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{part}: {value}");
            }
            assert_eq!(stage.ask(&["GET", key.as_str()]).await, value);
            assert_eq!(stage.ask(&["PTTL", key.as_str()]).await, "-1");
        }
        let group = format!("{part}-list");
        let key = keys
            .key("ratelimit", &[&name(&group)])
            .part_for(part, &name("limit"));
        stage.ask(&["LPUSH", key.as_str(), "1"]).await;
        let error = limiter.try_acquire(&subject(&group), 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(stage.ask(&["LLEN", key.as_str()]).await, "1");
        // By an operator's reset it is gone.
        limiter.reset(&subject(&group)).await.unwrap();
        assert!(
            limiter
                .try_acquire(&subject(&group), 1)
                .await
                .unwrap()
                .is_allowed()
        );
    }
    recorder().event("redis.ratelimit.corrupt", &[], SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_limits_none_is_taken_when_one_holds_something_else() {
    let stage = need!(Stage::new().await);
    let keys = KeySpace::new(&stage.prefix).unwrap();
    let limits = [
        Limit::gcra(name("first"), quota(10, DAY), 10).unwrap(),
        Limit::fixed_window(name("second"), quota(10, DAY)),
    ];
    let limiter = stage.limiter(limits).await;
    let key = keys
        .key("ratelimit", &[&name("a")])
        .part_for("fixed", &name("second"));
    stage.ask(&["SET", key.as_str(), "foreign"]).await;

    let error = limiter.try_acquire(&subject("a"), 1).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(
        stage.stored().await,
        [(key.as_str().to_owned(), "foreign".to_owned())]
    );
}
