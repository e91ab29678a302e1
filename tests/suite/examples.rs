//! The examples of the crates, run as a reader runs them.

use std::time::Duration;

use coord_tests::Exit;
use coord_tests::need;
use coord_tests::need::{Missing, shared_redis_url, unique};
use coord_tests::process::{NodeProcess, Program};
use coord_tests::wait::eventually;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(30);

/// Runs the example several times on one server, under a prefix of its own.
struct Example {
    path: std::path::PathBuf,
    url: String,
    prefix: String,
}

impl Example {
    async fn of(package: &str, name: &str) -> Result<Self, Missing> {
        let suite = std::env::current_exe().expect("a test has a path");
        let profile = suite.ancestors().nth(2).expect("cargo put it into deps/");
        let path = profile.join("examples").join(name);
        if !path.exists() {
            return Err(Missing::new(
                format!("the example {name}"),
                format!("cargo build -p {package} --example {name}"),
            ));
        }
        Ok(Self {
            path,
            url: shared_redis_url().await?,
            prefix: unique("example"),
        })
    }

    fn start(&self) -> NodeProcess {
        let program = Program::at(&self.path)
            .env("COORD_REDIS_URL", &self.url)
            .env("COORD_REDIS_PREFIX", &self.prefix);
        program.start().expect("cargo built it")
    }
}

/// Waits for a clean end.
async fn ends(mut process: NodeProcess) -> Vec<String> {
    process.close_stdin();
    // What it says may arrive after it has ended.
    while process.next_line(SOON).await.is_some() {}
    let exit = process.wait(SOON).await.expect("it ends");
    assert_eq!(exit, Exit::Code(0), "{:?}", process.stderr());
    process.lines()
}

/// The number at the end of a line.
fn fence(line: &str) -> u64 {
    let (_, fence) = line.rsplit_once(' ').expect("several words");
    fence.parse().expect("a number")
}

#[tokio::test]
async fn bills_are_written_by_one_at_a_time() {
    let example = need!(Example::of("coord-lock", "nightly_bill").await);
    let (one, other) = (example.start(), example.start());

    let (one, other) = tokio::join!(ends(one), ends(other));

    for lines in [&one, &other] {
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().all(|line| fence(line) == fence(&lines[0])));
    }
    assert_ne!(fence(&one[0]), fence(&other[0]));
}

#[tokio::test]
async fn shards_go_to_another_instance_when_their_owner_ends() {
    let example = need!(Example::of("coord-lease", "shard_owner").await);
    let mut first = example.start();
    first.line_starting("took shard 5", SOON).await;
    let mut second = example.start();
    second.line_starting("took shard 11", SOON).await;

    let released = ends(first).await;
    let mut third = example.start();
    let taken = third.line_starting("took shard 5", SOON).await;

    assert!(released.contains(&"released shard 5: Removed".to_owned()));
    let before = released
        .iter()
        .find(|line| line.starts_with("took shard 5"));
    assert!(fence(&taken) > fence(before.expect("it had it")));
    ends(second).await;
    ends(third).await;
}

#[tokio::test]
async fn each_report_is_written_once_an_instant() {
    let example = need!(Example::of("coord-fanout", "hourly_report").await);
    let nodes = [example.start(), example.start()];
    let written = || {
        let mut written: Vec<_> = nodes.iter().flat_map(NodeProcess::lines).collect();
        written.retain(|line| line.starts_with("wrote"));
        written.sort_unstable();
        written
    };

    eventually(SOON, "each report", async || written().len() >= 4).await;

    let each = ["acme:sales", "acme:stock", "globex:sales", "globex:stock"];
    assert_eq!(
        written(),
        each.map(|id| format!("wrote reports:{id}, attempt 1"))
    );
    for node in nodes {
        ends(node).await;
    }
}

#[tokio::test]
async fn a_price_that_one_instance_sets_is_known_to_all() {
    let example = need!(Example::of("coord-broadcast", "price_feed").await);
    let (mut one, mut other) = (example.start(), example.start());
    one.line_starting("listening", SOON).await;
    other.line_starting("listening", SOON).await;

    one.send("tea 350").await.expect("it reads");

    for instance in [&mut one, &mut other] {
        let list = instance.line_starting("prices: ", SOON).await;
        assert_eq!(list, "prices: {\"tea\": 350}");
    }
    ends(one).await;
    ends(other).await;
}

#[tokio::test]
async fn an_entry_that_one_instance_deletes_leaves_all() {
    let example = need!(Example::of("coord-cache", "evict_everywhere").await);
    let (mut one, mut other) = (example.start(), example.start());
    one.send("7").await.expect("it reads");
    one.line_starting("loading 7", SOON).await;
    one.line_starting("7: ", SOON).await;
    other.send("7").await.expect("it reads");
    other.line_starting("7: ", SOON).await;

    one.send("move 7").await.expect("it reads");
    one.line_starting("moved 7", SOON).await;

    let loads = |node: &NodeProcess| {
        let lines = node.lines();
        lines.iter().filter(|line| *line == "loading 7").count()
    };
    assert_eq!((loads(&one), loads(&other)), (1, 0));
    // The news of it may arrive after the answer to the one who deleted.
    while loads(&other) == 0 {
        other.send("7").await.expect("it reads");
        other.line_starting("7: ", SOON).await;
    }
    ends(one).await;
    ends(other).await;
}

#[tokio::test]
async fn a_quota_holds_over_all_instances() {
    let example = need!(Example::of("coord-ratelimit", "api_quota").await);

    let (one, other) = tokio::join!(ends(example.start()), ends(example.start()));

    let allowed = one
        .iter()
        .chain(&other)
        .filter(|line| line.starts_with("allowed"));
    assert_eq!(allowed.count(), 10, "{one:?} {other:?}");
}
