//! What operators look at: why a workflow does not move, queues, workers, hints, and what happens.

use serde_json::{Value, json};

use crate::command_line::on_every_database;
use crate::command_line::stage::Database;

on_every_database! {
    a_workflow_that_does_not_move_is_explained,
    queues_and_the_fleet_are_shown,
    a_pass_of_repair_says_what_it_mended,
    a_hint_is_heard_by_who_waits_for_it,
    what_happens_to_a_workflow_is_shown_until_it_ends,
    starts_and_ends_are_shown_as_they_happen,
}

fn started(database: &Database, id: &str, queue: &str) {
    let start = ["runs", "start", "tests.order", "--id", id, "--queue", queue];
    database.coord(&start).done();
}

async fn a_workflow_that_does_not_move_is_explained(database: Database) {
    let database = database.migrated();
    started(&database, "a", "nobody");

    let explained = database.json(&["explain", "a"]);
    let text = database.coord(&["explain", "a"]).done();

    assert_eq!(explained["state"], "workflow_task_ready", "{explained}");
    assert_eq!(explained["row"]["table"], "workflow_tasks", "{explained}");
    assert_eq!(explained["refusal"], "namespace_unserved", "{explained}");
    let said = "no worker has taken the workflow tests.order of the queue nobody";
    assert!(text.contains(said), "{text}");
    assert!(text.contains("namespace_unserved"), "{text}");
    let metrics = database.json(&["metrics"]);
    assert_eq!(metrics["refused"][0]["reason"], "namespace_unserved");
    let metrics = database.coord(&["metrics"]).done();
    let sample = "engine_tasks_refused{reason=\"namespace_unserved\"} 1\n";
    assert!(metrics.contains(sample), "{metrics}");
    let run = explained["run"].as_str().expect("an id");
    let of_run = database.json(&["explain", "a", "--run", run]);
    assert_eq!(of_run["state"], explained["state"]);
    database
        .coord(&["explain", "a", "--run", "none"])
        .refused(3, &["none"]);
    database
        .coord(&["explain", "b", "--run", run])
        .refused(3, &["b"]);
    let elsewhere = ["explain", "a", "--run", run, "--namespace", "elsewhere"];
    database.coord(&elsewhere).refused(3, &[run]);
}

async fn queues_and_the_fleet_are_shown(database: Database) {
    let database = database.migrated();
    let (engine, worker) = database.worker().await;
    for id in ["a", "b"] {
        started(&database, id, "busy");
    }
    // Workers make themselves known in a moment.
    let seen = loop {
        let seen = database.json(&["fleet"]);
        if seen["workers"][0].is_object() {
            break seen;
        }
    };

    let queues = database.json(&["queues"]);
    let busy = database.coord(&["queues", "busy"]).done();
    let text = database.coord(&["fleet"]).done();

    assert_eq!(queues["queues"][0]["queue"], "busy", "{queues}");
    assert_eq!(queues["queues"][0]["due"]["count"], 2, "{queues}");
    let all = queues["queues"].as_array().expect("a list");
    let own = all.iter().find(|it| it["queue"] == "default");
    assert_eq!(own.expect("a worker looks there")["workers"], 1, "{queues}");
    assert!(
        busy.starts_with("QUEUE") && busy.contains("workflow"),
        "{busy}"
    );
    assert_eq!(busy.lines().count(), 2, "{busy}");
    assert_eq!(seen["workers"][0]["pid"], std::process::id(), "{seen}");
    assert_eq!(seen["workers"][0]["status"], "active", "{seen}");
    assert_eq!(seen["processes"]["live"], 1, "{seen}");
    assert!(
        text.contains("recovery") && text.contains("1 processes live"),
        "{text}"
    );
    let nobody = database.json(&["fleet", "--queue", "busy"]);
    assert_eq!(nobody["workers"], json!([]), "{nobody}");
    worker.shutdown(std::time::Duration::from_mins(1)).await;
    engine.shutdown().await.expect("ended");
}

