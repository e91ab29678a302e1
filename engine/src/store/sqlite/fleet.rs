//! Processes and roles. Each call but one is a single statement.

use std::time::Duration;

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::super::answers::{self, RoleRow, TermRow};
use super::super::{Buried, Heartbeat, Registered, Registration, Role, Roles, Term};
use super::Sqlite;
use super::error::{at, at_commit};
use super::shares;
use super::sql::clock;
use crate::model::{OwnerId, Timestamp};

const BURY_OTHERS: &str = "
    UPDATE engine_instances SET status = 'dead'
    WHERE status IN ('live', 'draining') AND instance_id <> ?1";

const BURY_NAMESAKES: &str = "
    UPDATE engine_instances SET status = 'dead'
    WHERE status IN ('live', 'draining') AND instance_id <> ?1 AND node_name = ?2
        AND namespace IS ?3";

const FREE_ROLES: &str = concat!(
    "UPDATE engine_roles SET expires_at = min(expires_at, ",
    clock!(),
    ") WHERE holder IN (
        SELECT instance_id FROM engine_instances WHERE status IN ('stopped', 'dead'))"
);

const ROLES: &str = concat!(
    "SELECT clock.now, EXISTS (SELECT 1 FROM workflow_schedules
        WHERE look_at < 4611686018427387904 AND (?1 IS NULL OR namespace = ?1)) AS has_schedules,
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
    " - ?1 AND (?3 IS NULL OR i.namespace IS NULL OR i.namespace = ?3) AND NOT EXISTS (SELECT 1 FROM workflow_tasks t
            WHERE t.status = 'leased' AND t.lease_owner = i.instance_id)
        ORDER BY i.instance_id LIMIT ?2)"
);

