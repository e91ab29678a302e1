//! `coord runs`.

use crate::command_line::on_every_database;
use crate::command_line::stage::Database;

on_every_database! {
    a_workflow_is_started_signalled_and_its_output_is_shown,
    a_workflow_that_failed_ends_the_command_that_waits_for_it_with_1,
    a_command_with_a_request_id_is_carried_out_once,
    runs_are_listed_by_what_they_are_a_page_at_a_time,
    a_workflow_ends_as_an_operator_says,
    an_exported_history_holds_and_one_that_was_changed_does_not,
    what_is_looked_at_stays_as_it_is,
}

async fn a_workflow_is_started_signalled_and_its_output_is_shown(database: Database) {
    let database = database.migrated();
    let (_engine, _worker) = database.worker().await;

    let started = database.json(&["runs", "start", "tests.order", "--id", "order-1"]);
    assert_eq!(
        (&started["workflow"], &started["created"]),
        (&"order-1".into(), &true.into())
    );
    let signal = ["runs", "signal", "order-1", "approve", "--input", "-"];
    database.coord_with(r#"{"by": "ann"}"#, &signal).done();
    let result = database.coord(&["runs", "result", "order-1"]).done();

    assert_eq!(result.trim(), r#"{"by":"ann"}"#);
    let described = database.json(&["runs", "describe", "order-1"]);
    assert_eq!(described["status"], "completed", "{described}");
    assert_eq!(described["outcome"]["output"]["by"], "ann", "{described}");
    let text = database.coord(&["runs", "describe", "order-1"]).done();
    assert!(
        text.contains("completed") && text.contains("tests.order"),
        "{text}"
    );
    let history = database.coord(&["runs", "history", "order-1"]).done();
    assert!(history.contains("SignalReceived"), "{history}");
    let last = database
        .coord(&["runs", "history", "order-1", "--last", "1"])
        .done();
    assert_eq!(last.lines().count(), 2, "{last}");
}

async fn a_workflow_that_failed_ends_the_command_that_waits_for_it_with_1(database: Database) {
    let database = database.migrated();
    let (_engine, _worker) = database.worker().await;

    let start = [
        "runs",
        "start",
        "tests.echo",
        "--input",
        "\"fail\"",
        "--wait",
        "5m",
    ];
    let ended = database.coord(&start);

    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("out of paper"), "{ended:?}");
}

async fn a_command_with_a_request_id_is_carried_out_once(database: Database) {
    let database = database.migrated();
    let start = [
        "runs",
        "start",
        "tests.order",
        "--id",
        "a",
        "--request",
        "r1",
    ];
    let first = database.json(&start);

    let again = database.json(&start);

    assert_eq!(again, first);
    let other = [
        "runs",
        "start",
        "tests.order",
        "--id",
        "a",
        "--request",
        "r2",
    ];
    database.coord(&other).refused(2, &["a", "in use"]);
}

async fn runs_are_listed_by_what_they_are_a_page_at_a_time(database: Database) {
    let database = database.migrated();
    for id in ["a-1", "a-2", "a-3", "b-1"] {
        database
            .coord(&["runs", "start", "tests.echo", "--id", id])
            .done();
    }
    database
        .coord(&["runs", "terminate", "a-1", "--reason", "r"])
        .done();

    let first = database.json(&["runs", "list", "--prefix", "a-", "--limit", "2"]);
    let next = first["next"].as_str().expect("there is more");
    let second = database.json(&["runs", "list", "--prefix", "a-", "--after", next]);

    let ids = |page: &serde_json::Value| -> Vec<String> {
        let runs = page["runs"].as_array().expect("a list").iter();
        runs.map(|run| run["workflow"].as_str().expect("an id").to_owned())
            .collect()
    };
    assert_eq!([ids(&first), ids(&second)].concat(), ["a-3", "a-2", "a-1"]);
    assert!(second["next"].is_null(), "{second}");
    let ended = database.json(&[
        "runs",
        "list",
        "--status",
        "terminated",
        "--status",
        "failed",
    ]);
    assert_eq!(ids(&ended), ["a-1"]);
    let table = database.coord(&["runs", "list"]).done();
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.starts_with("WORKFLOW"), "{table}");
}

async fn a_workflow_ends_as_an_operator_says(database: Database) {
    let database = database.migrated();
    let (_engine, _worker) = database.worker().await;
    for id in ["cancelled", "terminated"] {
        database
            .coord(&["runs", "start", "tests.order", "--id", id])
            .done();
    }

    database
        .coord(&["runs", "cancel", "cancelled", "--reason", "no stock"])
        .done();
    database
        .coord(&["runs", "terminate", "terminated", "--reason", "stuck"])
        .done();

    for (id, reason) in [("cancelled", "no stock"), ("terminated", "stuck")] {
        let result = database.coord(&["runs", "result", id, "--wait", "5m"]);
        assert_eq!(result.code, 1, "{result:?}");
        assert!(result.out.contains(reason), "{result:?}");
        assert_eq!(database.json(&["runs", "describe", id])["status"], id);
    }
    database
        .coord(&["runs", "signal", "terminated", "approve"])
        .refused(2, &["has ended"]);
}

async fn an_exported_history_holds_and_one_that_was_changed_does_not(database: Database) {
    let database = database.migrated();
    database
        .coord(&["runs", "start", "tests.order", "--id", "a"])
        .done();
    database
        .coord(&["runs", "terminate", "a", "--reason", "r"])
        .done();
    let exported = database.coord(&["runs", "history", "a", "--json"]).done();
    let whole = database.folder.path().join("whole.json");
    let changed = database.folder.path().join("changed.json");
    std::fs::write(&whole, &exported).expect("written");
    std::fs::write(&changed, exported.replace("\"seq\": 2", "\"seq\": 3")).expect("written");
    let path = |file: &std::path::Path| file.to_str().expect("text").to_owned();

    database.coord(&["history", "verify", &path(&whole)]).done();
    let verified = database.coord(&["history", "verify", &path(&whole), &path(&changed)]);

    assert_eq!(verified.code, 1, "{verified:?}");
    assert!(verified.out.contains("event 2 is missing"), "{verified:?}");
}

async fn what_is_looked_at_stays_as_it_is(database: Database) {
    database
        .coord(&["runs", "list"])
        .refused(if database.is_file() { 3 } else { 2 }, &["migrate"]);
    let file = database.folder.path().join("coord.db");
    assert!(!file.exists(), "looking makes no database");
    database.coord(&["migrate"]).done();
    database.coord(&["migrate"]).done();

    let runs = database.json(&["runs", "list"]);

    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(0), "{runs}");
    assert_eq!(
        database.coord(&["retention-pass"]).done().split(' ').next(),
        Some("0")
    );
}
