//! How a listing finds its rows.

use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;

use super::super::migrate::STEPS;
use super::*;
use crate::model::Namespace;
use crate::store::{Condition, Test};

#[tokio::test]
async fn a_search_by_attribute_walks_over_no_table() {
    let mut connection = SqliteConnection::connect("sqlite::memory:")
        .await
        .expect("memory");
    for step in STEPS {
        let done = sqlx::raw_sql(step).execute(&mut connection).await;
        done.expect("a schema");
    }
    let condition = |name: &str, test| Condition {
        name: name.to_owned(),
        test,
    };
    let filter = Filter {
        attributes: vec![
            condition("customer", Test::Is("ann".into())),
            condition("cents", Test::Is(7.into())),
        ],
        ..Filter::all(Namespace::default())
    };
    let listing = Listing {
        filter,
        limit: 10,
        after: None,
    };
    let sql = listing::page::<sqlx::Sqlite>(&listing).into_string();

    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
    let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
        .fetch_all(&mut connection)
        .await
        .expect("a plan");

    let steps: Vec<_> = plan.iter().map(|(_, _, _, step)| step.as_str()).collect();
    let uses = |index: &str| steps.iter().any(|step| step.contains(index));
    assert!(uses("workflow_attributes_by_text"), "{steps:?}");
    assert!(uses("workflow_attributes_by_integer"), "{steps:?}");
    assert!(
        !steps.iter().any(|step| step.starts_with("SCAN")),
        "{steps:?}"
    );
}
