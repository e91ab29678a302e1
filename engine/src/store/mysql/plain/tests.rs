//! How the statements of plain writes find their rows.

use sqlx::{Connection, Row};

use super::super::migrate::STEPS;
use super::*;
use crate::store::test_server as server;

#[tokio::test]
async fn a_plain_write_walks_over_no_table() {
    let connected = sqlx::MySqlConnection::connect(&server::url(&server::MYSQL)).await;
    let Some(mut connection) = server::needed(&server::MYSQL, connected) else {
        return;
    };
    let name = format!("coord_test_{}", crate::model::Ids::random().stem());
    let begin = format!("CREATE DATABASE {name}; USE {name}");
    for statement in std::iter::once(begin.as_str()).chain(STEPS) {
        let statement = sqlx::AssertSqlSafe(statement.to_owned());
        let done = sqlx::raw_sql(statement).execute(&mut connection).await;
        done.expect("a schema");
    }

    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN {APPENDS}"));
    let plan = sqlx::query(explain).bind(r#"[{"task_id":"a"},{"task_id":"b"}]"#);
    let plan = plan.fetch_all(&mut connection).await;
    let drop = sqlx::AssertSqlSafe(format!("DROP DATABASE {name}"));
    let dropped = sqlx::raw_sql(drop).execute(&mut connection).await;

    dropped.expect("dropped");
    let plan = plan.expect("a plan");
    let text = |row: &sqlx::mysql::MySqlRow, column: &str| {
        row.try_get::<Option<String>, _>(column)
            .unwrap_or_default()
            .unwrap_or_default()
    };
    let tasks: Vec<_> = plan
        .iter()
        .filter(|row| text(row, "table") == "t")
        .collect();
    assert_eq!(tasks.len(), 1);
    assert_eq!(
        (text(tasks[0], "type"), text(tasks[0], "key")),
        ("eq_ref".to_owned(), "PRIMARY".to_owned())
    );
}
