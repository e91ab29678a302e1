//! What operators do now and then: `coord doctor` and `coord archive-pass`.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::command_line::on_every_database;
use crate::command_line::stage::{Database, ended, program};

on_every_database! {
    a_database_as_it_should_be_is_well,
    an_index_that_is_gone_is_told_with_its_remedy,
    a_history_that_was_handed_over_is_found_where_the_run_says,
    what_stands_where_is_told_to_scrapers_and_programs,
}

fn finding<'a>(document: &'a Value, name: &str) -> &'a Value {
    let findings = document["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {document}"))
}

async fn a_database_as_it_should_be_is_well(database: Database) {
    database
        .coord(&["doctor"])
        .refused(if database.is_file() { 3 } else { 2 }, &["migrate"]);
    let database = database.migrated();

    let told = database.coord(&["doctor"]).done();
    let document = database.json(&["doctor"]);

    assert!(told.starts_with("CHECK"), "{told}");
    for name in [
        "migrations",
        "claim_plan",
        "missing_indexes",
        "clock_offset",
    ] {
        assert!(told.contains(name), "{told}");
        assert_eq!(finding(&document, name)["status"], "ok", "{document}");
    }
    assert_ne!(document["status"], "error", "{document}");
}

async fn an_index_that_is_gone_is_told_with_its_remedy(database: Database) {
    let database = database.migrated();
    let drop = if database.url.starts_with("mysql") {
        "DROP INDEX workflow_tasks_claim ON workflow_tasks"
    } else {
        "DROP INDEX workflow_tasks_claim"
    };
    database.execute(drop.to_owned()).await;

    let doctor = database.coord(&["doctor"]);

    assert_eq!(doctor.code, 1, "{doctor:?}");
    let line = |begins: &str| {
        let lines = doctor.out.lines();
        let found = lines.filter(|line| line.starts_with(begins)).count();
        assert_eq!(found, 1, "{begins}: {doctor:?}");
    };
    line("missing_indexes ");
    line("missing_indexes: ");
    line("claim_plan: ");
    let document = database.json(&["doctor"]);
    assert_eq!(document["status"], "error");
    let missing = finding(&document, "missing_indexes");
    let found = missing["found"].as_str().expect("text");
    assert!(found.contains("workflow_tasks_claim"), "{missing}");
}

async fn a_history_that_was_handed_over_is_found_where_the_run_says(database: Database) {
    let database = database.migrated();
    for id in ["closed", "open"] {
        let words = ["runs", "start", "tests.order", "--id", id];
        database.coord(&words).done();
    }
    let words = ["runs", "terminate", "closed", "--reason", "r"];
    database.coord(&words).done();
    let folder = database.folder.path().join("archive");
    let folder = folder.to_str().expect("text");
    let pass = |closed_for: &str| {
        let words = ["archive-pass", "--to", folder, "--closed-for", closed_for];
        database.json(&words)["archived"].clone()
    };

    assert_eq!(pass("1h"), 0);
    assert_eq!(pass("0s"), 1);
    assert_eq!(pass("0s"), 0, "once");

    let described = database.json(&["runs", "describe", "closed"]);
    let place = described["archived"]["place"].as_str().expect("a place");
    assert_eq!(described["status"], "terminated", "{described}");
    database.coord(&["history", "verify", place]).done();
    let words = ["runs", "history", "closed"];
    database.coord(&words).refused(2, &[place]);
    let text = database.coord(&["runs", "describe", "closed"]).done();
    assert!(text.contains(place), "{text}");
    let open = database.json(&["runs", "describe", "open"]);
    assert!(open["archived"].is_null(), "{open}");
    database.coord(&["runs", "history", "open"]).done();
}

/// A Redis of its own, which ends with it.
struct Bounded {
    child: Child,
    url: String,
}

impl Bounded {
    /// One whose memory is bounded and that evicts by `policy`.
    fn start(policy: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let port = port.to_string();
        let mut command = Command::new("redis-server");
        let command = command.args(["--port", &port, "--save", "", "--bind", "127.0.0.1"]);
        let command = command.args(["--maxmemory", "64mb", "--maxmemory-policy", policy]);
        let mut child = command
            .stdout(Stdio::null())
            .spawn()
            .expect("a redis-server");
        while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            let ended = child.try_wait().expect("its state");
            assert!(ended.is_none(), "it ended: {ended:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let url = format!("redis://127.0.0.1:{port}");
        Self { child, url }
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        // One that has ended by itself is gone as well.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn doctor_with(
    database: &Database,
    redis: &str,
    words: &[&str],
) -> crate::command_line::stage::Ended {
    let mut command = program();
    let command = command.args(["doctor", "--json"]).args(words);
    let command = command.env("DATABASE_URL", &database.url);
    ended(command.env("COORD_REDIS_URL", redis))
}

#[test]
fn a_redis_that_may_evict_locks_is_told() {
    let database = Database::sqlite().migrated();
    let evicts = Bounded::start("allkeys-lru");
    let keeps = Bounded::start("noeviction");

    let told = doctor_with(&database, &evicts.url, &[]);
    let strict = doctor_with(&database, &evicts.url, &["--strict"]);
    let fine = doctor_with(&database, &keeps.url, &[]).json();

    assert_eq!((told.code, strict.code), (0, 1), "{told:?}");
    let document = told.json();
    let policy = finding(&document, "redis_eviction");
    assert_eq!(policy["status"], "warning", "{document}");
    assert!(!policy["remedy"].as_str().expect("text").is_empty());
    assert_eq!(finding(&fine, "redis_eviction")["status"], "ok", "{fine}");
}

#[test]
fn a_redis_that_does_not_answer_is_a_warning() {
    let database = Database::sqlite().migrated();

    let document = doctor_with(&database, "redis://127.0.0.1:1", &[]).json();

    assert_eq!(
        finding(&document, "redis")["status"],
        "warning",
        "{document}"
    );
}

async fn what_stands_where_is_told_to_scrapers_and_programs(database: Database) {
    let database = database.migrated();
    let words = ["runs", "start", "tests.order", "--id", "a"];
    database.coord(&words).done();

    let text = database.coord(&["metrics"]).done();
    let document = database.json(&["metrics"]);

    let due = text
        .lines()
        .find(|line| line.starts_with("engine_queue_tasks{") && line.contains("state=\"due\""));
    assert!(due.is_some_and(|line| line.ends_with(" 1")), "{text}");
    assert!(
        text.contains("engine_runs{status=\"pending\"} 1\n"),
        "{text}"
    );
    assert_eq!(document["runs"]["pending"], 1, "{document}");
    assert_eq!(document["queues"][0]["ready_due"], 1, "{document}");
    assert_eq!(document["backlog"]["runnable_tasks"], 1, "{document}");
    // Each line is a comment or a sample, and each sample has its family before it.
    let mut family = "";
    for line in text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(declared) => {
                family = declared.split(' ').next().expect("a name");
            }
            None if line.starts_with("# HELP ") => {}
            None => {
                assert!(line.starts_with(family), "{line}");
                let value = line.rsplit(' ').next().expect("a value");
                value.parse::<f64>().expect("a number");
            }
        }
    }
}
