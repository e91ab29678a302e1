//! What stands where, in one snapshot.

use coord_core::Result;

use super::super::Census;
use super::super::rows::{
    CensusRows, SCHEMA, census_of_nodes, census_of_schedules, census_of_tasks, role_keys,
};
use super::error::at;
use super::read::snapshot;
use super::sql::CLOCK;
use super::{Mysql, migrate};

const TASKS: &str = census_of_tasks!("CAST(? AS SIGNED)", "(? IS NULL OR namespace = ?)");
const SCHEDULES: &str = census_of_schedules!(
    "CAST(? AS SIGNED)",
    "(? IS NULL OR namespace = ?)",
    "SIGNED"
);
const NODES: &str = census_of_nodes!("CAST(? AS SIGNED)", "? IS NULL OR namespace = ?");
const ROLES: &str =
    "SELECT `role`, holder, acquired_at, expires_at FROM engine_roles WHERE `role` IN (?, ?, ?)";

pub(super) async fn census(store: &Mysql) -> Result<Census> {
    const WHAT: &str = "counting what stands where";
    let scope = store.scope();
    let mut transaction = snapshot(&store.pool, WHAT).await?;
    let connection = &mut *transaction;
    let now: sqlx::Result<i64> = sqlx::query_scalar(CLOCK).fetch_one(&mut *connection).await;
    let now = now.map_err(at(WHAT))?;
    let version = sqlx::query_scalar(SCHEMA).fetch_one(&mut *connection).await;
    let queues = sqlx::query_as(TASKS).bind(now).bind(scope).bind(scope);
    let queues = queues.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let schedules = sqlx::query_as(SCHEDULES).bind(now).bind(scope).bind(scope);
    let schedules = schedules.fetch_one(&mut *connection).await;
    let nodes = sqlx::query_as(NODES).bind(now).bind(scope).bind(scope);
    let nodes = nodes.fetch_one(&mut *connection).await.map_err(at(WHAT))?;
    let [one, two, three] = role_keys(store.scope.as_ref());
    let roles = sqlx::query_as(ROLES).bind(one).bind(two).bind(three);
    let roles = roles.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let rows = CensusRows {
        now,
        schema: (version.map_err(at(WHAT))?, migrate::STEPS.len()),
        queues,
        schedules: schedules.map_err(at(WHAT))?,
        nodes,
        roles,
    };
    rows.census(store.scope.as_ref())
}
