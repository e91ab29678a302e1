//! How the statements of plain writes find their rows.

use sqlx::{Connection, SqliteConnection};

use super::super::migrate::STEPS;
use super::*;

#[tokio::test]
async fn a_plain_write_walks_over_no_table() {
    let mut connection = SqliteConnection::connect("sqlite::memory:")
        .await
        .expect("memory");
    for step in STEPS {
        let done = sqlx::raw_sql(step).execute(&mut connection).await;
        done.expect("a schema");
    }

    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {APPENDS}"));
    let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
        .fetch_all(&mut connection)
        .await
        .expect("a plan");

    let steps: Vec<_> = plan.iter().map(|(_, _, _, step)| step.as_str()).collect();
    let looks = steps.iter().filter(|step| step.starts_with("SEARCH"));
    let walks: Vec<_> = steps
        .iter()
        .filter(|step| step.starts_with("SCAN"))
        .collect();
    // The rows that were given are walked over; each looks up its task, and its run in the answer.
    assert!(
        walks.iter().all(|step| step.starts_with("SCAN w ")),
        "{steps:?}"
    );
    assert_eq!((walks.len(), looks.count()), (1, 2), "{steps:?}");
}
