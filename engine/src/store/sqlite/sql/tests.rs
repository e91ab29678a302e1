//! How the statements of a batch find their rows.

use sqlx::{Connection, SqliteConnection};

use super::super::migrate::STEPS;
use super::*;

#[tokio::test]
async fn a_batch_walks_over_no_table() {
    let mut connection = SqliteConnection::connect("sqlite::memory:")
        .await
        .expect("memory");
    for step in STEPS {
        let done = sqlx::raw_sql(step).execute(&mut connection).await;
        done.expect("a schema");
    }

    for sql in [
        READ_INSTANCES,
        READ_KIN,
        LOCK_RUNS,
        LOCK_TASKS,
        READ_TIPS,
        READ_COMMANDS,
        DROP_INSTANCES,
        PUT_INSTANCES,
        TAKE_INBOX,
        MOVE_INBOX,
        DROP_TASKS,
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
            .fetch_all(&mut connection)
            .await
            .expect("a plan");

        let steps: Vec<_> = plan.iter().map(|(_, _, _, step)| step.as_str()).collect();
        assert!(
            steps.iter().any(|step| step.starts_with("SEARCH")),
            "{sql}: {steps:?}"
        );
        // The rows that were given are walked over, and for each of them something is looked up.
        let walks = steps.iter().filter(|step| step.starts_with("SCAN"));
        let of_table = |step: &&&str| {
            !["SCAN w ", "SCAN json_each "]
                .iter()
                .any(|it| step.starts_with(it))
        };
        assert_eq!(walks.filter(of_table).count(), 0, "{sql}: {steps:?}");
    }
}
