//! Processes and roles. Each call locks its row, reads the clock, and writes.

use std::time::Duration;

use coord_core::Result;

use super::super::answers::{self, RoleRow, TermRow};
use super::super::rows::signed;
use super::super::{Buried, Heartbeat, Registered, Registration, Role, Roles, Term};
use super::Mysql;
use super::batch::{Transaction, json};
use super::error::{at, at_commit};
use super::shares;
use super::sql::{clock, ids};
use crate::model::{OwnerId, Timestamp};

const BURY_OTHERS: &str = "
    UPDATE engine_instances SET status = 'dead'
    WHERE status IN ('live', 'draining') AND instance_id <> ?";

/// Held to the end of the transaction, so that those who come at once come one after the other.
const COME_ALONE: &str = "
    INSERT INTO engine_roles (`role`, holder, term, acquired_at, expires_at)
    VALUES ('exclusive', NULL, 1, 0, 0) ON DUPLICATE KEY UPDATE term = engine_roles.term + 1";

const BURY_NAMESAKES: &str = "
    UPDATE engine_instances SET status = 'dead'
    WHERE status IN ('live', 'draining') AND instance_id <> ? AND node_name = ?
        AND namespace <=> ?";

const FREE_ROLES: &str = concat!(
    "UPDATE engine_roles SET expires_at = least(expires_at, ",
    clock!(),
    ") WHERE holder IN (
        SELECT instance_id FROM engine_instances WHERE status IN ('stopped', 'dead'))"
);

const ROLES: &str = concat!(
    "SELECT clock.now, CASE WHEN EXISTS (SELECT 1 FROM workflow_schedules
        WHERE look_at < 4611686018427387904 AND (? IS NULL OR namespace = ?)) THEN 1 ELSE 0 END AS has_schedules,
        r.`role`, r.holder, r.term, r.acquired_at, r.expires_at
     FROM (SELECT ",
    clock!(),
    " AS now) AS clock LEFT JOIN engine_roles r ON r.holder IS NOT NULL"
);

/// Those that have ended and have no lease, without a lock: they do not come back.
const ENDED: &str = concat!(
    "SELECT i.instance_id FROM engine_instances i
     WHERE i.status IN ('stopped', 'dead') AND i.heartbeat_at <= ",
    clock!(),
    " - ? AND (? IS NULL OR i.namespace IS NULL OR i.namespace = ?) AND NOT EXISTS (SELECT 1 FROM workflow_tasks t
        WHERE t.status = 'leased' AND t.lease_owner = i.instance_id)
     ORDER BY i.instance_id LIMIT ?"
);

const FORGET: &str = concat!(
    "DELETE i FROM ",
    ids!(),
    " STRAIGHT_JOIN engine_instances i FORCE INDEX (PRIMARY) ON i.instance_id = w.id"
);

const REGISTER: &str = "
    INSERT INTO engine_instances
        (instance_id, node_name, build_id, pid, status, started_at, heartbeat_at, expires_at,
            namespace)
    VALUES (?, ?, ?, ?, 'live', ?, ?, ?, ?)
    ON DUPLICATE KEY UPDATE heartbeat_at = VALUES(heartbeat_at), expires_at = VALUES(expires_at)";

const LOCK_LIVE: &str = "
    SELECT instance_id FROM engine_instances
    WHERE instance_id = ? AND status IN ('live', 'draining') FOR UPDATE";

const HEARTBEAT: &str = "
    UPDATE engine_instances SET heartbeat_at = ?, expires_at = ?,
        status = CASE WHEN ? THEN 'stopped' WHEN ? THEN 'draining' ELSE 'live' END,
        figures = coalesce(?, figures)
    WHERE instance_id = ?";

const LOCK_TERM: &str = "
    SELECT term FROM engine_roles WHERE `role` = ? AND holder = ? AND term = ? FOR UPDATE";

const HOLDS: &str = concat!(
    "SELECT count(*) FROM engine_roles WHERE `role` = ? AND expires_at > ",
    clock!()
);

