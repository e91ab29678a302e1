//! Consumers as processes of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coord_fanout::{Enqueued, Queue, StreamQueue};
use coord_tests::Exit;
use coord_tests::need;
use coord_tests::need::unique;
use coord_tests::process::{NodeProcess, Program};
use coord_tests::servers::Deployment;
use coord_tests::wait::eventually;

use super::{SOON, connect_as, enqueue, message, messages, name, receive, visibility};

const VISIBILITY: Duration = Duration::from_secs(2);

struct Fleet {
    redis: Deployment,
    prefix: String,
    queue: StreamQueue,
}

impl Fleet {
    async fn start() -> Result<Self, need::Missing> {
        let deployment = Deployment::shared().await?;
        let prefix = unique("queue");
        let redis = connect_as(&deployment.url(), &prefix).await;
        let queue = StreamQueue::new(&redis, name(unique("records")), visibility(VISIBILITY));
        Ok(Self {
            redis: deployment,
            prefix,
            queue,
        })
    }

    async fn node(&self, work: Duration) -> NodeProcess {
        let mut node = Program::at(env!("CARGO_BIN_EXE_queue-node"))
            .arg(self.redis.url())
            .arg(&self.prefix)
            .arg(self.queue.name().as_str())
            .arg(VISIBILITY.as_millis().to_string())
            .arg(work.as_millis().to_string())
            .start()
            .expect("the node was built with this test");
        node.line_starting("ready", SOON).await;
        node
    }

    async fn becomes_empty(&self) {
        eventually(SOON * 2, "all is settled", || async {
            self.queue.depth().await.expect("there").open() == 0
        })
        .await;
    }
}

/// What `node` did to which message: the ids of its lines that start with `word`.
fn said(node: &NodeProcess, word: &str) -> BTreeSet<String> {
    let lines = node.lines();
    let lines = lines.iter().filter_map(|line| line.strip_prefix(word));
    lines
        .filter_map(|rest| rest.split_whitespace().next().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn a_node_killed_in_the_middle_of_its_batch_loses_nothing() {
    const COUNT: usize = 200;
    let fleet = need!(Fleet::start().await);
    let work = Duration::from_millis(50);
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(fleet.node(work).await);
    }

    enqueue(&fleet.queue, &messages(0..COUNT)).await;
    nodes[0].line_starting("handled", SOON).await;
    nodes[0].line_starting("started", SOON).await;
    assert_eq!(nodes[0].kill().await, Exit::Signal(9));
    fleet.becomes_empty().await;

    let handled: BTreeSet<_> = nodes
        .iter()
        .flat_map(|node| said(node, "handled "))
        .collect();
    assert_eq!(handled.len(), COUNT);
    let interrupted: BTreeSet<_> = said(&nodes[0], "started ")
        .difference(&said(&nodes[0], "handled "))
        .cloned()
        .collect();
    assert!(!interrupted.is_empty(), "it was killed in the middle");
    let dead = fleet.queue.depth().await.expect("there").dead;
    assert_eq!(dead, 0);
}

#[tokio::test]
async fn a_node_that_stands_still_loses_its_messages_to_the_others_and_does_no_harm_later() {
    const COUNT: usize = 40;
    let fleet = need!(Fleet::start().await);
    let mut paused = fleet.node(Duration::from_secs(1)).await;
    enqueue(&fleet.queue, &messages(0..COUNT)).await;
    paused.line_starting("started", SOON).await;

    paused.pause().await;
    let (started, handled) = (said(&paused, "started "), said(&paused, "handled "));
    let other = fleet.node(Duration::from_millis(10)).await;
    fleet.becomes_empty().await;
    let by_other = said(&other, "handled ");
    drop(other);
    paused.resume().await;
    enqueue(&fleet.queue, &[message("later")]).await;
    fleet.becomes_empty().await;
    paused.terminate();

    assert_eq!(paused.wait(SOON).await, Some(Exit::Code(0)));
    let in_hand: BTreeSet<_> = started.difference(&handled).cloned().collect();
    assert!(in_hand.is_subset(&by_other), "{in_hand:?}");
    assert_eq!(by_other.union(&handled).count(), COUNT);
    assert!(said(&paused, "handled ").contains("later"));
    let depth = fleet.queue.depth().await.expect("there");
    assert_eq!((depth.open(), depth.dead), (0, 0));
}

#[tokio::test]
async fn groups_keep_their_order_over_the_death_of_a_node() {
    const EACH: usize = 15;
    let fleet = need!(Fleet::start().await);
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(fleet.node(Duration::from_millis(20)).await);
    }

    for number in 0..EACH {
        for group in ["a", "b", "c", "d"] {
            let message = message(&format!("{group}/{number:03}")).group(name(group));
            enqueue(&fleet.queue, &[message]).await;
        }
    }
    nodes[0].line_starting("handled", SOON).await;
    nodes[0].kill().await;
    fleet.becomes_empty().await;

    // A message may be handled twice, and each node tells its own order only: of two messages of
    // a group at one node, the earlier one is first there.
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for node in &nodes {
        let mut last: BTreeMap<String, String> = BTreeMap::new();
        for line in node.lines() {
            let Some(rest) = line.strip_prefix("handled ") else {
                continue;
            };
            let id = rest.split_whitespace().next().expect("an id").to_owned();
            let (group, _) = id.split_once('/').expect("a group");
            let before = last.insert(group.to_owned(), id.clone());
            assert!(
                before.is_none_or(|before| before < id),
                "{:?}",
                node.lines()
            );
            *all.entry(id).or_default() += 1;
        }
    }
    assert_eq!(all.len(), EACH * 4);
}

#[tokio::test]
async fn a_node_that_is_terminated_ends_what_it_started_and_hands_back_the_rest() {
    const COUNT: usize = 40;
    let fleet = need!(Fleet::start().await);
    let mut node = fleet.node(Duration::from_millis(100)).await;

    enqueue(&fleet.queue, &messages(0..COUNT)).await;
    node.line_starting("started", SOON).await;
    node.terminate();

    node.line_starting("drained", SOON).await;
    assert_eq!(node.wait(SOON).await, Some(Exit::Code(0)));
    assert_eq!(said(&node, "started "), said(&node, "handled "));
    let rest = COUNT - said(&node, "handled ").len();
    let depth = fleet.queue.depth().await.expect("there");
    assert_eq!((depth.ready, depth.in_flight), (rest as u64, 0));
    let deliveries = receive(&fleet.queue, COUNT, Duration::ZERO).await;
    assert!(deliveries.iter().all(|delivery| delivery.attempt == 1));
}

#[tokio::test]
async fn a_backlog_that_grew_while_no_consumer_lived_is_drained() {
    const COUNT: usize = 20_000;
    const GROUPS: usize = 100;
    let fleet = need!(Fleet::start().await);
    let backlog: Vec<_> = (0..COUNT)
        .map(|number| {
            let message = message(&number.to_string());
            match number % 2 {
                0 => message,
                _ => message.group(name(format!("{}", number % GROUPS))),
            }
        })
        .collect();

    let outcomes = enqueue(&fleet.queue, &backlog).await;
    assert_eq!(outcomes, vec![Enqueued::Added; COUNT]);
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(fleet.node(Duration::ZERO).await);
    }
    fleet.becomes_empty().await;

    let handled: BTreeSet<_> = nodes
        .iter()
        .flat_map(|node| said(node, "handled "))
        .collect();
    assert_eq!(handled.len(), COUNT);
}
