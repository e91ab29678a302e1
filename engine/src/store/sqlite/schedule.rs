//! Schedules.

use coord_core::Result;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::super::rows::{
    OpenRow, RevisionRow, ScheduleRow, Seen, schedule_columns, schedule_page,
};
use super::super::{
    DuePage, DueSchedules, ScheduleDescription, ScheduleKey, ScheduleListing, SchedulePage,
};
use super::Sqlite;
use super::batch::{Transaction, json};
use super::claim::now;
use super::error::at;
use crate::store::batch::{Changes, KEPT_FIRES};

const LOCK: &str = "
    SELECT s.namespace, s.schedule_id, s.revision
    FROM json_each(?1) w
    JOIN workflow_schedules s ON s.namespace = w.value->>0 AND s.schedule_id = w.value->>1";

const DROP: &str = "
    DELETE FROM workflow_schedules WHERE (namespace, schedule_id) IN
        (SELECT value->>0, value->>1 FROM json_each(?1))";

const DROP_FIRES: &str = "
    DELETE FROM workflow_schedule_fires WHERE (namespace, schedule_id) IN
        (SELECT value->>0, value->>1 FROM json_each(?1))";

const ADD: &str = concat!(
    "INSERT INTO workflow_schedules (",
    schedule_columns!(),
    ") SELECT value->>'namespace', value->>'schedule_id', value->>'revision', value->>'status',
        value->>'workflow_type', value->>'next_fire_at', value->>'look_at',
        value->>'buffered_actions', value->>'fires_total', value->>'missed_total',
        value->>'skipped_total', value->>'definition', value->>'state', value->>'codec',
        unhex(value->>'payload'), value->>'created_at', value->>'updated_at'
     FROM json_each(?1)"
);

const PUT: &str = "
    UPDATE workflow_schedules SET
        revision = w.value->>'revision', status = w.value->>'status', workflow_type =
        w.value->>'workflow_type', next_fire_at = w.value->>'next_fire_at', look_at =
        w.value->>'look_at', buffered_actions = w.value->>'buffered_actions', fires_total =
        w.value->>'fires_total', missed_total = w.value->>'missed_total', skipped_total =
        w.value->>'skipped_total', definition = w.value->>'definition', state = w.value->>'state',
        codec = w.value->>'codec', payload = unhex(w.value->>'payload'), updated_at =
        w.value->>'updated_at'
    FROM json_each(?1) w
    WHERE namespace = w.value->>'namespace' AND schedule_id = w.value->>'schedule_id'";

const ADD_FIRES: &str = "
    INSERT INTO workflow_schedule_fires
        (namespace, schedule_id, occurrence_at, fire_number, cause, workflow_id, run_id, fired_at)
    SELECT value->>'namespace', value->>'schedule_id', value->>'occurrence_at', value->>'fire_number',
        value->>'cause', value->>'workflow_id', value->>'run_id', value->>'fired_at'
    FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING";

const DROP_OLD_FIRES: &str = "
    DELETE FROM workflow_schedule_fires WHERE EXISTS (SELECT 1 FROM json_each(?1)
        WHERE namespace = value->>0 AND schedule_id = value->>1 AND fire_number <= value->>2)";

const DUE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules
      WHERE look_at <= ?1 AND look_at < 4611686018427387904
        AND (look_at, namespace, schedule_id) > (?2, ?3, ?4)
        AND (?6 IS NULL OR namespace = ?6)
      ORDER BY look_at, namespace, schedule_id LIMIT ?5"
);

const NEXT_DUE: &str = "
    SELECT min(look_at) FROM workflow_schedules
    WHERE look_at > ?1 AND look_at < 4611686018427387904
      AND (?2 IS NULL OR namespace = ?2)";

const OPEN: &str = "
    SELECT i.namespace, i.workflow_id
    FROM json_each(?1) w
    JOIN workflow_instances i ON i.namespace = w.value->>0 AND i.workflow_id = w.value->>1
    JOIN workflow_runs r ON r.run_id = i.current_run_id
    WHERE r.closed_at IS NULL";

