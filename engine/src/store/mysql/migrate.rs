//! The schema.

use coord_core::{Error, Result};
use sqlx::mysql::MySqlPool;

use super::error::{at, at_schema};
use super::server;
use super::sql::clock;
use crate::store::begin::place;

/// Every step of the schema, from the first on. A step that was released is never changed; each
/// leaves a schema on which the version before still works, and can be repeated after half of it.
pub(super) const STEPS: [&str; 14] = [
    include_str!("../../../migrations/mysql/0001_engine.sql"),
    include_str!("../../../migrations/mysql/0002_schedules.sql"),
    include_str!("../../../migrations/mysql/0003_attributes.sql"),
    include_str!("../../../migrations/mysql/0004_wake.sql"),
    include_str!("../../../migrations/mysql/0005_retention.sql"),
    include_str!("../../../migrations/mysql/0006_namespaces.sql"),
    include_str!("../../../migrations/mysql/0007_signals.sql"),
    include_str!("../../../migrations/mysql/0008_builds.sql"),
    include_str!("../../../migrations/mysql/0009_quotas.sql"),
    include_str!("../../../migrations/mysql/0010_fairness.sql"),
    include_str!("../../../migrations/mysql/0011_operations.sql"),
    include_str!("../../../migrations/mysql/0012_types.sql"),
    include_str!("../../../migrations/mysql/0013_fingerprints.sql"),
    include_str!("../../../migrations/mysql/0014_declarations.sql"),
];

const SERVER: &str = "SELECT VERSION()";
/// One process at a time, on this database. The lock ends with its connection. Its name may have 64
/// characters; newer servers know no hash but this one.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('coord-engine ', LEFT(SHA2(DATABASE(), 256), 40)), 60)";
const TABLE: &str = "CREATE TABLE IF NOT EXISTS engine_migrations (
    version BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL) ENGINE = InnoDB";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM engine_migrations";
const APPLIED: &str = concat!(
    "INSERT INTO engine_migrations (version, applied_at) VALUES (?, ",
    clock!(),
    ")"
);

pub(super) async fn migrate(pool: &MySqlPool) -> Result<()> {
    const WHAT: &str = "migrating the schema";
    // A connection of its own: it ends with this call, and the lock with it.
    let mut connection = pool.acquire().await.map_err(at(WHAT))?.detach();
    let said = sqlx::query_scalar(SERVER).fetch_one(&mut connection).await;
    let said: String = said.map_err(at(WHAT))?;
    if let Some(why) = server::too_old(&said) {
        let place = place(&*pool.connect_options());
        return Err(Error::invalid(format!("the database at {place}: {why}")));
    }
    let got = sqlx::query_scalar(LOCK).fetch_one(&mut connection).await;
    let got: Option<i64> = got.map_err(at(WHAT))?;
    if got != Some(1) {
        return Err(Error::contended(WHAT));
    }
    let table = sqlx::raw_sql(TABLE).execute(&mut connection).await;
    table.map_err(at_schema(WHAT))?;
    let version = sqlx::query_scalar(VERSION).fetch_one(&mut connection).await;
    let version: i64 = version.map_err(at_schema(WHAT))?;
    for (number, step) in (1_i64..).zip(STEPS).filter(|(number, _)| *number > version) {
        let done = sqlx::raw_sql(step).execute(&mut connection).await;
        done.map_err(at_schema(WHAT))?;
        let noted = sqlx::query(APPLIED).bind(number).execute(&mut connection);
        noted.await.map_err(at_schema(WHAT))?;
    }
    Ok(())
}
