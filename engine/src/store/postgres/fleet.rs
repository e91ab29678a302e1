//! Processes and roles. Each call but one is a single statement.

use std::time::Duration;

use coord_core::Result;
use sqlx::PgConnection;

use super::super::answers::{self, RoleRow, TermRow};
use super::super::{Buried, Heartbeat, Registered, Registration, Role, Roles, Term};
use super::error::{at, at_commit};
use super::shares;
use super::single::Single;
use super::sql::clock;
use super::{Postgres, WRITE};
use crate::model::{OwnerId, Timestamp};

const BURY_OTHERS: &str = "
    UPDATE engine_instances SET status = 'dead'
    WHERE status IN ('live', 'draining') AND instance_id <> $1";

/// Held to the end of the transaction, so that those who come at once come one after the other.
const COME_ALONE: &str = "
    INSERT INTO engine_roles AS r (role, holder, term, acquired_at, expires_at)
    VALUES ('exclusive', NULL, 1, 0, 0) ON CONFLICT (role) DO UPDATE SET term = r.term + 1";

const BURY_NAMESAKES: &str = "
    UPDATE engine_instances SET status = 'dead'
    WHERE status IN ('live', 'draining') AND instance_id <> $1 AND node_name = $2
        AND namespace IS NOT DISTINCT FROM $3";

const FREE_ROLES: &str = concat!(
    "UPDATE engine_roles SET expires_at = least(expires_at, ",
    clock!(),
    ") WHERE holder IN (
        SELECT instance_id FROM engine_instances WHERE status IN ('stopped', 'dead'))"
);

const ROLES: &str = concat!(
    "SELECT clock.now, CASE WHEN EXISTS (SELECT 1 FROM workflow_schedules
        WHERE look_at < 4611686018427387904 AND ($1::text IS NULL OR namespace = $1)) THEN 1::bigint ELSE 0 END AS has_schedules,
        r.role, r.holder, r.term, r.acquired_at, r.expires_at
     FROM (SELECT ",
    clock!(),
    " AS now) AS clock LEFT JOIN engine_roles r ON r.holder IS NOT NULL"
);

const FORGET: &str = concat!(
    "DELETE FROM engine_instances WHERE instance_id IN (
        SELECT i.instance_id FROM engine_instances i
        WHERE i.status IN ('stopped', 'dead') AND i.heartbeat_at <= ",
    clock!(),
    " - $1 AND ($3::text IS NULL OR i.namespace IS NULL OR i.namespace = $3) AND NOT EXISTS (SELECT 1 FROM workflow_tasks t
            WHERE t.status = 'leased' AND t.lease_owner = i.instance_id)
        ORDER BY i.instance_id LIMIT $2 FOR UPDATE SKIP LOCKED)"
);

