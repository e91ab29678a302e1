//! `coord schedules`.

use crate::command_line::on_every_database;
use crate::command_line::stage::Database;

on_every_database! {
    a_schedule_is_created_triggered_paused_and_deleted,
    a_schedule_that_cannot_be_is_refused_with_the_reason,
}

async fn a_schedule_is_created_triggered_paused_and_deleted(database: Database) {
    let database = database.migrated();
    let (_engine, _worker) = database.worker().await;
    let create = [
        "schedules",
        "create",
        "nightly",
        "--workflow",
        "tests.echo",
        "--cron",
        "0 3 * * *",
        "--zone",
        "Europe/Berlin",
        "--input",
        "[1]",
        "--overlap",
        "allow_all",
    ];
    database.coord(&create).done();

    let triggered = database.json(&["schedules", "trigger", "nightly"]);
    let workflow = triggered["workflow"].as_str().expect("it has started one");
    assert_eq!(
        database.coord(&["runs", "result", workflow]).done().trim(),
        "[1]"
    );
    database
        .coord(&["schedules", "pause", "nightly", "--note", "holidays"])
        .done();

    let listed = database.json(&["schedules", "list"]);
    let nightly = &listed["schedules"][0];
    assert_eq!(
        (&nightly["status"], &nightly["fires"]),
        (&"paused".into(), &1.into()),
        "{listed}"
    );
    let described = database.json(&["schedules", "describe", "nightly"]);
    assert_eq!(
        described["latest_fires"][0]["cause"], "trigger",
        "{described}"
    );
    let text = database.coord(&["schedules", "describe", "nightly"]).done();
    assert!(
        text.contains("Europe/Berlin") && text.contains(workflow),
        "{text}"
    );
    database.coord(&["schedules", "resume", "nightly"]).done();
    let backfill = [
        "schedules",
        "backfill",
        "nightly",
        "--from",
        "2026-01-01T00:00:00Z",
        "--until",
        "2026-01-03T12:00:00Z",
        "--overlap",
        "allow_all",
    ];
    database.coord(&backfill).done();
    database.coord(&["schedules", "delete", "nightly"]).done();
    database
        .coord(&["schedules", "delete", "nightly"])
        .refused(3, &["nightly"]);
}

async fn a_schedule_that_cannot_be_is_refused_with_the_reason(database: Database) {
    let database = database.migrated();
    let create = |when: &[&str]| {
        let words = ["schedules", "create", "s", "--workflow", "tests.echo"];
        database.coord(&[&words, when].concat())
    };

    create(&["--cron", "61 * * * *"]).refused(2, &["61"]);
    create(&["--cron", "0 3 * * *", "--zone", "Mars/Olympus"]).refused(2, &["Mars/Olympus"]);
    create(&["--every", "10ms"]).refused(2, &["second"]);
    assert_eq!(create(&[]).code, 2);
    assert_eq!(create(&["--every", "1h", "--cron", "0 3 * * *"]).code, 2);
    assert_eq!(create(&["--every", "1h", "--overlap", "perhaps"]).code, 2);
}
