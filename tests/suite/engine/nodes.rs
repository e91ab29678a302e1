//! Workers as processes of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use coord_engine::client::Client;
use coord_engine::flow::Workflow;
use coord_engine::health::Liveness;
use coord_engine::model::{EventKind, Namespace, Queue};
use coord_tests::process::{NodeProcess, Program};
use coord_tests::wait::{eventually, eventually_some};

use super::wake::engine;
use super::{SOON, Stage, id};

pub(super) const AUDIT: Workflow<u64, u64> = Workflow::new("records.audit");
/// How long an activity of the nodes takes.
const STEP: Duration = Duration::from_millis(50);
const RECORDS: u64 = 20;

impl Stage {
    async fn node(&self) -> NodeProcess {
        self.node_with(STEP).await
    }

    /// One without hints.
    async fn node_with(&self, step: Duration) -> NodeProcess {
        self.node_in(step, &self.environment(&[("CACHE_DRIVER", "none")]))
            .await
    }

    /// What an engine on this database is told, and what carries its hints.
    pub(super) fn environment(&self, hints: &[(&str, &str)]) -> Vec<(String, String)> {
        let url = format!("sqlite:{}", self.path("work.db").display());
        let database = [("DATABASE_URL", url.as_str())];
        let pairs = database.iter().chain(hints);
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// One in this environment, once it works and its hints pass.
    pub(super) async fn node_in(
        &self,
        step: Duration,
        environment: &[(String, String)],
    ) -> NodeProcess {
        let mut node = Program::at(env!("CARGO_BIN_EXE_engine-node"))
            .arg(self.path("effects"))
            .arg(step.as_millis().to_string());
        for (name, value) in environment {
            node = node.env(name, value);
        }
        let mut node = node.start().expect("cargo built it");
        node.line_starting("ready", SOON).await;
        node
    }

    /// How often each effect was had.
    pub(super) fn effects(&self) -> BTreeMap<String, u32> {
        let text = std::fs::read_to_string(self.path("effects")).unwrap_or_default();
        let mut effects = BTreeMap::new();
        for line in text.lines() {
            *effects.entry(line.to_owned()).or_default() += 1;
        }
        effects
    }

    async fn start_records(&self, client: &Client) {
        for record in 0..RECORDS {
            let started = client.start(AUDIT, id(&record.to_string()), &record).await;
            assert!(started.expect("the file is ours").was_created);
        }
    }
}

async fn all_end_right(client: &Client) {
    for record in 0..RECORDS {
        let handle = client.handle(AUDIT, id(&record.to_string()));
        let sum = handle.result(SOON).await.expect("an answer");
        assert_eq!(sum, Some(Ok(record * 4)), "record {record}");
        let history = handle.history().await.expect("a history");
        let results = history.iter().filter(|event| {
            matches!(
                event.kind,
                EventKind::ActivityCompleted(_) | EventKind::StepCompleted(_)
            )
        });
        assert_eq!(results.count(), 4, "record {record}");
    }
}

#[tokio::test]
async fn the_runs_of_a_killed_node_go_on_on_another_one() {
    let stage = Stage::new();
    let client = stage
        .engine()
        .await
        .client(Namespace::default(), Queue::default());
    let first = stage.node().await;
    stage.start_records(&client).await;
    eventually(SOON, "it is in the middle", || async {
        stage.effects().len() > 10
    })
    .await;

    first.kill().await;
    let before = stage.effects();
    let _second = stage.node().await;

    all_end_right(&client).await;
    let effects = stage.effects();
    assert_eq!(effects.len(), 4 * RECORDS as usize);
    for (effect, times) in effects {
        let more = times - before.get(&effect).copied().unwrap_or_default();
        assert!(more <= 1, "{effect} was had {times} times");
    }
}

#[tokio::test]
async fn a_second_node_repeats_nothing_that_a_living_one_has() {
    let stage = Stage::new();
    let client = stage
        .engine()
        .await
        .client(Namespace::default(), Queue::default());
    let _first = stage.node().await;
    stage.start_records(&client).await;
    eventually(SOON, "it is in the middle", || async {
        stage.effects().len() > 10
    })
    .await;

    let _second = stage.node().await;

    all_end_right(&client).await;
    let effects = stage.effects();
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
}

#[tokio::test]
async fn a_node_that_was_paused_for_longer_than_its_life_writes_nothing_late() {
    let stage = Stage::new();
    let client = stage
        .engine()
        .await
        .client(Namespace::default(), Queue::default());
    let slow = Duration::from_secs(2);
    let mut paused = stage.node_with(slow).await;
    let handle = client.start(AUDIT, id("7"), &7).await.expect("started");
    let handle = handle.handle;
    eventually(SOON, "an activity is under way", || async {
        let described = handle.describe().await.expect("an answer").expect("there");
        let mut tasks = described.tasks.iter();
        tasks.any(|open| !open.task.as_str().ends_with(":0") && open.status == "leased")
    })
    .await;

    paused.pause().await;
    let _other = stage.node().await;
    let sum = handle.result(SOON).await.expect("an answer");
    let before = handle.history().await.expect("a history");
    paused.resume().await;
    paused.line_starting("lost", SOON).await;

    assert_eq!(sum, Some(Ok(28)));
    assert_eq!(handle.history().await.expect("a history"), before);
}

/// A node that has an activity under way, and that stops showing that it lives by what `befalls` it.
async fn is_told_of(befalls: impl AsyncFnOnce(&NodeProcess)) {
    let stage = Stage::new();
    let environment = stage.environment(&[
        ("CACHE_DRIVER", "none"),
        ("COORD_ENGINE_TTL", "6s"),
        ("COORD_ENGINE_HEARTBEAT", "1s"),
        ("COORD_ENGINE_TERM", "2s"),
        ("DW_V2_TASK_REPAIR_LOOP_THROTTLE_SECONDS", "1"),
    ]);
    let engine = engine(&environment).await;
    let client = engine.client(Namespace::default(), Queue::default());
    let node = stage.node_in(SOON, &environment).await;
    let started = client.start(AUDIT, id("7"), &7).await.expect("started");
    let explained = async || {
        let explained = started.handle.explain().await.expect("an answer");
        explained.expect("there")
    };
    eventually(SOON, "it is said who has it", || async {
        let explained = explained().await;
        explained.state == Liveness::ActivityTaskLeased && explained.message.contains("works on")
    })
    .await;

    befalls(&node).await;

    let silent = eventually_some(SOON, "it is said that it is silent", || async {
        Some(explained().await).filter(|it| it.message.contains("is silent for"))
    });
    let silent = silent.await;
    assert_eq!(silent.state, Liveness::ActivityTaskLeased);
    let process = format!("process {}", node.pid());
    assert!(silent.message.contains(&process), "{silent:?}");
    assert!(silent.age >= Duration::from_secs(4), "{silent:?}");
    assert!(silent.until > Some(silent.since), "{silent:?}");
    assert!(silent.action.contains("taken back within"), "{silent:?}");
    eventually(SOON, "it waits for another worker", || async {
        explained().await.state == Liveness::ActivityTaskReady
    })
    .await;
}

#[tokio::test]
async fn a_run_says_that_the_node_that_has_its_task_was_killed() {
    is_told_of(async |node| _ = node.kill().await).await;
}

#[tokio::test]
async fn a_run_says_that_the_node_that_has_its_task_is_stopped() {
    is_told_of(NodeProcess::pause).await;
}