async fn a_pass_of_repair_says_what_it_mended(database: Database) {
    let database = database.migrated();
    started(&database, "a", "nobody");
    database
        .execute("DELETE FROM workflow_tasks".to_owned())
        .await;
    assert_eq!(database.json(&["explain", "a"])["state"], "repair_needed");

    let repaired = database.json(&["repair-pass"]);

    assert_eq!(repaired, json!({"tasks": 0, "activities": 0, "runs": 1}));
    assert_eq!(
        database.json(&["explain", "a"])["state"],
        "workflow_task_ready"
    );
    let text = database.coord(&["repair-pass"]).done();
    assert!(text.starts_with("0 tasks were taken back"), "{text}");
}

async fn a_hint_is_heard_by_who_waits_for_it(database: Database) {
    let database = database.migrated();
    let changed = ["wake", "changed", "--queue", "q", "--wait", "10m", "--json"];
    let mut waiting = database.begin(&changed);
    waiting.listens();

    let sent = database.json(&["wake", "signal", "--queue", "q"]);

    let heard: Value = waiting.ended().json();
    assert_eq!(sent["health"], "healthy", "{sent}");
    assert_eq!(heard["changed"], true, "{heard}");
    let snapshot = database.json(&["wake", "snapshot"]);
    assert_eq!(
        snapshot["backends"],
        json!([{"backend": "table", "works": true}])
    );
    let nothing = database.coord(&["wake", "changed", "--queue", "q", "--wait", "10ms"]);
    assert_eq!(nothing.code, 1, "{nothing:?}");
    assert!(nothing.out.contains("no hint of queue q"), "{nothing:?}");
}

async fn what_happens_to_a_workflow_is_shown_until_it_ends(database: Database) {
    let database = database.migrated();
    let (_engine, _worker) = database.worker().await;
    started(&database, "a", "default");
    let mut tail = database.begin(&["tail", "a", "--json"]);
    let first: Value = serde_json::from_str(&tail.line()).expect("a document");

    database
        .coord(&["runs", "signal", "a", "approve", "--input", "\"ann\""])
        .done();

    assert_eq!(
        (&first["seq"], &first["event"]),
        (&1.into(), &"Started".into())
    );
    let rest = tail.ended().done();
    let last = rest.lines().last().expect("lines");
    let last: Value = serde_json::from_str(last).expect("a document");
    assert_eq!(
        (&last["event"], &last["payload"]),
        (&"Completed".into(), &"ann".into())
    );
    let text = database.coord(&["tail", "a", "--last", "1"]).done();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("Completed") && text.contains("ann"), "{text}");
}

async fn starts_and_ends_are_shown_as_they_happen(database: Database) {
    let database = database.migrated();
    started(&database, "before", "nobody");
    let mut tail = database.begin(&["tail", "--json"]);
    tail.listens();

    started(&database, "a", "nobody");
    let first: Value = serde_json::from_str(&tail.line()).expect("a document");
    database
        .coord(&["runs", "terminate", "a", "--reason", "r"])
        .done();
    let second: Value = serde_json::from_str(&tail.line()).expect("a document");

    assert_eq!(
        (&first["workflow"], &first["event"]),
        (&"a".into(), &"started".into())
    );
    assert_eq!(
        (&second["workflow"], &second["event"]),
        (&"a".into(), &"terminated".into())
    );
    let ended = database.coord(&["tail", "--for", "10ms"]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn a_machine_without_hints_says_so() {
    let database = Database::sqlite().migrated();
    let mut command = crate::command_line::stage::program();
    let command = command
        .args(["wake", "snapshot"])
        .env("DATABASE_URL", &database.url);

    let alone = crate::command_line::stage::ended(command.env("CACHE_DRIVER", "none"));

    assert_eq!(alone.code, 1, "{alone:?}");
    assert!(alone.out.contains("once a second"), "{alone:?}");
}