const OVERDUE: &str = concat!(
    "SELECT instance_id, ",
    clock!(),
    " - heartbeat_at AS silent_us FROM engine_instances
     WHERE status IN ('live', 'draining') AND expires_at <= ",
    clock!(),
    " AND (? IS NULL OR namespace IS NULL OR namespace = ?) FOR UPDATE"
);

const BURY: &str = concat!(
    "UPDATE ",
    ids!(),
    " STRAIGHT_JOIN engine_instances i FORCE INDEX (PRIMARY) ON i.instance_id = w.id
      SET i.status = 'dead'"
);

const MAKE_ROLE: &str = "
    INSERT INTO engine_roles (`role`, holder, term, acquired_at, expires_at)
    VALUES (?, NULL, 0, 0, 0) ON DUPLICATE KEY UPDATE term = engine_roles.term";

const LOCK_ROLE: &str =
    "SELECT holder, term, acquired_at, expires_at FROM engine_roles WHERE `role` = ? FOR UPDATE";

const ELECT: &str = "
    UPDATE engine_roles SET holder = ?, term = ?, acquired_at = ?, expires_at = ? WHERE `role` = ?";

const RESIGN: &str = concat!(
    "UPDATE engine_roles SET expires_at = least(expires_at, ",
    clock!(),
    ") WHERE `role` = ? AND holder = ? AND term = ?"
);

pub(super) async fn register(store: &Mysql, registration: &Registration) -> Result<Registered> {
    const WHAT: &str = "registering a process";
    let who = &registration.incarnation;
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let buried = bury_others(store, &mut transaction, registration).await?;
    let now = transaction.now().await?;
    let expires_at = answers::until(now, registration.ttl);
    sqlx::query(REGISTER)
        .bind(who.id.as_str())
        .bind(who.node.as_str())
        .bind(who.build.as_ref().map(crate::model::BuildId::as_str))
        .bind(i64::from(who.pid))
        .bind(now)
        .bind(now)
        .bind(expires_at)
        .bind(store.scope())
        .execute(&mut *transaction.inner)
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
    store: &Mysql,
    transaction: &mut Transaction<'_>,
    registration: &Registration,
) -> Result<u64> {
    const WHAT: &str = "registering a process";
    let who = &registration.incarnation;
    if registration.exclusive {
        let alone = sqlx::query(COME_ALONE).execute(&mut *transaction.inner);
        alone.await.map_err(at(WHAT))?;
    }
    let others = match (registration.alone, registration.exclusive) {
        (true, _) => sqlx::query(BURY_OTHERS).bind(who.id.as_str()),
        (false, true) => {
            let namesakes = sqlx::query(BURY_NAMESAKES).bind(who.id.as_str());
            namesakes.bind(who.node.as_str()).bind(store.scope())
        }
        (false, false) => return Ok(0),
    };
    let buried = others.execute(&mut *transaction.inner).await;
    let buried = buried.map_err(at(WHAT))?.rows_affected();
    let freed = sqlx::query(FREE_ROLES).execute(&mut *transaction.inner);
    freed.await.map_err(at(WHAT))?;
    Ok(buried)
}

pub(super) async fn roles(store: &Mysql) -> Result<Roles> {
    let rows: Vec<RoleRow> = sqlx::query_as(ROLES)
        .bind(store.scope())
        .bind(store.scope())
        .fetch_all(&store.pool)
        .await
        .map_err(at("reading the roles"))?;
    answers::roles(rows, store.scope.as_ref())
}

pub(super) async fn forget(store: &Mysql, idle: Duration, limit: u32) -> Result<u64> {
    const WHAT: &str = "forgetting processes that have ended";
    let ended: Vec<String> = sqlx::query_scalar(ENDED)
        .bind(crate::model::micros(idle))
        .bind(store.scope())
        .bind(store.scope())
        .bind(u64::from(limit))
        .fetch_all(&store.pool)
        .await
        .map_err(at(WHAT))?;
    shares::forget(store, (idle, limit)).await?;
    if ended.is_empty() {
        return Ok(0);
    }
    let gone = sqlx::query(store.text(FORGET)).bind(json(&ended)?);
    let gone = gone.execute(&store.pool);
    Ok(gone.await.map_err(at_commit(WHAT))?.rows_affected())
}