const ONE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules WHERE namespace = ?1 AND schedule_id = ?2"
);

const FIRES: &str = "
    SELECT namespace, schedule_id, occurrence_at, fire_number, cause, workflow_id, run_id, fired_at
    FROM workflow_schedule_fires WHERE namespace = ?1 AND schedule_id = ?2
    ORDER BY fire_number DESC LIMIT ?3";

const LIST: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules WHERE namespace = ?1 AND schedule_id > ?2
      ORDER BY schedule_id LIMIT ?3"
);

pub(super) async fn lock(
    transaction: &mut Transaction<'_>,
    schedules: &[(String, String)],
) -> Result<Vec<RevisionRow>> {
    transaction.read(LOCK, schedules).await
}

pub(super) async fn write(transaction: &mut Transaction<'_>, changes: &Changes) -> Result<()> {
    transaction.put(DROP_FIRES, &changes.unscheduled).await?;
    transaction.put(DROP, &changes.unscheduled).await?;
    transaction.put(ADD, &changes.new_schedules).await?;
    transaction.put(PUT, &changes.schedules).await?;
    transaction.put(ADD_FIRES, &changes.fires).await?;
    transaction.put(DROP_OLD_FIRES, &changes.old_fires).await
}

pub(super) async fn due(store: &Sqlite, asked: &DueSchedules) -> Result<DuePage> {
    const WHAT: &str = "looking for due schedules";
    let mut transaction = store.reader.begin().await.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let (look_at, namespace, schedule) = asked.place();
    let rows: Vec<ScheduleRow> = sqlx::query_as(DUE)
        .bind(now)
        .bind(look_at)
        .bind(namespace)
        .bind(schedule)
        .bind(i64::from(asked.limit) + 1)
        .bind(store.scope())
        .fetch_all(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    let next_due = sqlx::query_scalar(NEXT_DUE).bind(now).bind(store.scope());
    let next_due: Option<i64> = next_due
        .fetch_one(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    let mut seen = Seen::new(rows)?;
    keep_open(&mut transaction, &mut seen).await?;
    Ok(seen.due(asked, (now, next_due)))
}

pub(super) async fn describe(
    pool: &SqlitePool,
    of: &ScheduleKey,
) -> Result<Option<ScheduleDescription>> {
    const WHAT: &str = "describing a schedule";
    let mut transaction = pool.begin().await.map_err(at(WHAT))?;
    let now = now(&mut transaction).await?;
    let rows = sqlx::query_as(ONE);
    let rows = rows.bind(of.namespace.as_str()).bind(of.id.as_str());
    let rows: Vec<ScheduleRow> = rows.fetch_all(&mut *transaction).await.map_err(at(WHAT))?;
    let mut seen = Seen::new(rows)?;
    keep_open(&mut transaction, &mut seen).await?;
    let fires = sqlx::query_as(FIRES);
    let fires = fires.bind(of.namespace.as_str()).bind(of.id.as_str());
    let fires = fires.bind(KEPT_FIRES).fetch_all(&mut *transaction);
    seen.description(now, fires.await.map_err(at(WHAT))?)
}

async fn keep_open(connection: &mut SqliteConnection, seen: &mut Seen) -> Result<()> {
    let running = seen.running()?;
    let open: Vec<OpenRow> = match running.as_slice() {
        [] => Vec::new(),
        running => {
            let read = sqlx::query_as(OPEN).bind(json(running)?);
            let read = read.fetch_all(connection);
            read.await.map_err(at("reading what schedules started"))?
        }
    };
    seen.keep(&open);
    Ok(())
}

pub(super) async fn list(pool: &SqlitePool, listing: &ScheduleListing) -> Result<SchedulePage> {
    let rows = sqlx::query_as(LIST)
        .bind(listing.namespace.as_str())
        .bind(listing.place())
        .bind(i64::from(listing.limit) + 1)
        .fetch_all(pool)
        .await;
    schedule_page(listing, rows.map_err(at("listing schedules"))?)
}
