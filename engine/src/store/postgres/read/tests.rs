//! How a listing finds its rows.

use sqlx::Connection;

use super::super::migrate::STEPS;
use super::super::session::SETUP;
use super::*;
use crate::model::Namespace;
use crate::store::{Condition, Test, test_server as server};

/// A thousand runs of a hundred customers.
const RUNS: &str = "
    INSERT INTO workflow_runs (run_id, namespace, workflow_id, run_number, workflow_type, queue,
        priority, status, history_length, started_at, updated_at)
    SELECT 'r' || n, 'default', 'w' || n, 1, 'work', 'q', 5, 'pending', 1, n, n
    FROM generate_series(1, 1000) AS s (n);
    INSERT INTO workflow_attributes (run_id, name, place, namespace, kind, text_value)
    SELECT 'r' || n, 'customer', 0, 'default', 'keyword', 'c' || n % 100
    FROM generate_series(1, 1000) AS s (n);
    ANALYZE workflow_runs; ANALYZE workflow_attributes";

#[tokio::test]
async fn a_search_by_attribute_walks_over_no_table() {
    let connected =
        sqlx::PgConnection::connect(&format!("{}/postgres", server::url(&server::POSTGRES))).await;
    let Some(mut connection) = server::needed(&server::POSTGRES, connected) else {
        return;
    };
    // Nothing of this is ever committed.
    let begun = [
        SETUP,
        "BEGIN; CREATE SCHEMA coord_test_search; SET LOCAL search_path = coord_test_search",
    ];
    for statement in begun.into_iter().chain(STEPS).chain([RUNS]) {
        let done = sqlx::raw_sql(statement).execute(&mut connection).await;
        done.expect("a schema with runs");
    }
    let filter = Filter {
        attributes: vec![Condition {
            name: "customer".to_owned(),
            test: Test::Is("c7".into()),
        }],
        ..Filter::all(Namespace::default())
    };
    let listing = Listing {
        filter,
        limit: 50,
        after: None,
    };
    let sql = listing::page::<sqlx::Postgres>(&listing).into_string();

    let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}");
    let plan: Vec<(String,)> = sqlx::query_as(sqlx::AssertSqlSafe(explain))
        .bind("default")
        .bind("default")
        .bind("customer")
        .bind("c7")
        .bind(51_i64)
        .fetch_all(&mut connection)
        .await
        .expect("a plan");

    let plan: Vec<_> = plan.into_iter().map(|(line,)| line).collect();
    let plan = plan.join("\n");
    assert!(plan.contains("workflow_attributes"), "{plan}");
    assert!(!plan.contains("Seq Scan"), "{plan}");
}
