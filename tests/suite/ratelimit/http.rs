//! The layer for HTTP services.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::time::Duration;

use coord_ratelimit::tower::RateLimitLayer;
use coord_ratelimit::{Limit, Limiter, Subject, WithoutRedis};
use coord_tests::need;
use http::{Request, Response, StatusCode};
use tower::{ServiceBuilder, ServiceExt, service_fn};

use super::{Alone, DAY, Faults, Stage, gcra, name, quota, subject};

/// Asks a service behind `limiter` in the name of `client`, if it has one.
async fn get(limiter: &Limiter, client: Option<&str>) -> Response<String> {
    let layer = RateLimitLayer::new(limiter.clone(), |request: &Request<()>| {
        let client = request.headers().get("x-client")?;
        Some(subject(client.to_str().ok()?))
    });
    let service = ServiceBuilder::new()
        .layer(layer)
        .service(service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new("served".to_owned()))
        }));
    let mut request = Request::new(());
    if let Some(client) = client {
        let value = client.parse().expect("a header value");
        request.headers_mut().insert("x-client", value);
    }
    service.oneshot(request).await.expect("it never fails")
}

fn header<'a>(response: &'a Response<String>, name: &str) -> Option<&'a str> {
    let value = response.headers().get(name)?;
    Some(value.to_str().expect("ASCII"))
}

/// What is left of the limit `burst`; its seconds are in `seconds`.
fn standing(response: &Response<String>, seconds: RangeInclusive<u64>) -> &str {
    let value = header(response, "ratelimit").expect("it is announced");
    let parts: Vec<_> = value.split(';').collect();
    let [r#""burst""#, remaining, told] = parts[..] else {
        panic!("not the form of the draft: {value}")
    };
    let told = told.strip_prefix("t=").expect("its name");
    let told = told.parse().expect("an integer");
    assert!(seconds.contains(&told), "{value}");
    remaining.strip_prefix("r=").expect("its name")
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_say_what_the_limits_are_and_where_the_tightest_stands() {
    let stage = need!(Stage::new().await);
    let limits = [
        Limit::fixed_window(name("per \"day\""), quota(100, DAY)),
        Limit::gcra(name("burst"), quota(2, Duration::from_millis(199_500)), 2).unwrap(),
    ];
    let limiter = stage.limiter(limits).await;

    let first = get(&limiter, Some("a")).await;
    let second = get(&limiter, Some("a")).await;
    let third = get(&limiter, Some("a")).await;

    assert_eq!(
        (first.status(), first.body().as_str()),
        (StatusCode::OK, "served")
    );
    for response in [&first, &second, &third] {
        let policy = r#""per \"day\"";q=100;w=86400, "burst";q=2;w=200"#;
        assert_eq!(header(response, "ratelimit-policy"), Some(policy));
    }
    // Time passes between the calls: ten seconds of it are allowed for.
    assert_eq!(standing(&first, 90..=100), "1");
    assert_eq!(header(&first, "retry-after"), None);
    assert_eq!(standing(&second, 190..=200), "0");
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(standing(&third, 90..=100), "0");
    let told: u64 = header(&third, "retry-after").unwrap().parse().unwrap();
    assert!((90..=100).contains(&told));
    assert!(third.body().is_empty(), "the service was not asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_apart_and_nobody_is_not_counted() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(1, DAY)]).await;

    assert_eq!(get(&limiter, Some("a")).await.status(), StatusCode::OK);
    assert_eq!(
        get(&limiter, Some("a")).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(get(&limiter, Some("b")).await.status(), StatusCode::OK);
    for _ in 0..3 {
        let response = get(&limiter, None).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(header(&response, "ratelimit"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_the_policy_answers_and_claims_no_numbers() {
    let stage = need!(Alone::new().await);
    for (policy, status) in [
        (WithoutRedis::Allow, StatusCode::OK),
        (WithoutRedis::Deny, StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let (proxy, limiter) = stage.proxied(gcra(1, DAY), policy).await;
        proxy.hole();

        let response = get(&limiter, Some("a")).await;

        assert_eq!(response.status(), status);
        assert_eq!(header(&response, "ratelimit"), None);
        assert!(header(&response, "ratelimit-policy").is_some());
        let is_told = header(&response, "retry-after").is_some();
        assert_eq!(is_told, status != StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_decided_is_an_error_of_the_server() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(1, DAY)]).await;
    let redis = stage.client().await;
    let key = redis
        .keys()
        .key("ratelimit", &[&name("a")])
        .part_for("gcra", &name("limit"));
    stage.ask(&["SET", key.as_str(), "foreign"]).await;

    let response = get(&limiter, Some("a")).await;

    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(stage.ask(&["GET", key.as_str()]).await, "foreign");
    let other = limiter.try_acquire(&Subject::new(&name("b")), 1).await;
    assert!(other.unwrap().is_allowed());
}
