//! Engines that share a database and its schedules.

use std::time::Duration;

use coord_engine::client::Client;
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Failure, Overlap, ScheduleId, When};
use coord_engine::store::{Filter, ScheduleDescription};
use tokio::time::Instant;

use crate::stage::{Stage, namespace, queue};

const REPORT: Workflow<u32, String> = Workflow::new("tests.report");
const SECOND: Duration = Duration::from_secs(1);
/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_mins(2);

async fn report(ctx: Context, _: u32) -> Result<String, Failure> {
    let occurrence = ctx.occurrence().ok_or_else(|| Failure::new("none"))?;
    Ok(occurrence.at.as_micros().to_string())
}

fn id(text: &str) -> ScheduleId {
    ScheduleId::new(text).expect("an id")
}

async fn until_fired(client: &Client, name: &str, fires: u64) -> ScheduleDescription {
    let deadline = Instant::now() + SOON;
    loop {
        let described = client.schedule(id(name)).describe().await;
        let now = described.expect("an answer").expect("there");
        if now.record.state.fires >= fires {
            return now;
        }
        assert!(Instant::now() < deadline, "{now:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Three engines, of which two go as if their processes had died: the one that has the role is
/// among the first two, since they were there before the third.
pub(crate) async fn every_occurrence_fires_once_though_schedulers_die(stage: Stage) {
    let mut engines = Vec::new();
    for _ in 0..3 {
        let engine = stage.database.engine().await;
        let worker = engine.worker(namespace(), queue("q"));
        engines.push((worker.workflow(REPORT, report).start(), engine));
    }
    let last = engines.pop().expect("three");
    let client = last.1.client(namespace(), queue("q"));
    for name in ["a", "b"] {
        let handle = client.schedule(id(name));
        let create = handle.create(When::every(SECOND), REPORT, &1);
        create.overlap(Overlap::AllowAll).await.expect("created");
    }
    until_fired(&client, "a", 2).await;

    drop(engines.pop());
    until_fired(&client, "a", 4).await;
    drop(engines);

    for name in ["a", "b"] {
        let now = until_fired(&client, name, 6).await;
        assert_eq!(now.record.state.missed, 0);
        assert_eq!(now.record.state.fires, now.fires.len() as u64);
        for pair in now.fires.windows(2) {
            assert_eq!(pair[0].at.since(pair[1].at), SECOND, "{now:#?}");
        }
        for fire in &now.fires {
            let workflow = client.handle(REPORT, fire.workflow.clone());
            let done = workflow.result(SOON).await.expect("an answer");
            assert_eq!(done, Some(Ok(fire.at.as_micros().to_string())));
        }
        client.schedule(id(name)).pause("").await.expect("paused");
    }
    let all = Filter::all(namespace());
    let runs = client.count(&all).await.expect("a count");
    let mut fires = 0;
    for name in ["a", "b"] {
        let described = client.schedule(id(name)).describe().await;
        fires += described
            .expect("an answer")
            .expect("there")
            .record
            .state
            .fires;
    }
    assert_eq!(runs, fires, "each occurrence has one run");
}
