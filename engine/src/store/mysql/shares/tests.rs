//! How the shares of a queue are found.

use sqlx::{Connection, Row};

use super::super::migrate::STEPS;
use super::*;
use crate::store::test_server as server;

/// Ten thousand tasks of one key, and one each of two hundred others.
const FILLED: &str = "
    INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
        available_at, workflow_id, run_id, step_seq, name, created_at, fairness_key)
    WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 99)
    SELECT concat('t', a.n, '-', b.n, '-', c.n), 'workflow', 'n', 'q', 5, 'ready', 1, 'w', 'r', 0,
        'work', 1, IF(c.n = 0, 'hot', concat('cold', a.n, '-', c.n))
    FROM s a, s b, (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2) c
    WHERE c.n = 0 OR b.n = 0;
    ANALYZE TABLE workflow_tasks";

#[tokio::test]
async fn a_look_at_the_shares_reads_a_row_of_each() {
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

    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN {PAGE}"));
    let plan = sqlx::query(explain).bind("n").bind("q").bind("workflow");
    let plan = plan.bind("").bind(COMPARED);
    let plan = plan.fetch_all(&mut connection).await;
    let drop = sqlx::AssertSqlSafe(format!("DROP DATABASE {name}"));
    let dropped = sqlx::raw_sql(drop).execute(&mut connection).await;

    dropped.expect("dropped");
    let plan = plan.expect("a plan");
    let text = |row: &sqlx::mysql::MySqlRow, column: &str| {
        row.get::<Option<String>, _>(column).unwrap_or_default()
    };
    let steps: Vec<_> = plan
        .iter()
        .map(|row| (text(row, "table"), text(row, "key"), text(row, "Extra")))
        .collect();
    let of_tasks = steps.iter().find(|(table, ..)| table == "workflow_tasks");
    let (_, key, extra) = of_tasks.expect("a look at the tasks");
    assert_eq!(key, "workflow_tasks_shared");
    assert!(extra.contains("Using index for group-by"), "{steps:?}");
}
