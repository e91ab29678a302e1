//! Each tick on one node, of however many.

use std::num::NonZeroU8;

use coord_fanout::{CatchUp, FirstRun};
use coord_tests::need;
use coord_tests::need::shared_redis_url;
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::{Cluster, RedisServer};

use super::*;

/// All instants run, also those that a busy machine made late.
const ALL: CatchUp = CatchUp::All(NonZeroU8::MAX);

fn job(job: &str) -> Job {
    message_job(job, PERIOD).catch_up(ALL)
}

#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_enqueue_each_tick_of_fifty_tenants_exactly_once() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let mut clients = Vec::new();

    for _ in 0..5 {
        let redis = connect(&url, &prefix).await;
        nodes.start(&redis, &book, vec![job("each")], orgs(50));
        clients.push(redis);
    }
    let enough = |book: &Book| {
        let instants = book.instants();
        instants.len() == 50 && instants.values().all(|instants| instants.len() >= 20)
    };
    book.until("twenty ticks of each tenant", enough).await;
    nodes.stop().await;

    for instants in book.instants().values() {
        assert_each_once(instants, PERIOD);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hears_late_neither_repeats_nor_holds_up_a_tick() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    proxy.delay(Duration::from_millis(60));
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let near = connect(&server.url(), &prefix).await;
    let far = connect(&proxy.url(), &prefix).await;

    nodes.start(&far, &book, vec![job("late")], orgs(8));
    nodes.start(&near, &book, vec![job("late")], orgs(8));
    let enough = |book: &Book| {
        let instants = book.instants();
        instants.len() == 8 && instants.values().all(|instants| instants.len() >= 12)
    };
    book.until("twelve ticks of each tenant", enough).await;
    nodes.stop().await;

    for instants in book.instants().values() {
        assert_each_once(instants, PERIOD);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_cluster_each_tenant_has_its_own_slot_and_its_ticks_once() {
    let cluster = need!(Cluster::start(3).await);
    let url = cluster.url();
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let mut clients = Vec::new();

    for _ in 0..3 {
        let redis = connect_within(&url, &prefix, Duration::from_secs(5)).await;
        nodes.start(&redis, &book, vec![job("slots")], orgs(12));
        clients.push(redis);
    }
    let enough = |book: &Book| {
        let instants = book.instants();
        instants.len() == 12 && instants.values().all(|instants| instants.len() >= 8)
    };
    book.until("eight ticks of each tenant", enough).await;
    nodes.stop().await;

    for instants in book.instants().values() {
        assert_each_once(instants, PERIOD);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_takes_a_claim_and_a_finish_and_no_other_call() {
    let server = need!(RedisServer::start().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&server.url(), &prefix).await;
    let monitor = server.monitor().await.expect("the server answers");

    nodes.start(&redis, &book, vec![job("calls")], orgs(10));
    let enough = |book: &Book| book.ids().len() >= 100;
    book.until("ten ticks of ten tenants", enough).await;
    nodes.stop().await;

    let is_script = |line: &String| line.contains("EVALSHA") || line.contains("\"EVAL\"");
    let lines = monitor.lines().await.expect("the server answers");
    let calls = lines.iter().filter(|line| is_script(line)).count();
    let ticks = book.ids().len();
    // One claim for all ten, or few; one finish each; the first look and the last release.
    assert!(
        calls <= ticks * 3 / 2 + 20,
        "{calls} calls for {ticks} ticks"
    );
    for instants in book.instants().values() {
        assert_each_once(instants, PERIOD);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spread_shifts_each_tenant_within_the_window_and_not_its_instants() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let period = Duration::from_secs(1);
    let arrived = Arc::new(Mutex::new(BTreeMap::new()));
    let clock = Arc::clone(&arrived);
    let job = Job::message(name("spread"), every(period), move |org, instant| {
        let mut arrived = clock.lock().unwrap_or_else(PoisonError::into_inner);
        let first = tokio::time::Instant::now();
        arrived
            .entry(instant.as_millis())
            .or_insert_with(Vec::new)
            .push((org.clone(), first));
        Vec::new()
    });

    nodes.start(
        &redis,
        &book,
        vec![job.spread(Duration::from_millis(800))],
        orgs(12),
    );
    let enough = |book: &Book| {
        book.instants()
            .values()
            .filter(|all| all.len() >= 2)
            .count()
            == 12
    };
    book.until("two ticks of each tenant", enough).await;
    nodes.stop().await;

    let arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
    let full = arrived
        .values()
        .find(|ticks| ticks.len() == 12)
        .expect("one instant of all");
    let times = full.iter().map(|(_, at)| *at);
    let (first, last) = (times.clone().min(), times.max());
    let width = last.expect("twelve") - first.expect("twelve");
    assert!(width > Duration::from_millis(300), "all within {width:?}");
    for instants in book.instants().values() {
        assert!(instants.iter().all(|instant| instant % 1000 == 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_that_are_due_at_once_share_the_claims() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    // What becomes free within a round trip shares the next claim.
    proxy.delay(Duration::from_millis(20));
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&proxy.url(), &prefix).await;
    let monitor = server.monitor().await.unwrap();

    let job = Job::message(name("shared"), rarely(), |_, _| Vec::new());
    let job = job.first_run(FirstRun::AtOnce);
    nodes.start(&redis, &book, vec![job], orgs(64));
    book.until("a tick of each tenant", |book| book.ids().len() == 64)
        .await;
    let claims = monitor.lines_with("ticker").await.unwrap();
    nodes.stop().await;

    let claims = claims.iter().filter(|line| !line.contains(" lua]")).count();
    assert!(claims <= 32, "{claims} claims");
}
