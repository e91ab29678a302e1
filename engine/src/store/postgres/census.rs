//! What stands where, in one snapshot.

use coord_core::Result;

use super::super::Census;
use super::super::rows::{
    CensusRows, SCHEMA, census_of_nodes, census_of_schedules, census_of_tasks, role_keys,
};
use super::claim::now;
use super::error::at;
use super::{Postgres, READ, migrate};

const TASKS: &str = census_of_tasks!("$1::int8", "($2::text IS NULL OR namespace = $2)");
const SCHEDULES: &str =
    census_of_schedules!("$1::int8", "($2::text IS NULL OR namespace = $2)", "BIGINT");
const NODES: &str = census_of_nodes!("$1::int8", "$2::text IS NULL OR namespace = $2");
const ROLES: &str =
    "SELECT role, holder, acquired_at, expires_at FROM engine_roles WHERE role IN ($1, $2, $3)";

pub(super) async fn census(store: &Postgres) -> Result<Census> {
    const WHAT: &str = "counting what stands where";
    let (statements, scope) = (store.statements, store.scope());
    let mut transaction = store.begin(READ, WHAT).await?;
    let now = now(&mut transaction).await?;
    let connection = &mut *transaction.inner;
    let (version,): (i64,) = statements
        .rows(SCHEMA)
        .fetch_one(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    let queues = statements.rows(TASKS).bind(now).bind(scope);
    let queues = queues.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let schedules = statements.rows(SCHEDULES).bind(now).bind(scope);
    let schedules = schedules.fetch_one(&mut *connection).await;
    let nodes = statements.rows(NODES).bind(now).bind(scope);
    let nodes = nodes.fetch_one(&mut *connection).await.map_err(at(WHAT))?;
    let [one, two, three] = role_keys(store.scope.as_ref());
    let roles = statements.rows(ROLES).bind(one).bind(two).bind(three);
    let roles = roles.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    let rows = CensusRows {
        now,
        schema: (version, migrate::STEPS.len()),
        queues,
        schedules: schedules.map_err(at(WHAT))?,
        nodes,
        roles,
    };
    rows.census(store.scope.as_ref())
}