const REGISTER: &str = concat!(
    "INSERT INTO engine_instances
        (instance_id, node_name, build_id, pid, status, started_at, heartbeat_at, expires_at,
            namespace)
     SELECT $1, $2, $3, $4, 'live', now, now, now + $5, $6 FROM (SELECT ",
    clock!(),
    " AS now) AS clock
     ON CONFLICT (instance_id) DO UPDATE SET
        heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at
     RETURNING expires_at"
);

const HEARTBEAT: &str = concat!(
    "UPDATE engine_instances SET heartbeat_at = ",
    clock!(),
    ", expires_at = ",
    clock!(),
    " + $2, status = CASE WHEN $3 THEN 'stopped' WHEN $4 THEN 'draining' ELSE 'live' END,
        figures = coalesce($5, figures)
     WHERE instance_id = $1 AND status IN ('live', 'draining') RETURNING expires_at"
);

const BURY: &str = concat!(
    "UPDATE engine_instances SET status = 'dead'
     WHERE status IN ('live', 'draining') AND expires_at <= ",
    clock!(),
    "
        AND ($4::text IS NULL OR namespace IS NULL OR namespace = $4)
        AND EXISTS (SELECT 1 FROM engine_roles
        WHERE role = $1 AND holder = $2 AND term = $3 AND expires_at > ",
    clock!(),
    ") RETURNING instance_id, ",
    clock!(),
    " - heartbeat_at AS silent_us"
);

const ELECT: &str = concat!(
    "INSERT INTO engine_roles AS r (role, holder, term, acquired_at, expires_at)
     SELECT $1, $2, 1, now, now + $3 FROM (SELECT ",
    clock!(),
    " AS now) AS clock
     ON CONFLICT (role) DO UPDATE SET
        term = CASE WHEN r.expires_at > excluded.acquired_at THEN r.term ELSE r.term + 1 END,
        acquired_at = CASE WHEN r.expires_at > excluded.acquired_at
            THEN r.acquired_at ELSE excluded.acquired_at END,
        holder = excluded.holder, expires_at = excluded.expires_at
     WHERE r.holder = excluded.holder OR r.expires_at <= excluded.acquired_at
     RETURNING r.term, r.acquired_at, r.expires_at, r.expires_at - $3 AS now"
);

const RESIGN: &str = concat!(
    "UPDATE engine_roles SET expires_at = least(expires_at, ",
    clock!(),
    ") WHERE role = $1 AND holder = $2 AND term = $3"
);

pub(super) async fn register(store: &Postgres, registration: &Registration) -> Result<Registered> {
    const WHAT: &str = "registering a process";
    let who = &registration.incarnation;
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let buried = bury_others(store, &mut transaction.inner, registration).await?;
    let (expires_at,): (i64,) = store
        .statements
        .rows(REGISTER)
        .bind(who.id.as_str())
        .bind(who.node.as_str())
        .bind(who.build.as_ref().map(crate::model::BuildId::as_str))
        .bind(i64::from(who.pid))
        .bind(answers::span(registration.ttl))
        .bind(store.scope())
        .fetch_one(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    Ok(Registered {
        expires_at: Timestamp::from_micros(expires_at),
        buried,
    })
}

/// Declares dead those whose end the registration proves. How many.
async fn bury_others(
    store: &Postgres,
    connection: &mut PgConnection,
    registration: &Registration,
) -> Result<u64> {
    const WHAT: &str = "registering a process";
    let who = &registration.incarnation;
    if registration.exclusive {
        let alone = store.statements.done(COME_ALONE);
        alone.execute(&mut *connection).await.map_err(at(WHAT))?;
    }
    let others = match (registration.alone, registration.exclusive) {
        (true, _) => store.statements.done(BURY_OTHERS).bind(who.id.as_str()),
        (false, true) => {
            let namesakes = store.statements.done(BURY_NAMESAKES);
            namesakes
                .bind(who.id.as_str())
                .bind(who.node.as_str())
                .bind(store.scope())
        }
        (false, false) => return Ok(0),
    };
    let buried = others.execute(&mut *connection).await.map_err(at(WHAT))?;
    let freed = store.statements.done(FREE_ROLES);
    freed.execute(&mut *connection).await.map_err(at(WHAT))?;
    Ok(buried.rows_affected())
}

pub(super) async fn roles(store: &Postgres) -> Result<Roles> {
    const WHAT: &str = "reading the roles";
    let mut connection = Single::begin(store, WHAT).await?;
    let rows: Vec<RoleRow> = store
        .statements
        .rows(ROLES)
        .bind(store.scope())
        .fetch_all(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    answers::roles(rows, store.scope.as_ref())
}

pub(super) async fn forget(store: &Postgres, idle: Duration, limit: u32) -> Result<u64> {
    const WHAT: &str = "forgetting processes that have ended";
    let mut connection = Single::begin(store, WHAT).await?;
    let gone = store
        .statements
        .done(FORGET)
        .bind(answers::span(idle))
        .bind(i64::from(limit))
        .bind(store.scope())
        .execute(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    shares::forget(store, &mut connection, (idle, limit)).await?;
    connection.end(store, WHAT).await?;
    Ok(gone.rows_affected())
}

pub(super) async fn heartbeat(
    store: &Postgres,
    heartbeat: &Heartbeat,
) -> Result<Option<Timestamp>> {
    const WHAT: &str = "showing that this process lives";
    let mut connection = Single::begin(store, WHAT).await?;
    let row: Option<(i64,)> = store
        .statements
        .rows(HEARTBEAT)
        .bind(heartbeat.id.as_str())
        .bind(answers::span(heartbeat.ttl))
        .bind(heartbeat.stopped)
        .bind(heartbeat.draining)
        .bind(heartbeat.figures.as_deref())
        .fetch_optional(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    Ok(row.map(|(expires_at,)| Timestamp::from_micros(expires_at)))
}

pub(super) async fn bury(store: &Postgres, term: &Term) -> Result<Vec<Buried>> {
    const WHAT: &str = "declaring processes dead";
    let mut connection = Single::begin(store, WHAT).await?;
    let rows = store
        .statements
        .rows(BURY)
        .bind(term.role.key(store.scope.as_ref()))
        .bind(term.holder.as_str())
        .bind(super::super::rows::signed(term.number))
        .bind(store.scope())
        .fetch_all(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    answers::buried(rows)
}

pub(super) async fn elect(
    store: &Postgres,
    role: Role,
    holder: &OwnerId,
    ttl: Duration,
) -> Result<Option<Term>> {
    const WHAT: &str = "taking a role";
    let mut connection = Single::begin(store, WHAT).await?;
    let row: Option<TermRow> = store
        .statements
        .rows(ELECT)
        .bind(role.key(store.scope.as_ref()))
        .bind(holder.as_str())
        .bind(answers::span(ttl))
        .fetch_optional(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    Ok(row.map(|row| answers::term(role, holder, &row)))
}

pub(super) async fn resign(store: &Postgres, term: &Term) -> Result<()> {
    const WHAT: &str = "giving a role up";
    let mut connection = Single::begin(store, WHAT).await?;
    store
        .statements
        .done(RESIGN)
        .bind(term.role.key(store.scope.as_ref()))
        .bind(term.holder.as_str())
        .bind(super::super::rows::signed(term.number))
        .execute(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await
}
