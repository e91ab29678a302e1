//! How a claim finds its rows.

use sqlx::Connection;

use super::super::migrate::STEPS;
use super::*;
use crate::store::test_server as server;

/// A thousand tasks of the first priority that are not due, and ten of the last that are.
const TASKS: &str = "
    INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
        available_at, workflow_id, run_id, step_seq, name, created_at)
    SELECT 't' || n, 'workflow', 'n', 'q', CASE WHEN n > 1000 THEN 9 ELSE 0 END, 'ready',
        CASE WHEN n > 1000 THEN 1 ELSE 4611686018427387903 END, 'w', 'r' || n, 0, 'work', 1
    FROM generate_series(1, 1010) AS s (n)";

#[tokio::test]
async fn a_claim_reads_no_row_that_is_not_due() {
    let connected =
        sqlx::PgConnection::connect(&format!("{}/postgres", server::url(&server::POSTGRES))).await;
    let Some(mut connection) = server::needed(&server::POSTGRES, connected) else {
        return;
    };
    // Nothing of this is ever committed.
    let begun = ["BEGIN; CREATE SCHEMA coord_test_plan; SET LOCAL search_path = coord_test_plan"];
    let filled = [TASKS, "ANALYZE workflow_tasks"];
    for statement in begun.into_iter().chain(STEPS).chain(filled) {
        let done = sqlx::raw_sql(statement).execute(&mut connection).await;
        done.expect("a schema with tasks");
    }

    let sql = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {CLAIM}");
    let plan: Vec<(String,)> = sqlx::query_as(sqlx::AssertSqlSafe(sql))
        .bind("n")
        .bind("q")
        .bind(None::<Vec<String>>)
        .bind(vec!["work"])
        .bind(5_i64)
        .bind(vec!["work"])
        .bind(5_i64)
        .bind("owner")
        .bind(1_000_000_i64)
        .bind(Vec::<String>::new())
        .bind(vec![""; 10])
        .bind((0..10_i16).collect::<Vec<_>>())
        .bind(vec![5_i64; 10])
        .bind(vec![0_i64; 10])
        .bind(vec![""; 10])
        .bind((0..10_i16).collect::<Vec<_>>())
        .bind(vec![5_i64; 10])
        .bind(vec![0_i64; 10])
        .bind(None::<Vec<String>>)
        .fetch_all(&mut connection)
        .await
        .expect("a plan");

    let plan: Vec<_> = plan.into_iter().map(|(line,)| line).collect();
    let plan = plan.join("\n");
    assert!(
        plan.contains("Index Scan using workflow_tasks_claim"),
        "{plan}"
    );
    assert!(plan.contains("(available_at <= $"), "{plan}");
    assert!(!plan.contains("Rows Removed by Filter"), "{plan}");
    // Each priority comes in the order of its index, and what was found is updated by its key.
    assert!(!plan.contains("Sort"), "{plan}");
    assert!(!plan.contains("Seq Scan on workflow_tasks"), "{plan}");
}
