//! Engines that take no part, as the tools of operators have them.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_engine::Engine;
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Failure, ScheduleId, When, WorkflowId};
use tokio::time::Instant;

use crate::dialect::Database;
use crate::stage::{Stage, namespace, queue};

const ECHO: Workflow<u32, u32> = Workflow::new("tests.echo");
/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_mins(2);
/// After this an occurrence is late that somebody fires: it is looked for once a second.
const LATE: Duration = Duration::from_secs(4);

async fn echo(_: Context, number: u32) -> Result<u32, Failure> {
    Ok(number)
}

/// `None` where no other process reaches it.
async fn visit(database: &Database) -> Option<coord_core::Result<Engine>> {
    let address = database.address()?;
    Some(Database::engine_at_address(&address).visit().await)
}

pub(crate) async fn a_visit_needs_a_schema_and_brings_none(stage: Stage) {
    let empty = stage.database.another().await;
    for _ in 0..2 {
        let Some(visited) = visit(&empty).await else {
            return;
        };

        let error = visited.err().expect("there is no schema");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }

    let address = empty.address().expect("it was visited");
    let migrated = Database::engine_at_address(&address).migrate().await;
    migrated.expect("migrated");
    let visited = visit(&empty).await.expect("an address").expect("visited");
    visited.shutdown().await.expect("ended");
}

pub(crate) async fn a_visitor_commands_and_does_nothing_for_all(stage: Stage) {
    let Some(visitor) = visit(&stage.database).await else {
        return;
    };
    let visitor = visitor.expect("visited");
    let client = visitor.client(namespace(), queue("q"));
    let id = WorkflowId::new("w").expect("an id");
    let started = client.start(ECHO, id, &7).await.expect("started");
    let schedule = client.schedule(ScheduleId::new("s").expect("an id"));
    let create = schedule.create(When::every(Duration::from_secs(1)), ECHO, &1);
    create.limit(1).await.expect("created");

    let deadline = Instant::now() + SOON;
    loop {
        let described = schedule
            .describe()
            .await
            .expect("an answer")
            .expect("there");
        assert_eq!(described.record.state.fires, 0, "nobody is there to fire");
        if described.now.since(described.record.next_fire_at) > LATE {
            break;
        }
        assert!(Instant::now() < deadline, "{described:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let member = stage.database.engine().await;
    let worker = member.worker(namespace(), queue("q"));
    let worker = worker.workflow(ECHO, echo).start();

    let result = started.handle.result(SOON).await.expect("an answer");
    assert_eq!(result.expect("an end").expect("an output"), 7);
    while schedule
        .describe()
        .await
        .expect("an answer")
        .expect("there")
        .record
        .state
        .fires
        == 0
    {
        assert!(Instant::now() < deadline, "the member fires");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    worker.shutdown(SOON).await;
    visitor.shutdown().await.expect("ended");
    member.shutdown().await.expect("ended");
}
