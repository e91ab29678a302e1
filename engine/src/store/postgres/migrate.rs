//! The schema.

use coord_core::{Error, Result};

use super::error::{at, at_commit, at_migration};
use super::sql::clock;
use super::{Postgres, WRITE};
use crate::store::begin::place;

/// Every step of the schema, from the first on. A step that was released is never changed; each
/// leaves a schema on which the version before still works.
pub(super) const STEPS: [&str; 14] = [
    include_str!("../../../migrations/postgres/0001_engine.sql"),
    include_str!("../../../migrations/postgres/0002_schedules.sql"),
    include_str!("../../../migrations/postgres/0003_attributes.sql"),
    include_str!("../../../migrations/postgres/0004_wake.sql"),
    include_str!("../../../migrations/postgres/0005_retention.sql"),
    include_str!("../../../migrations/postgres/0006_namespaces.sql"),
    include_str!("../../../migrations/postgres/0007_signals.sql"),
    include_str!("../../../migrations/postgres/0008_builds.sql"),
    include_str!("../../../migrations/postgres/0009_quotas.sql"),
    include_str!("../../../migrations/postgres/0010_fairness.sql"),
    include_str!("../../../migrations/postgres/0011_operations.sql"),
    include_str!("../../../migrations/postgres/0012_types.sql"),
    include_str!("../../../migrations/postgres/0013_fingerprints.sql"),
    include_str!("../../../migrations/postgres/0014_declarations.sql"),
];

/// Older ones are maintained by nobody, and tested by nobody.
pub(super) const OLDEST: i32 = 13;
const SERVER: &str = "SELECT current_setting('server_version_num')::int4 / 10000";
/// One process at a time; the lock ends with the transaction. The number is ours alone: the bytes
/// of `coord-en`.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7165074943684767086)";
const TABLE: &str = "CREATE TABLE IF NOT EXISTS engine_migrations (
    version BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL)";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM engine_migrations";
const APPLIED: &str = concat!(
    "INSERT INTO engine_migrations (version, applied_at) VALUES ($1, ",
    clock!(),
    ")"
);

pub(super) async fn migrate(store: &Postgres) -> Result<()> {
    const WHAT: &str = "migrating the schema";
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let major = store.statements.rows(SERVER);
    let major = major.fetch_one(&mut *transaction.inner).await;
    let (major,): (i32,) = major.map_err(at(WHAT))?;
    if major < OLDEST {
        return Err(Error::invalid(format!(
            "the database at {}: PostgreSQL {major} is too old, the engine needs {OLDEST} or newer",
            place(&store.sessions.options())
        )));
    }
    for statement in [LOCK, TABLE] {
        let done = sqlx::raw_sql(statement).execute(&mut *transaction.inner);
        done.await.map_err(at_migration(WHAT))?;
    }
    let version = store.statements.rows(VERSION);
    let version = version.fetch_one(&mut *transaction.inner).await;
    let (version,): (i64,) = version.map_err(at_migration(WHAT))?;
    for (number, step) in (1_i64..).zip(STEPS).filter(|(number, _)| *number > version) {
        let done = sqlx::raw_sql(step).execute(&mut *transaction.inner).await;
        done.map_err(at_migration(WHAT))?;
        let noted = store.statements.done(APPLIED).bind(number);
        let noted = noted.execute(&mut *transaction.inner).await;
        noted.map_err(at_migration(WHAT))?;
    }
    transaction.inner.commit().await.map_err(at_commit(WHAT))
}
