//! The schema.

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::error::{at, at_commit};

/// Every step of the schema, from the first on. A step that was released is never changed; each
/// leaves a schema on which the version before still works.
pub(super) const STEPS: [&str; 14] = [
    include_str!("../../../migrations/sqlite/0001_engine.sql"),
    include_str!("../../../migrations/sqlite/0002_schedules.sql"),
    include_str!("../../../migrations/sqlite/0003_attributes.sql"),
    include_str!("../../../migrations/sqlite/0004_wake.sql"),
    include_str!("../../../migrations/sqlite/0005_retention.sql"),
    include_str!("../../../migrations/sqlite/0006_namespaces.sql"),
    include_str!("../../../migrations/sqlite/0007_signals.sql"),
    include_str!("../../../migrations/sqlite/0008_builds.sql"),
    include_str!("../../../migrations/sqlite/0009_quotas.sql"),
    include_str!("../../../migrations/sqlite/0010_fairness.sql"),
    include_str!("../../../migrations/sqlite/0011_operations.sql"),
    include_str!("../../../migrations/sqlite/0012_types.sql"),
    include_str!("../../../migrations/sqlite/0013_fingerprints.sql"),
    include_str!("../../../migrations/sqlite/0014_declarations.sql"),
];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS engine_migrations (
    version INTEGER NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM engine_migrations";
const APPLIED: &str = concat!(
    "INSERT INTO engine_migrations (version, applied_at) VALUES (?1, ",
    super::sql::clock!(),
    ")"
);

pub(super) async fn migrate(pool: &SqlitePool) -> Result<()> {
    const WHAT: &str = "migrating the schema";
    let begun = super::begin(pool).await;
    let mut transaction = begun.map_err(at(WHAT))?;
    let table = sqlx::query(TABLE).execute(&mut *transaction).await;
    table.map_err(at(WHAT))?;
    let version = sqlx::query_scalar(VERSION)
        .fetch_one(&mut *transaction)
        .await;
    let version: i64 = version.map_err(at(WHAT))?;
    for (number, step) in (1_i64..).zip(STEPS).filter(|(number, _)| *number > version) {
        let done = sqlx::raw_sql(step).execute(&mut *transaction).await;
        done.map_err(at(WHAT))?;
        let noted = sqlx::query(APPLIED).bind(number).execute(&mut *transaction);
        noted.await.map_err(at(WHAT))?;
    }
    transaction.commit().await.map_err(at_commit(WHAT))
}
