//! The first tick of a tenant, and the list of tenants.

use coord_core::Error;
use coord_fanout::{FirstRun, Schedule};
use coord_tests::need;
use coord_tests::need::shared_redis_url;
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_tenant_begins_with_the_next_instant_also_on_another_node() {
    let url = need!(shared_redis_url().await);
    let (book, prefix) = (Book::default(), prefix());
    let redis = connect(&url, &prefix).await;
    let last = lock(&redis, "begun", "org-0").part("last_tick");
    let period = Duration::from_secs(2);
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, vec![message_job("begun", period)], orgs(1));
    eventually(SOON, "the tenant is seen", || async {
        get(&redis, &last).await.is_some()
    })
    .await;
    let seen = get(&redis, &last).await.expect("it stays").parse::<i64>();
    let seen = seen.expect("milliseconds");

    // The first node is gone before the first instant, and no node is there at it.
    nodes.stop().await;
    let next = (seen / 2_000 + 1) * 2_000;
    eventually(SOON, "the first instant passes", || async {
        server_ms(&redis).await > next
    })
    .await;
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, vec![message_job("begun", period)], orgs(1));
    book.until("the first tick", |book| !book.ids().is_empty())
        .await;
    nodes.stop().await;

    let first = book.instants()["begun:org-0"][0];
    // A busy machine may be late for it, and then the newest one stands for all.
    assert!(first >= next && first % 2_000 == 0, "{first} after {seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_once_is_once_on_all_nodes() {
    let url = need!(shared_redis_url().await);
    let (book, prefix, mut nodes) = (Book::default(), prefix(), Nodes::new());
    let redis = connect(&url, &prefix).await;
    let job = || {
        let schedule = Schedule::cron("0 3 * * *", "Europe/Berlin").expect("a valid schedule");
        let job = Job::message(name("at-once"), schedule, |_, _| Vec::new());
        vec![job.first_run(FirstRun::AtOnce)]
    };

    for _ in 0..3 {
        let redis = connect(&url, &prefix).await;
        nodes.start(&redis, &book, job(), orgs(4));
    }
    let done = [("job_type", "at-once")];
    recorder()
        .events("fanout.tick.finished", &done, 4, SOON)
        .await;
    nodes.stop().await;

    let now = server_ms(&redis).await;
    for instants in book.instants().values() {
        let late = now - instants[0];
        assert_eq!(instants.len(), 1);
        assert!((0..26 * 3_600_000).contains(&late), "{late} ms ago");
    }
    assert_eq!(book.ids().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_come_and_go_with_the_list_and_stay_while_it_fails() {
    let url = need!(shared_redis_url().await);
    let (book, prefix) = (Book::default(), prefix());
    let redis = connect(&url, &prefix).await;
    let list = Arc::new(Mutex::new(Ok(orgs(1))));
    let listed = {
        let list = Arc::clone(&list);
        move || {
            let list = list.lock().unwrap_or_else(PoisonError::into_inner);
            let list = list.clone().map_err(|why: &str| Error::unavailable(why));
            std::future::ready(list)
        }
    };
    let put = |now| *list.lock().unwrap_or_else(PoisonError::into_inner) = now;
    coord_tests::recorder::recorder();
    let jobs = vec![message_job("listed", PERIOD)];
    let ticker = Ticker::new(&redis, book.sink(), jobs, listed).expect("the jobs differ");
    let ticker = ticker.refresh(Duration::from_millis(50));
    let mut nodes = JoinSet::new();
    nodes.spawn(ticker.run(std::future::pending()));
    let ticks = |org: &str| {
        let who = format!("listed:{org}");
        book.instants().get(&who).map_or(0, Vec::len)
    };

    book.until("the first tenant ticks", |_| ticks("org-0") >= 2)
        .await;
    put(Ok(orgs(2)));
    book.until("the second tenant ticks", |_| ticks("org-1") >= 2)
        .await;
    put(Err("the list is not to be had"));
    let why = [("error", "unavailable: the list is not to be had")];
    recorder()
        .event("fanout.tick.orgs_failed", &why, SOON)
        .await;
    let (first, second) = (ticks("org-0"), ticks("org-1"));
    let both = |_: &Book| ticks("org-0") >= first + 2 && ticks("org-1") >= second + 2;
    book.until("both go on", both).await;
    put(Ok(orgs(1)));
    let seen = ticks("org-1");
    let first = ticks("org-0");
    book.until("the first goes on", |_| ticks("org-0") >= first + 6)
        .await;

    assert!(ticks("org-1") <= seen + 3, "the second one is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_panics_does_not_end_the_ticker() {
    let url = need!(shared_redis_url().await);
    let (book, prefix) = (Book::default(), prefix());
    let redis = connect(&url, &prefix).await;
    coord_tests::recorder::recorder();
    let calls = Arc::new(Mutex::new(0));
    let listed = move || {
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls += 1;
        assert!(*calls > 1, "as asked");
        std::future::ready(Ok(orgs(1)))
    };
    let jobs = vec![message_job("panicking-list", PERIOD)];
    let ticker = Ticker::new(&redis, book.sink(), jobs, listed).expect("the jobs differ");
    let mut nodes = JoinSet::new();

    nodes.spawn(
        ticker
            .refresh(Duration::from_millis(50))
            .run(std::future::pending()),
    );

    book.until("it ticks", |book| !book.ids().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_of_one_name_are_invalid() {
    let url = need!(shared_redis_url().await);
    let redis = connect(&url, &prefix()).await;
    let jobs = vec![message_job("twice", PERIOD), message_job("twice", PERIOD)];

    let listed = || std::future::ready(Ok(Vec::new()));
    let refused = Ticker::new(&redis, Book::default().sink(), jobs, listed);

    let kind = refused.map(|_| ()).expect_err("refused").kind();
    assert_eq!(kind, coord_core::ErrorKind::Invalid);
}
