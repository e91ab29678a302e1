//! How the shares of a queue are found.

use sqlx::Connection;

use super::super::migrate::STEPS;
use super::*;
use crate::store::test_server as server;

/// A hundred thousand tasks of one key, and one each of a thousand others.
const TASKS: &str = "
    INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
        available_at, workflow_id, run_id, step_seq, name, created_at, fairness_key)
    SELECT 't' || n, 'workflow', 'n', 'q', 5, 'ready', n, 'w', 'r' || n, 0, 'work', 1,
        CASE WHEN n > 100000 THEN 'cold' || n ELSE 'hot' END
    FROM generate_series(1, 101000) AS s (n)";

#[tokio::test]
async fn a_look_at_the_shares_reads_a_row_of_each() {
    let connected =
        sqlx::PgConnection::connect(&format!("{}/postgres", server::url(&server::POSTGRES))).await;
    let Some(mut connection) = server::needed(&server::POSTGRES, connected) else {
        return;
    };
    // Nothing of this is ever committed.
    let begun =
        ["BEGIN; CREATE SCHEMA coord_test_shares; SET LOCAL search_path = coord_test_shares"];
    let filled = [TASKS, "ANALYZE workflow_tasks"];
    for statement in begun.into_iter().chain(STEPS).chain(filled) {
        let done = sqlx::raw_sql(statement).execute(&mut connection).await;
        done.expect("a schema with tasks");
    }

    let explain = |sql: &str| format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}");
    let always = explain(ALWAYS);
    let always = sqlx::query_as(sqlx::AssertSqlSafe(always))
        .bind("n")
        .bind("q");
    let always: Vec<(String,)> = always
        .bind("workflow")
        .fetch_all(&mut connection)
        .await
        .expect("a plan");
    let page = explain(PAGE);
    let page = sqlx::query_as(sqlx::AssertSqlSafe(page))
        .bind("n")
        .bind("q");
    let page: Vec<(String,)> = page
        .bind("workflow")
        .bind("")
        .bind(COMPARED)
        .fetch_all(&mut connection)
        .await
        .expect("a plan");

    for plan in [always, page] {
        let plan: Vec<_> = plan.into_iter().map(|(line,)| line).collect();
        let scans = plan.iter().filter(|line| line.contains("workflow_tasks"));
        for scan in scans {
            // Each scan ends with its first row, whatever there is of the key.
            let is_one = scan.contains("actual rows=1 ") || scan.contains("actual rows=0 ");
            assert!(scan.contains("Index") && is_one, "{}", plan.join("\n"));
        }
        // One that does is of the walk, not of tasks.
        let removed = plan.iter().filter(|line| line.contains("Rows Removed"));
        assert!(
            removed.clone().all(|line| line.ends_with(": 0")),
            "{}",
            plan.join("\n")
        );
    }
}
