//! How a claim finds its rows.

use sqlx::Connection;

use super::super::migrate::STEPS;
use super::*;

#[tokio::test]
async fn a_claim_reads_no_row_that_is_not_due() {
    let mut connection = SqliteConnection::connect("sqlite::memory:")
        .await
        .expect("memory");
    for step in STEPS {
        let done = sqlx::raw_sql(step).execute(&mut connection).await;
        done.expect("a schema");
    }

    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {CANDIDATES}"));
    let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
        .bind("n")
        .bind("q")
        .bind("workflow")
        .bind("[]")
        .bind(None::<String>)
        .bind(1_i64)
        .bind(Some("[]"))
        .fetch_all(&mut connection)
        .await
        .expect("a plan");

    let steps = plan.iter().map(|(_, _, _, step)| step.as_str());
    let probes: Vec<_> = steps
        .filter(|step| step.contains("workflow_tasks"))
        .collect();
    assert_eq!(probes.len(), 10, "{plan:?}");
    let range = "(namespace=? AND queue=? AND task_type=? AND fairness_key=? AND priority=? \
                 AND available_at<?)";
    assert!(
        probes.iter().all(|probe| probe.ends_with(range)),
        "{plan:?}"
    );
    // One sort, of what the probes found: each of them goes by the index.
    let sorts = plan
        .iter()
        .filter(|(_, _, _, step)| step.contains("TEMP B-TREE"));
    assert_eq!(sorts.count(), 1, "{plan:?}");
}