pub(super) async fn heartbeat(store: &Mysql, heartbeat: &Heartbeat) -> Result<Option<Timestamp>> {
    const WHAT: &str = "showing that this process lives";
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let live = sqlx::query_scalar(LOCK_LIVE).bind(heartbeat.id.as_str());
    let live = live.fetch_optional(&mut *transaction.inner).await;
    let live: Option<String> = live.map_err(at(WHAT))?;
    if live.is_none() {
        return Ok(None);
    }
    let now = transaction.now().await?;
    let expires_at = answers::until(now, heartbeat.ttl);
    sqlx::query(HEARTBEAT)
        .bind(now)
        .bind(expires_at)
        .bind(heartbeat.stopped)
        .bind(heartbeat.draining)
        .bind(heartbeat.figures.as_deref())
        .bind(heartbeat.id.as_str())
        .execute(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    Ok(Some(Timestamp::from_micros(expires_at)))
}

pub(super) async fn bury(store: &Mysql, term: &Term) -> Result<Vec<Buried>> {
    const WHAT: &str = "declaring processes dead";
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let held: Option<i64> = sqlx::query_scalar(LOCK_TERM)
        .bind(term.role.key(store.scope.as_ref()))
        .bind(term.holder.as_str())
        .bind(signed(term.number))
        .fetch_optional(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let holds = sqlx::query_scalar(HOLDS).bind(term.role.key(store.scope.as_ref()));
    let holds = holds.fetch_one(&mut *transaction.inner).await;
    let holds: i64 = holds.map_err(at(WHAT))?;
    if held.is_none() || holds == 0 {
        return Ok(Vec::new());
    }
    let overdue = sqlx::query_as(OVERDUE).bind(store.scope());
    let overdue = overdue
        .bind(store.scope())
        .fetch_all(&mut *transaction.inner);
    let overdue: Vec<(String, i64)> = overdue.await.map_err(at(WHAT))?;
    let ids: Vec<_> = overdue.iter().map(|(id, _)| id).collect();
    let buried = sqlx::query(store.text(BURY)).bind(json(&ids)?);
    let buried = buried.execute(&mut *transaction.inner).await;
    buried.map_err(at(WHAT))?;
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    answers::buried(overdue)
}

pub(super) async fn elect(
    store: &Mysql,
    role: Role,
    holder: &OwnerId,
    ttl: Duration,
) -> Result<Option<Term>> {
    const WHAT: &str = "taking a role";
    let key = role.key(store.scope.as_ref());
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let made = sqlx::query(MAKE_ROLE).bind(&key);
    let made = made.execute(&mut *transaction.inner).await;
    made.map_err(at(WHAT))?;
    let seen = sqlx::query_as(LOCK_ROLE).bind(&key);
    let seen = seen.fetch_one(&mut *transaction.inner).await;
    let (had, term, acquired_at, ends): (Option<String>, i64, i64, i64) = seen.map_err(at(WHAT))?;
    let now = transaction.now().await?;
    let is_held = ends > now;
    if is_held && had.as_deref() != Some(holder.as_str()) {
        return Ok(None);
    }
    let row = TermRow {
        term: if is_held { term } else { term + 1 },
        acquired_at: if is_held { acquired_at } else { now },
        expires_at: answers::until(now, ttl),
        now,
    };
    sqlx::query(ELECT)
        .bind(holder.as_str())
        .bind(row.term)
        .bind(row.acquired_at)
        .bind(row.expires_at)
        .bind(&key)
        .execute(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    Ok(Some(answers::term(role, holder, &row)))
}

pub(super) async fn resign(store: &Mysql, term: &Term) -> Result<()> {
    sqlx::query(RESIGN)
        .bind(term.role.key(store.scope.as_ref()))
        .bind(term.holder.as_str())
        .bind(signed(term.number))
        .execute(&store.pool)
        .await
        .map(drop)
        .map_err(at_commit("giving a role up"))
}
