//! What operators hear of schedules, each through what it is about.

use std::time::Duration;

use coord_engine::client::{Client, ScheduleHandle};
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Failure, Namespace, Overlap, Queue, ScheduleId, When};
use coord_tests::recorder::recorder;
use coord_tests::wait::eventually;
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use super::{GO, SOON, Stage, worker};

const QUICK: Workflow<(), ()> = Workflow::new("tests.quick");
const STUCK: Workflow<(), ()> = Workflow::new("tests.stuck");
const SECOND: Duration = Duration::from_secs(1);

async fn quick(_: Context, (): ()) -> Result<(), Failure> {
    Ok(())
}

async fn stuck(ctx: Context, (): ()) -> Result<(), Failure> {
    ctx.signal(GO).recv().await
}

fn schedule(client: &Client, name: &str) -> ScheduleHandle {
    client.schedule(ScheduleId::new(name).expect("an id"))
}

async fn fires(handle: &ScheduleHandle) -> u64 {
    let described = handle.describe().await.expect("an answer");
    described.expect("there").record.state.fires
}

/// The database behind the engine's back.
async fn behind(stage: &Stage) -> SqliteConnection {
    let url = format!("sqlite://{}", stage.path("work.db").display());
    let connection = SqliteConnection::connect(&url).await;
    connection.expect("the file is there")
}

#[tokio::test]
async fn each_fire_is_told_with_its_cause() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let _worker = worker(&engine).workflow(QUICK, quick).start();
    let client = engine.client(Namespace::default(), Queue::default());
    let handle = schedule(&client, "told");
    handle
        .create(When::every(SECOND), QUICK, &())
        .overlap(Overlap::AllowAll)
        .await
        .expect("created");

    let about = |cause| [("schedule", "told"), ("cause", cause)];
    recorder()
        .event("engine.schedule.fired", &about("schedule"), SOON)
        .await;
    handle.trigger().await.expect("an answer");
    recorder()
        .event("engine.schedule.fired", &about("trigger"), SOON)
        .await;
}

#[tokio::test]
async fn an_occurrence_that_does_not_fire_because_of_another_is_counted() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let _worker = worker(&engine).workflow(STUCK, stuck).start();
    let client = engine.client(Namespace::default(), Queue::default());
    let handle = schedule(&client, "crowded");
    handle
        .create(When::every(SECOND), STUCK, &())
        .await
        .expect("created");

    let about = [("schedule", "crowded")];
    recorder()
        .event("engine.schedule.skipped", &about, SOON)
        .await;
}

#[tokio::test]
async fn what_came_due_while_no_process_lived_is_missed_or_made_up() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let client = engine.client(Namespace::default(), Queue::default());
    let handle = schedule(&client, "absent");
    handle
        .create(When::every(SECOND), QUICK, &())
        .catch_up(2 * SECOND)
        .await
        .expect("created");
    eventually(SOON, "it has fired", || async { fires(&handle).await > 0 }).await;
    drop((handle, client, engine));
    // Longer than its window, with nobody there.
    tokio::time::sleep(5 * SECOND).await;

    let _engine = stage.engine().await;

    let about = [("schedule", "absent")];
    recorder()
        .event("engine.schedule.missed", &about, SOON)
        .await;
}

#[tokio::test]
async fn a_schedule_whose_zone_is_not_known_here_is_reported_and_stops_no_other() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let client = engine.client(Namespace::default(), Queue::default());
    let lost = schedule(&client, "lost");
    lost.create(When::cron("* * * * * *", "Europe/Berlin"), QUICK, &())
        .await
        .expect("created");
    let mut other = behind(&stage).await;
    let elsewhere = "UPDATE workflow_schedules SET
        definition = replace(definition, 'Europe/Berlin', 'Mars/Olympus')";
    other.execute(elsewhere).await.expect("changed");

    let about = [("schedule", "lost")];
    let event = recorder()
        .event("engine.schedule.failed", &about, SOON)
        .await;

    assert!(
        event
            .field("error")
            .is_some_and(|error| error.contains("Mars/Olympus"))
    );
    let sound = schedule(&client, "sound");
    sound
        .create(When::every(SECOND), QUICK, &())
        .await
        .expect("created");
    eventually(SOON, "the other fires", || async {
        fires(&sound).await > 0
    })
    .await;
}

/// The database takes no writes for longer than anything should be due.
#[tokio::test]
async fn what_stays_due_is_shown_with_its_age() {
    let stage = Stage::new();
    let engine = stage.engine().await;
    let client = engine.client(Namespace::default(), Queue::default());
    let handle = schedule(&client, "late");
    handle
        .create(When::every(SECOND), QUICK, &())
        .overlap(Overlap::AllowAll)
        .await
        .expect("created");
    eventually(SOON, "it has fired", || async { fires(&handle).await > 0 }).await;

    let mut other = behind(&stage).await;
    other
        .execute("BEGIN IMMEDIATE")
        .await
        .expect("nobody writes for long");
    let before = fires(&handle).await;
    tokio::time::sleep(8 * SECOND).await;
    other.execute("ROLLBACK").await.expect("it has begun");

    recorder().event("engine.schedule.overdue", &[], SOON).await;
    eventually(SOON, "it fires again", || async {
        fires(&handle).await > before
    })
    .await;
}
