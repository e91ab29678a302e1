//! How a claim finds its rows.

use sqlx::{Connection, Row};

use super::super::migrate::STEPS;
use super::*;
use crate::store::test_server as server;

#[tokio::test]
async fn a_claim_reads_no_row_that_is_not_due_and_locks_by_the_primary_key() {
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

    let sql = format!("EXPLAIN {LOOK}");
    let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
    for _ in 0..2 {
        for _ in 0..Priority::COUNT {
            query = query.bind("n").bind("q").bind(1_i64);
            query = query.bind("[]").bind("[]").bind("[]");
            query = query.bind("[]").bind("[]").bind(1_u64);
        }
        query = query.bind(1_u64);
        for _ in 0..Priority::COUNT {
            query = query.bind("n").bind("q").bind(1_i64);
        }
    }
    let probes = query.fetch_all(&mut connection).await;
    let lock = sqlx::query(sqlx::AssertSqlSafe(format!("EXPLAIN {LOCK_DUE}")));
    let lock = lock.bind(r#"["a","b"]"#).bind(1_i64).bind(1_u64);
    let lock = lock.fetch_all(&mut connection).await;
    let drop = sqlx::AssertSqlSafe(format!("DROP DATABASE {name}"));
    let dropped = sqlx::raw_sql(drop).execute(&mut connection).await;

    dropped.expect("dropped");
    let steps = |rows: Vec<sqlx::mysql::MySqlRow>| -> Vec<(String, String, String)> {
        let text = |row: &sqlx::mysql::MySqlRow, column: &str| {
            row.get::<Option<String>, _>(column).unwrap_or_default()
        };
        rows.iter()
            .filter(|row| ["workflow_tasks", "t"].contains(&text(row, "table").as_str()))
            .map(|row| (text(row, "type"), text(row, "key"), text(row, "Extra")))
            .collect()
    };
    let probes = steps(probes.expect("a plan"));
    // When the next one is due is read from the ends of the index alone.
    assert_eq!(probes.len(), 20, "{probes:?}");
    for (way, key, extra) in &probes {
        assert_eq!(
            (way.as_str(), key.as_str()),
            ("range", "workflow_tasks_claim")
        );
        assert!(!extra.contains("filesort"), "{extra}");
    }
    let lock = steps(lock.expect("a plan"));
    assert_eq!(lock.len(), 1, "{lock:?}");
    assert_eq!(
        (lock[0].0.as_str(), lock[0].1.as_str()),
        ("eq_ref", "PRIMARY")
    );
}
