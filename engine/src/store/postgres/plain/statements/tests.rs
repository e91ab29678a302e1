//! How the statements of plain writes find their rows.

use sqlx::{Connection, Row};

use super::super::super::migrate::STEPS;
use super::super::super::session::SETUP;
use super::*;
use crate::store::test_server as server;

const SCHEMA: &str =
    "BEGIN; CREATE SCHEMA coord_test_plain; SET LOCAL search_path = coord_test_plain";
const FILLED: &str = "
    INSERT INTO workflow_instances (namespace, workflow_id, current_run_id, created_at)
    SELECT 'n', 'w' || n, 'r' || n, n FROM generate_series(1, 5000) AS s (n);
    INSERT INTO workflow_runs (run_id, namespace, workflow_id, run_number, workflow_type, queue,
        priority, status, history_length, started_at, updated_at, closed_at)
    SELECT 'r' || n, 'n', 'w' || n, 1, 'work', 'q', 5, 'pending', 1, n, n,
        CASE WHEN n % 50 > 0 THEN n END
    FROM generate_series(1, 5000) AS s (n);
    INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
        available_at, workflow_id, run_id, step_seq, name, created_at)
    SELECT 'r' || n || ':0', 'workflow', 'n', 'q', 5, 'ready', n, 'w' || n, 'r' || n, 0, 'work', n
    FROM generate_series(1, 5000, 50) AS s (n);
    INSERT INTO workflow_history (run_id, seq, type, at)
    SELECT 'r' || n, seq, 'StepCompleted', n
    FROM generate_series(1, 5000) AS s (n), generate_series(1, 5) AS t (seq);
    ANALYZE";

/// The line of a plan that reads a table without looking anything up, if there is one.
fn walk(plan: &[String]) -> Option<&String> {
    let lines = plan.iter().zip(plan.iter().skip(1));
    let mut walks = lines.filter_map(|(line, next)| {
        let is_lookup = next.trim_start().starts_with("Index Cond:");
        let by_index = line.contains("Index") && line.contains(" workflow_");
        let by_row = line.contains("Seq Scan on workflow_");
        (by_row || by_index && !is_lookup).then_some(line)
    });
    walks.next()
}

#[tokio::test]
async fn a_plain_write_walks_over_no_table() {
    let connected =
        sqlx::PgConnection::connect(&format!("{}/postgres", server::url(&server::POSTGRES))).await;
    let Some(mut connection) = server::needed(&server::POSTGRES, connected) else {
        return;
    };
    // Plans are made once, by sessions that find empty tables and by others that find full ones.
    for fill in ["", FILLED] {
        // Nothing of this is ever committed.
        for statement in [SETUP, SCHEMA].into_iter().chain(STEPS).chain([fill]) {
            let done = sqlx::raw_sql(statement).execute(&mut connection).await;
            done.expect("a schema");
        }
        for (name, sql) in [
            ("starts", STARTS),
            ("appends", APPENDS),
            ("turns", TURNS),
            ("settles", SETTLES),
        ] {
            let is_bound = |number: &usize| {
                sql.contains(&format!("${number}::")) || sql.contains(&format!("${number})"))
            };
            let bound = (1..100).take_while(is_bound).count();
            let nulls = vec!["NULL"; bound].join(", ");
            let explain = format!(
                "PREPARE {name} AS {sql}; EXPLAIN (COSTS OFF) EXECUTE {name} ({nulls}); \
                 DEALLOCATE {name}"
            );
            let plan = sqlx::raw_sql(sqlx::AssertSqlSafe(explain));
            let plan = plan.fetch_all(&mut connection).await.expect("a plan");
            let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();

            assert!(plan.iter().any(|line| line.contains("Index Cond")));
            assert_eq!(walk(&plan), None, "{name}: {}", plan.join("\n"));
        }
        let undone = sqlx::raw_sql("ROLLBACK").execute(&mut connection).await;
        undone.expect("undone");
    }
}
