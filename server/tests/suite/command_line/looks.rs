//! Health, shells, and what all commands have in common.

use std::process::Stdio;

use crate::command_line::on_every_database;
use crate::command_line::stage::{Database, call, program};

on_every_database! {
    health_says_whether_the_database_answers,
}

async fn health_says_whether_the_database_answers(database: Database) {
    let database = database.migrated();

    let health = database.json(&["health"]);

    assert_eq!(health["status"], "ok", "{health}");
    assert_eq!(health["checks"][0]["name"], "database", "{health}");
}

#[test]
fn health_fails_when_what_it_asks_is_gone() {
    let gone = "postgres://postgres@127.0.0.1:1/coord";

    let health = call(&["health", "--database", gone, "--json"]);

    assert_eq!(health.code, 1, "{health:?}");
    assert_eq!(health.json()["checks"][0]["status"], "error");
}

#[test]
fn health_looks_at_redis_where_there_is_one() {
    let database = Database::sqlite().migrated();
    let mut command = program();
    let command = command
        .args(["health", "--json"])
        .env("DATABASE_URL", &database.url);

    let health =
        crate::command_line::stage::ended(command.env("COORD_REDIS_URL", "redis://127.0.0.1:1"));

    assert_eq!(health.code, 1, "{health:?}");
    let document = health.json();
    assert_eq!(document["checks"][0]["status"], "ok", "{document}");
    assert_eq!(document["checks"][1]["name"], "redis", "{document}");
    assert_eq!(document["checks"][1]["status"], "error", "{document}");
}

#[test]
fn whoever_stops_reading_ends_the_command_without_a_trace() {
    let mut child = program()
        .arg("man")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    drop(child.stdout.take());

    let output = child.wait_with_output().expect("an end");

    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn shells_and_manuals_know_every_command() {
    let commands = [
        "serve",
        "dev",
        "migrate",
        "health",
        "runs",
        "explain",
        "schedules",
        "queues",
        "fleet",
        "wake",
        "tail",
        "locks",
        "leases",
        "repair-pass",
    ];
    // A hyphen is written so in a manual page.
    let manual = call(&["man"]).done().replace("\\-", "-");
    for shell in ["bash", "zsh", "fish"] {
        let script = call(&["completions", shell]).done();
        for command in commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    for command in commands {
        assert!(manual.contains(command), "{command}");
    }
    assert!(manual.contains("Exit codes"), "{manual}");
}