const REGISTER: &str = concat!(
    "INSERT INTO engine_instances
        (instance_id, node_name, build_id, pid, status, started_at, heartbeat_at, expires_at,
            namespace)
     SELECT ?1, ?2, ?3, ?4, 'live', now, now, now + ?5, ?6 FROM (SELECT ",
    clock!(),
    " AS now) WHERE true
     ON CONFLICT (instance_id) DO UPDATE SET
        heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at
     RETURNING expires_at"
);

const HEARTBEAT: &str = concat!(
    "UPDATE engine_instances SET heartbeat_at = ",
    clock!(),
    ", expires_at = ",
    clock!(),
    " + ?2, status = CASE WHEN ?3 THEN 'stopped' WHEN ?4 THEN 'draining' ELSE 'live' END,
        figures = coalesce(?5, figures)
     WHERE instance_id = ?1 AND status IN ('live', 'draining') RETURNING expires_at"
);

const BURY: &str = concat!(
    "UPDATE engine_instances SET status = 'dead'
     WHERE status IN ('live', 'draining') AND expires_at <= ",
    clock!(),
    "
        AND (?4 IS NULL OR namespace IS NULL OR namespace = ?4)
        AND EXISTS (SELECT 1 FROM engine_roles
        WHERE role = ?1 AND holder = ?2 AND term = ?3 AND expires_at > ",
    clock!(),
    ") RETURNING instance_id, ",
    clock!(),
    " - heartbeat_at AS silent_us"
);

const ELECT: &str = concat!(
    "INSERT INTO engine_roles (role, holder, term, acquired_at, expires_at)
     SELECT ?1, ?2, 1, now, now + ?3 FROM (SELECT ",
    clock!(),
    " AS now) WHERE true
     ON CONFLICT (role) DO UPDATE SET
        term = CASE WHEN expires_at > excluded.acquired_at THEN term ELSE term + 1 END,
        acquired_at = CASE WHEN expires_at > excluded.acquired_at
            THEN acquired_at ELSE excluded.acquired_at END,
        holder = excluded.holder, expires_at = excluded.expires_at
     WHERE holder = excluded.holder OR expires_at <= excluded.acquired_at
     RETURNING term, acquired_at, expires_at, expires_at - ?3 AS now"
);

const RESIGN: &str = concat!(
    "UPDATE engine_roles SET expires_at = min(expires_at, ",
    clock!(),
    ") WHERE role = ?1 AND holder = ?2 AND term = ?3"
);

pub(super) async fn register(
    store: &Sqlite,
    registration: &Registration,
    alone: bool,
) -> Result<Registered> {
    const WHAT: &str = "registering a process";
    let who = &registration.incarnation;
    let begun = super::begin(&store.writer).await;
    let mut transaction = begun.map_err(at(WHAT))?;
    let others = match (alone, registration.exclusive) {
        (true, _) => Some(sqlx::query(BURY_OTHERS).bind(who.id.as_str())),
        (false, true) => {
            let namesakes = sqlx::query(BURY_NAMESAKES).bind(who.id.as_str());
            Some(namesakes.bind(who.node.as_str()).bind(store.scope()))
        }
        (false, false) => None,
    };
    let mut buried = 0;
    if let Some(others) = others {
        let done = others.execute(&mut *transaction).await.map_err(at(WHAT))?;
        buried = done.rows_affected();
        let freed = sqlx::query(FREE_ROLES);
        freed.execute(&mut *transaction).await.map_err(at(WHAT))?;
    }
    let expires_at: i64 = sqlx::query_scalar(REGISTER)
        .bind(who.id.as_str())
        .bind(who.node.as_str())
        .bind(who.build.as_ref().map(crate::model::BuildId::as_str))
        .bind(i64::from(who.pid))
        .bind(answers::span(registration.ttl))
        .bind(store.scope())
        .fetch_one(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    transaction.commit().await.map_err(at_commit(WHAT))?;
    Ok(Registered {
        expires_at: Timestamp::from_micros(expires_at),
        buried,
    })
}

pub(super) async fn roles(store: &Sqlite) -> Result<Roles> {
    let rows: Vec<RoleRow> = sqlx::query_as(ROLES)
        .bind(store.scope())
        .fetch_all(&store.reader)
        .await
        .map_err(at("reading the roles"))?;
    answers::roles(rows, store.scope.as_ref())
}

pub(super) async fn forget(store: &Sqlite, idle: Duration, limit: u32) -> Result<u64> {
    let gone = sqlx::query(FORGET)
        .bind(answers::span(idle))
        .bind(i64::from(limit))
        .bind(store.scope())
        .execute(&store.writer)
        .await
        .map_err(at_commit("forgetting processes that have ended"))?;
    shares::forget(store, (idle, limit)).await?;
    Ok(gone.rows_affected())
}

pub(super) async fn heartbeat(
    pool: &SqlitePool,
    heartbeat: &Heartbeat,
) -> Result<Option<Timestamp>> {
    let expires_at: Option<i64> = sqlx::query_scalar(HEARTBEAT)
        .bind(heartbeat.id.as_str())
        .bind(answers::span(heartbeat.ttl))
        .bind(heartbeat.stopped)
        .bind(heartbeat.draining)
        .bind(heartbeat.figures.as_deref())
        .fetch_optional(pool)
        .await
        .map_err(at_commit("showing that this process lives"))?;
    Ok(expires_at.map(Timestamp::from_micros))
}

pub(super) async fn bury(store: &Sqlite, term: &Term) -> Result<Vec<Buried>> {
    let rows = sqlx::query_as(BURY)
        .bind(term.role.key(store.scope.as_ref()))
        .bind(term.holder.as_str())
        .bind(super::super::rows::signed(term.number))
        .bind(store.scope())
        .fetch_all(&store.writer)
        .await
        .map_err(at_commit("declaring processes dead"))?;
    answers::buried(rows)
}

pub(super) async fn elect(
    store: &Sqlite,
    role: Role,
    holder: &OwnerId,
    ttl: Duration,
) -> Result<Option<Term>> {
    let row: Option<TermRow> = sqlx::query_as(ELECT)
        .bind(role.key(store.scope.as_ref()))
        .bind(holder.as_str())
        .bind(answers::span(ttl))
        .fetch_optional(&store.writer)
        .await
        .map_err(at_commit("taking a role"))?;
    Ok(row.map(|row| answers::term(role, holder, &row)))
}

pub(super) async fn resign(store: &Sqlite, term: &Term) -> Result<()> {
    sqlx::query(RESIGN)
        .bind(term.role.key(store.scope.as_ref()))
        .bind(term.holder.as_str())
        .bind(super::super::rows::signed(term.number))
        .execute(&store.writer)
        .await
        .map(drop)
        .map_err(at_commit("giving a role up"))
}
