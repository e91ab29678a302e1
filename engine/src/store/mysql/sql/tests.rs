//! How the statements of a batch find their rows.

use sqlx::{Connection, Row};

use super::super::migrate::STEPS;
use super::*;
use crate::store::test_server as server;

/// Rows enough that walking over them would not be the quickest way.
const FILLED: &str = "
    INSERT INTO workflow_runs (run_id, namespace, workflow_id, run_number, workflow_type, queue,
        priority, status, history_length, started_at, updated_at)
    WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 500)
    SELECT concat('r', n), 'n', concat('w', n), 1, 'work', 'q', 5, 'pending', 1, n, n FROM s;
    INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
        available_at, workflow_id, run_id, step_seq, name, created_at)
    SELECT concat(run_id, ':0'), 'workflow', 'n', 'q', 5, 'ready', 1, workflow_id, run_id, 0,
        'work', 1 FROM workflow_runs;
    INSERT INTO workflow_history (run_id, seq, `type`, at)
    SELECT run_id, 1, 'Started', 1 FROM workflow_runs;
    ANALYZE TABLE workflow_runs, workflow_tasks, workflow_history";

#[tokio::test]
async fn a_batch_walks_over_no_table() {
    let connected = sqlx::MySqlConnection::connect(&server::url(&server::MYSQL)).await;
    let Some(mut connection) = server::needed(&server::MYSQL, connected) else {
        return;
    };
    let name = format!("coord_test_{}", crate::model::Ids::random().stem());
    let begin = format!("CREATE DATABASE {name}; USE {name}");
    let begun = std::iter::once(begin.as_str());
    for statement in begun.chain(STEPS).chain([FILLED]) {
        let statement = sqlx::AssertSqlSafe(statement.to_owned());
        let done = sqlx::raw_sql(statement).execute(&mut connection).await;
        done.expect("a schema");
    }

    let mut walks = Vec::new();
    for sql in [
        READ_INSTANCES,
        READ_KIN,
        LOCK_RUNS,
        LOCK_TASKS,
        READ_TASKS_OF,
        READ_TIPS,
        READ_COMMANDS,
        PUT_INSTANCES,
        TAKE_INBOX,
        DROP_TASKS,
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN {sql}"));
        let mut plan = sqlx::query(explain);
        for _ in sql.matches("JSON_TABLE(?") {
            plan = plan.bind(r#"["r1","r2"]"#);
        }
        let plan = plan.fetch_all(&mut connection).await;
        for row in plan.unwrap_or_else(|error| panic!("{sql}: {error}")) {
            let text = |column: &str| {
                row.try_get::<Option<String>, _>(column)
                    .unwrap_or_default()
                    .unwrap_or_default()
            };
            let (table, way, extra) = (text("table"), text("type"), text("Extra"));
            // The rows that were given are walked over, and for each of them something is looked up.
            let is_walk = ["ALL", "index"].contains(&way.as_str())
                && table != "w"
                && !extra.contains("Range checked for each record");
            if is_walk {
                walks.push(format!("{table} {way} {extra}: {sql}"));
            }
        }
    }
    let drop = sqlx::AssertSqlSafe(format!("DROP DATABASE {name}"));
    let dropped = sqlx::raw_sql(drop).execute(&mut connection).await;

    dropped.expect("dropped");
    assert!(walks.is_empty(), "{walks:#?}");
}
