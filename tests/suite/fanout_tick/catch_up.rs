//! Ticks that could not run when they were due.

use std::num::NonZeroU8;

use coord_fanout::CatchUp;
use coord_tests::need;
use coord_tests::need::shared_redis_url;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{RedisServer, Sentinel};

use super::*;

const MINUTE: i64 = 60_000;

/// An interval of about an hour, which at `now` has been going on for more than five minutes.
fn period_amid(now: i64) -> i64 {
    let amid = |period: &i64| (5 * MINUTE..period - 5 * MINUTE).contains(&(now % period));
    let periods = (60..120).map(|minutes| minutes * MINUTE);
    periods.clone().find(amid).expect("one of many")
}

fn all(most: u8) -> CatchUp {
    CatchUp::All(NonZeroU8::new(most).expect("not zero"))
}

/// Three nodes come back when three instants have passed: gives how many periods before now the
/// instants lie that ran, and what was reported.
async fn after_three_instants(
    url: &str,
    job: &str,
    with: impl Fn(Job) -> Job,
) -> (Vec<i64>, u64, u64) {
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(url, &prefix).await;
    let now = server_ms(&redis).await;
    let period = period_amid(now);
    let newest = now / period * period;
    let last = lock(&redis, job, "org-0").part("last_tick");
    set(&redis, &last, &(newest - 3 * period).to_string()).await;

    let interval = Duration::from_millis(period.unsigned_abs());
    for _ in 0..3 {
        let client = connect(url, &prefix).await;
        nodes.start(
            &client,
            &book,
            vec![with(message_job(job, interval))],
            orgs(1),
        );
    }
    coord_tests::wait::eventually(SOON, "the last tick is the newest instant", || async {
        get(&redis, &last).await == Some(newest.to_string())
    })
    .await;
    nodes.stop().await;

    let ran = book.instants().into_values().flatten();
    let ran = ran.map(|instant| (newest - instant) / period).collect();
    let sum = |key| {
        let lines = recorder().seen(key, &[("job_type", job)]);
        let counts = lines.iter().filter_map(|line| line.field("instants"));
        counts
            .map(|count| count.parse::<u64>().expect("a number"))
            .sum()
    };
    (ran, sum("fanout.tick.missed"), sum("fanout.tick.coalesced"))
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_runs_nothing_that_is_later_than_its_grace_and_reports_it_once() {
    let url = need!(shared_redis_url().await);
    let policy = |job: Job| job.catch_up(CatchUp::Skip);

    assert_eq!(
        after_three_instants(&url, "skip", policy).await,
        (vec![], 3, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_runs_the_newest_instant_within_its_grace_once() {
    let url = need!(shared_redis_url().await);
    let policy = |job: Job| job.catch_up(CatchUp::Skip).grace(Duration::from_hours(24));

    assert_eq!(
        after_three_instants(&url, "graceful", policy).await,
        (vec![0], 0, 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn last_runs_the_newest_instant_for_all() {
    let url = need!(shared_redis_url().await);
    let policy = |job: Job| job.catch_up(CatchUp::Last);

    assert_eq!(
        after_three_instants(&url, "last", policy).await,
        (vec![0], 0, 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_runs_each_instant_in_order() {
    let url = need!(shared_redis_url().await);
    let policy = |job: Job| job.catch_up(all(10));

    assert_eq!(
        after_three_instants(&url, "all", policy).await,
        (vec![2, 1, 0], 0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_runs_the_newest_instants_up_to_its_bound_and_reports_the_others() {
    let url = need!(shared_redis_url().await);
    let policy = |job: Job| job.catch_up(all(2));

    assert_eq!(
        after_three_instants(&url, "bounded", policy).await,
        (vec![1, 0], 1, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_across_ticks_loses_none_under_all() {
    let url = need!(shared_redis_url().await);
    let (book, prefix) = (Book::default(), prefix());
    let redis = connect(&url, &prefix).await;
    let job = || vec![message_job("deployed", PERIOD).catch_up(all(u8::MAX))];
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, job(), orgs(3));
    book.until("two ticks of each", |book| book.ids().len() >= 6)
        .await;

    nodes.stop().await;
    let before = book.ids().len();
    let down = server_ms(&redis).await;
    coord_tests::wait::eventually(SOON, "three instants pass", || async {
        server_ms(&redis).await > down + 700
    })
    .await;
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, job(), orgs(3));
    book.until("five more of each", |book| book.ids().len() >= before + 15)
        .await;
    nodes.stop().await;

    for instants in book.instants().values() {
        assert_each_once(instants, PERIOD);
    }
}

/// Three nodes, each on a proxy of its own, lose Redis for some ticks.
async fn through_an_outage(server: &RedisServer, job: &str, policy: CatchUp) -> Vec<Vec<i64>> {
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let mut proxies = Vec::new();
    for _ in 0..3 {
        let proxy = FaultProxy::start(server.addr()).await;
        let redis = connect_within(&proxy.url(), &prefix, Duration::from_millis(300)).await;
        let job = message_job(job, PERIOD).catch_up(policy).lease(ttl(500));
        nodes.start(&redis, &book, vec![job], orgs(4));
        proxies.push(proxy);
    }
    book.until("three ticks of each", |book| book.ids().len() >= 12)
        .await;

    for proxy in &proxies {
        proxy.refuse().await;
        proxy.cut().await;
    }
    let before = book.ids().len();
    let near = connect(&server.url(), &prefix).await;
    let down = server_ms(&near).await;
    coord_tests::wait::eventually(SOON, "five instants pass", || async {
        server_ms(&near).await > down + 1_100
    })
    .await;
    for proxy in &proxies {
        proxy.heal().await;
    }
    book.until("eight more of each", |book| book.ids().len() >= before + 32)
        .await;
    nodes.stop().await;
    book.instants().into_values().collect()
}

/// Without its repetitions: a finish that was cut off repeats its tick, under the same id.
fn distinct(mut instants: Vec<i64>) -> Vec<i64> {
    instants.sort_unstable();
    instants.dedup();
    instants
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_redis_loses_no_instant_under_all() {
    let server = need!(RedisServer::start().await);

    for instants in through_an_outage(&server, "outage-all", all(u8::MAX)).await {
        assert_each_once(&distinct(instants), PERIOD);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_redis_is_made_up_for_by_one_instant_under_last() {
    let server = need!(RedisServer::start().await);
    let tenants = through_an_outage(&server, "outage-last", CatchUp::Last).await;

    for instants in tenants {
        let distinct = distinct(instants);
        let gaps = distinct.windows(2).map(|pair| pair[1] - pair[0]);
        // A claim that waited for its connection asks for the instant that was the newest then.
        assert!(gaps.max() >= Some(600), "{distinct:?}");
    }
    let missed = recorder().seen("fanout.tick.missed", &[("job_type", "outage-last")]);
    assert_eq!(missed, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_flushall_the_ticks_go_on_where_the_nodes_remember_them() {
    let server = need!(RedisServer::start().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    for _ in 0..3 {
        let redis = connect(&server.url(), &prefix).await;
        nodes.start(&redis, &book, vec![message_job("flushed", PERIOD)], orgs(5));
    }
    book.until("three ticks of each", |book| book.ids().len() >= 15)
        .await;

    server
        .command(&["FLUSHALL"])
        .await
        .expect("the server answers");
    let before = book.ids().len();
    book.until("five more of each", |book| book.ids().len() >= before + 25)
        .await;
    nodes.stop().await;

    for instants in book.instants().values() {
        // Whoever had not heard yet of the tick that was finished just before may repeat it.
        let repeated = instants.len() - distinct(instants.clone()).len();
        assert!(repeated <= 1, "{instants:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_empty_goes_on_being_ticked() {
    let server = need!(RedisServer::start().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    for _ in 0..3 {
        let redis = connect_within(&server.url(), &prefix, Duration::from_millis(500)).await;
        nodes.start(
            &redis,
            &book,
            vec![message_job("restarted", PERIOD)],
            orgs(3),
        );
    }
    book.until("three ticks of each", |book| book.ids().len() >= 9)
        .await;

    server.restart().await;
    let before = book.ids().len();
    book.until("five more of each", |book| book.ids().len() >= before + 15)
        .await;
    nodes.stop().await;

    for instants in book.instants().values() {
        let repeated = instants.len() - distinct(instants.clone()).len();
        assert!(repeated <= 1, "{instants:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_loses_no_instant_under_all() {
    let group = need!(Sentinel::start().await);
    let url = group.url();
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    for _ in 0..3 {
        let redis = connect(&url, &prefix).await;
        let job = message_job("failed-over", PERIOD).catch_up(all(u8::MAX));
        nodes.start(&redis, &book, vec![job.lease(ttl(1_000))], orgs(4));
    }
    book.until("three ticks of each", |book| book.ids().len() >= 12)
        .await;

    group.kill_master().await;
    group.wait_for_failover().await;
    let before = book.ids().len();
    book.until("thirty more of each", |book| {
        book.ids().len() >= before + 120
    })
    .await;
    nodes.stop().await;

    for instants in book.instants().into_values() {
        // The new master may not have heard of the last ticks: they are repeated under their ids.
        assert_each_once(&distinct(instants), PERIOD);
    }
}
