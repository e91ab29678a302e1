//! What is wrong with a database, made so and found.

use std::time::Duration;

use coord_engine::health::Status;
use coord_engine::store::{Examination, Long};

use crate::stage::{LONG, Stage};

/// Whether it is a database of this kind.
fn is_of(stage: &Stage, kind: &str) -> bool {
    let address = stage.database.address();
    address.is_some_and(|address| address.starts_with(kind))
}

async fn examined(stage: &Stage, long: Duration) -> Examination {
    stage.store.examine(long).await.expect("an answer")
}

pub(crate) async fn a_database_as_it_should_be_has_no_error(stage: Stage) {
    let engine = stage.database.engine().await;

    let diagnosis = engine.doctor().await;

    let wrong = |name: &str| {
        let finding = diagnosis.finding(name).expect("looked at");
        (finding.status, finding.found.clone())
    };
    for name in [
        "server_version",
        "migrations",
        "isolation_level",
        "missing_indexes",
        "claim_plan",
    ] {
        assert_eq!(wrong(name).0, Status::Ok, "{:?}", wrong(name));
    }
    assert!(diagnosis.status() < Status::Error, "{diagnosis:?}");
    for finding in &diagnosis.findings {
        let needs_one = finding.status >= Status::Warning;
        assert!(!needs_one || !finding.remedy.is_empty(), "{finding:?}");
    }
}

pub(crate) async fn an_index_that_is_gone_is_missed_and_shows_in_the_plan(stage: Stage) {
    let drop = if is_of(&stage, "mysql") {
        "DROP INDEX workflow_tasks_claim ON workflow_tasks"
    } else {
        "DROP INDEX workflow_tasks_claim"
    };
    if !stage.database.execute(drop).await {
        return;
    }

    let engine = stage.database.builder();
    let engine = engine.start().await.expect("it starts");
    let diagnosis = engine.doctor().await;

    let finding = |name: &str| diagnosis.finding(name).expect("looked at");
    let missing = finding("missing_indexes");
    assert_eq!(missing.status, Status::Error, "{missing:?}");
    assert!(
        missing.found.contains("workflow_tasks_claim"),
        "{missing:?}"
    );
    let plan = finding("claim_plan");
    assert_eq!(plan.status, Status::Error, "{plan:?}");
    assert_eq!(diagnosis.status(), Status::Error);
}

pub(crate) async fn a_schema_of_another_version_is_found(stage: Stage) {
    let behind = "DELETE FROM engine_migrations WHERE version > 9";
    if !stage.database.execute(behind).await {
        return;
    }
    let (there, ours) = examined(&stage, LONG).await.schema;
    assert_eq!(there, 9);
    assert!(ours > there);
    let ahead = "INSERT INTO engine_migrations (version, applied_at) VALUES (9999, 1)";
    assert!(stage.database.execute(ahead).await);
    assert_eq!(examined(&stage, LONG).await.schema.0, 9999);
}

pub(crate) async fn a_transaction_that_is_under_way_for_long_is_found(stage: Stage) {
    let before = examined(&stage, LONG).await.long;
    assert!(
        matches!(before, Long::Seen(0, _) | Long::Pages(0) | Long::Hidden),
        "{before:?}"
    );
    stage.start("w").await;
    let hold = "UPDATE workflow_tasks SET priority = priority";
    let Some(held) = stage.database.hold(hold).await else {
        return;
    };
    let waits = Duration::from_millis(1);

    // InnoDB shows transactions as they were when somebody last looked who had not looked for a
    // tenth of a second, and their beginnings in whole seconds. So whoever looks more often than
    // that sees nothing new.
    let between = Duration::from_millis(300);
    let until = tokio::time::Instant::now() + Duration::from_mins(1);
    let long = loop {
        let long = examined(&stage, waits).await.long;
        if matches!(long, Long::Seen(1.., _) | Long::Hidden | Long::Pages(_)) {
            break long;
        }
        assert!(tokio::time::Instant::now() < until, "{long:?}");
        tokio::time::sleep(between).await;
    };

    // SQLite shows what readers hold up; this one writes.
    if !matches!(long, Long::Pages(_)) {
        assert!(matches!(long, Long::Seen(1.., _)), "{long:?}");
    }
    held.let_go().await;
}

/// What PostgreSQL and SQLite can be brought to in one database of its own.
pub(crate) async fn a_database_that_may_lose_what_it_confirms_is_found(stage: Stage) {
    const OFF: &str = "DO $$ BEGIN EXECUTE format(
        'ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$";
    if !is_of(&stage, "postgres") {
        return;
    }
    assert!(stage.database.execute(OFF).await);

    let engine = stage.database.engine().await;
    let diagnosis = engine.doctor().await;

    let finding = diagnosis.finding("durability").expect("looked at");
    assert_eq!(finding.status, Status::Warning, "{finding:?}");
    assert!(finding.found.contains("synchronous_commit"), "{finding:?}");
}

pub(crate) async fn a_reader_that_holds_up_the_log_is_found(stage: Stage) {
    use sqlx::Connection;
    const MUCH: &str = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 6000)
        INSERT INTO workflow_wakes (message) SELECT hex(zeroblob(4000)) FROM n";
    let Some(address) = stage.database.address() else {
        return;
    };
    if address.contains("://") {
        return;
    }
    let reader = sqlx::SqliteConnection::connect(&format!("sqlite:{address}")).await;
    let mut reader = reader.expect("a connection");
    let reads = "BEGIN; SELECT count(*) FROM workflow_wakes";
    let reads = sqlx::raw_sql(reads).execute(&mut reader).await;
    reads.expect("it reads");
    assert!(stage.database.execute(MUCH).await);

    let held_up = examined(&stage, LONG).await.long;

    assert!(matches!(held_up, Long::Pages(10_000..)), "{held_up:?}");
    let ends = sqlx::raw_sql("COMMIT").execute(&mut reader).await;
    ends.expect("it ends");
    assert_eq!(examined(&stage, LONG).await.long, Long::Pages(0));
}
