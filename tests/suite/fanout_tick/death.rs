//! Nodes as processes that are killed or stopped in the middle of a tick.

use std::collections::BTreeSet;

use coord_tests::need;
use coord_tests::process::{NodeProcess, Program};
use coord_tests::servers::Deployment;

use super::*;

/// Starts `src/bin/tick_node.rs` with the rest of its arguments.
fn node(server: &Deployment, prefix: &str, rest: [&str; 4]) -> NodeProcess {
    let node = Program::at(env!("CARGO_BIN_EXE_tick-node"));
    let node = node.args([&server.url(), prefix]).args(rest).start();
    node.expect("the node program was built")
}

async fn line(node: &mut NodeProcess, start: &str) -> String {
    node.line_starting(start, SOON).await
}

/// The ids of what a node enqueued.
fn put(node: &NodeProcess) -> Vec<String> {
    let lines = node.lines().into_iter();
    let ids = lines.filter_map(|line| line.strip_prefix("put ").map(str::to_owned));
    ids.collect()
}

/// The line `scan ORG INSTANTS FENCE`, without and with its fence.
fn fenced(scan: &str) -> (&str, u64) {
    let (scan, fence) = scan.rsplit_once(' ').expect("four words");
    (scan, fence.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_before_it_enqueued_is_followed_by_one_for_the_same_instants() {
    let server = need!(Deployment::shared().await);
    let prefix = prefix();
    let mut first = node(&server, &prefix, ["2000", "0", "1", "before"]);
    let killed = line(&mut first, "scan").await;

    first.kill().await;
    let mut second = node(&server, &prefix, ["10000", "0", "1", "none"]);
    let followed = line(&mut second, "scan").await;
    line(&mut second, "finished").await;

    let ((killed, fence), (followed, larger)) = (fenced(&killed), fenced(&followed));
    assert_eq!(killed, followed);
    assert!(larger > fence, "{larger} after {fence}");
    assert_eq!((put(&first).len(), put(&second).len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_before_it_finished_is_repeated_under_the_same_ids() {
    let server = need!(Deployment::shared().await);
    let prefix = prefix();
    let mut first = node(&server, &prefix, ["2000", "0", "1", "after"]);
    line(&mut first, "put").await;

    first.kill().await;
    let mut second = node(&server, &prefix, ["10000", "0", "1", "none"]);
    line(&mut second, "finished").await;

    assert_eq!(put(&first).len(), 1);
    assert_eq!(put(&first), put(&second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_stopped_past_its_lease_enqueues_and_finishes_nothing_when_it_wakes() {
    let server = need!(Deployment::shared().await);
    let prefix = prefix();
    let redis = connect(&server.url(), &prefix).await;
    let key = lock(&redis, "death", "org-0");
    let mut first = node(&server, &prefix, ["2000", "0", "1", "before"]);
    line(&mut first, "scan").await;

    first.pause().await;
    let mut second = node(&server, &prefix, ["10000", "0", "1", "none"]);
    line(&mut second, "finished").await;
    let cooldown = get(&redis, &key).await.expect("a cooldown");
    first.send("go").await.expect("it reads");
    first.resume().await;
    line(&mut first, "lost").await;
    first.send("stop").await.expect("it reads");
    line(&mut first, "stopped").await;

    assert!(cooldown.starts_with("done:"), "{cooldown}");
    assert_eq!(get(&redis, &key).await, Some(cooldown));
    assert_eq!((put(&first).len(), put(&second).len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_stopped_between_its_records_and_its_finish_does_not_finish_for_another() {
    let server = need!(Deployment::shared().await);
    let prefix = prefix();
    let redis = connect(&server.url(), &prefix).await;
    let key = lock(&redis, "death", "org-0");
    let mut first = node(&server, &prefix, ["2000", "0", "1", "after"]);
    line(&mut first, "put").await;

    first.pause().await;
    let mut second = node(&server, &prefix, ["10000", "0", "1", "before"]);
    line(&mut second, "scan").await;
    let held = get(&redis, &key).await;
    first.send("go").await.expect("it reads");
    first.resume().await;
    line(&mut first, "lost").await;
    let last = get(&redis, &key.part("last_tick")).await;
    second.send("go").await.expect("it reads");
    line(&mut second, "finished").await;

    assert!(held.is_some_and(|held| !held.starts_with("done:")));
    assert_eq!(last, None, "the first tick was not finished by then");
    assert_eq!(put(&first), put(&second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_stop_hands_its_scan_over_at_once() {
    let server = need!(Deployment::shared().await);
    let prefix = prefix();
    // Long leases: whoever waits for one to end comes too late.
    let mut first = node(&server, &prefix, ["60000", "0", "1", "before"]);
    line(&mut first, "scan").await;

    first.send("stop").await.expect("it reads");
    line(&mut first, "released").await;
    line(&mut first, "stopped").await;
    let mut second = node(&server, &prefix, ["60000", "0", "1", "none"]);
    line(&mut second, "finished").await;

    first.close_stdin();
    assert_eq!(first.wait(SOON).await, Some(coord_tests::Exit::Code(0)));
    assert_eq!((put(&first).len(), put(&second).len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_killed_one_after_another_lose_no_tick_and_repeat_only_their_own() {
    let server = need!(Deployment::shared().await);
    let prefix = prefix();
    let start = || node(&server, &prefix, ["600", "200", "10", "none"]);
    let mut alive: Vec<_> = (0..3).map(|_| start()).collect();
    let mut killed = Vec::new();

    for _ in 0..4 {
        for node in &mut alive {
            // Each has ticks of its own before the next one dies.
            line(node, "finished").await;
        }
        let victim = alive.remove(0);
        line(&mut alive[0], "scan").await;
        victim.kill().await;
        killed.push(victim);
        alive.push(start());
    }
    for node in &mut alive {
        line(node, "finished").await;
        node.send("stop").await.expect("it reads");
        line(node, "stopped").await;
    }

    let by_killed: BTreeSet<_> = killed.iter().flat_map(put).collect();
    let mut all: Vec<_> = killed.iter().chain(&alive).flat_map(put).collect();
    all.sort();
    for pair in all.windows(2).filter(|pair| pair[0] == pair[1]) {
        assert!(
            by_killed.contains(&pair[0]),
            "{} was repeated for nothing",
            pair[0]
        );
    }
    all.dedup();
    let mut tenants = BTreeMap::<_, Vec<i64>>::new();
    for id in &all {
        let (tenant, instant) = id.rsplit_once(':').expect("the id of a record");
        let instant = instant.parse().expect("milliseconds");
        tenants.entry(tenant).or_default().push(instant);
    }
    assert_eq!(tenants.len(), 10);
    for mut instants in tenants.into_values() {
        instants.sort_unstable();
        assert_each_once(&instants, PERIOD);
    }
}
