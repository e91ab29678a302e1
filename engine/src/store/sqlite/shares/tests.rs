//! How the shares of a queue are found.

use sqlx::Connection;

use super::super::migrate::STEPS;
use super::*;

#[tokio::test]
async fn a_look_at_the_shares_walks_over_no_task() {
    let connected = SqliteConnection::connect("sqlite::memory:").await;
    let mut connection = connected.expect("memory");
    for step in STEPS {
        let done = sqlx::raw_sql(step).execute(&mut connection).await;
        done.expect("a schema");
    }

    for sql in [FIRST, WITHOUT, PAGE, super::claim::PORTION] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
            .fetch_all(&mut connection)
            .await
            .expect("a plan");

        let steps: Vec<_> = plan.iter().map(|(_, _, _, step)| step.as_str()).collect();
        let of_tasks = steps
            .iter()
            .filter(|step| step.contains("INDEX workflow_tasks"));
        assert!(of_tasks.clone().count() > 0, "{steps:?}");
        assert!(
            of_tasks.clone().all(|step| step.starts_with("SEARCH")),
            "{sql}: {steps:?}"
        );
    }
}
