//! Schedules.

use coord_core::Result;
use sqlx::mysql::{MySqlConnection, MySqlPool};

use super::super::rows::{
    OpenRow, RevisionRow, ScheduleRow, Seen, schedule_columns, schedule_page,
};
use super::super::{
    DuePage, DueSchedules, ScheduleDescription, ScheduleKey, ScheduleListing, SchedulePage,
};
use super::Mysql;
use super::batch::{Transaction, json};
use super::error::at;
use super::read::snapshot;
use super::sql::CLOCK;
use crate::store::batch::{Changes, KEPT_FIRES};

/// The pairs of a statement's first argument.
macro_rules! keys {
    () => {
        "JSON_TABLE(?, '$[*]' COLUMNS (
            namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[0]',
            id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]')) w"
    };
}

const LOCK: &str = concat!(
    "SELECT STRAIGHT_JOIN s.namespace, s.schedule_id, s.revision FROM ",
    keys!(),
    " JOIN workflow_schedules s FORCE INDEX (PRIMARY)
        ON s.namespace = w.namespace AND s.schedule_id = w.id FOR UPDATE"
);

const DROP: &str = concat!(
    "DELETE s FROM ",
    keys!(),
    " STRAIGHT_JOIN workflow_schedules s FORCE INDEX (PRIMARY)
        ON s.namespace = w.namespace AND s.schedule_id = w.id"
);

const DROP_FIRES: &str = concat!(
    "DELETE f FROM ",
    keys!(),
    " STRAIGHT_JOIN workflow_schedule_fires f FORCE INDEX (PRIMARY)
        ON f.namespace = w.namespace AND f.schedule_id = w.id"
);

const ADD: &str = concat!(
    "INSERT INTO workflow_schedules (",
    schedule_columns!(),
    ") SELECT w.`namespace`, w.`schedule_id`, w.`revision`, w.`status`, w.`workflow_type`, w.`next_fire_at`,
        w.`look_at`, w.`buffered_actions`, w.`fires_total`, w.`missed_total`, w.`skipped_total`,
        w.`definition`, w.`state`, w.`codec`, unhex(w.`payload`), w.`created_at`, w.`updated_at`
     FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `namespace` LONGTEXT PATH '$.namespace',
            `schedule_id` LONGTEXT PATH '$.schedule_id',
            `revision` BIGINT PATH '$.revision',
            `status` LONGTEXT PATH '$.status',
            `workflow_type` LONGTEXT PATH '$.workflow_type',
            `next_fire_at` BIGINT PATH '$.next_fire_at',
            `look_at` BIGINT PATH '$.look_at',
            `buffered_actions` BIGINT PATH '$.buffered_actions',
            `fires_total` BIGINT PATH '$.fires_total',
            `missed_total` BIGINT PATH '$.missed_total',
            `skipped_total` BIGINT PATH '$.skipped_total',
            `definition` LONGTEXT PATH '$.definition',
            `state` LONGTEXT PATH '$.state',
            `codec` LONGTEXT PATH '$.codec',
            `payload` LONGTEXT PATH '$.payload',
            `created_at` BIGINT PATH '$.created_at',
            `updated_at` BIGINT PATH '$.updated_at')) w"
);

const PUT: &str = "
    UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
            `namespace` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.namespace',
            `schedule_id` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.schedule_id',
            `revision` BIGINT PATH '$.revision',
            `status` LONGTEXT PATH '$.status',
            `workflow_type` LONGTEXT PATH '$.workflow_type',
            `next_fire_at` BIGINT PATH '$.next_fire_at',
            `look_at` BIGINT PATH '$.look_at',
            `buffered_actions` BIGINT PATH '$.buffered_actions',
            `fires_total` BIGINT PATH '$.fires_total',
            `missed_total` BIGINT PATH '$.missed_total',
            `skipped_total` BIGINT PATH '$.skipped_total',
            `definition` LONGTEXT PATH '$.definition',
            `state` LONGTEXT PATH '$.state',
            `codec` LONGTEXT PATH '$.codec',
            `payload` LONGTEXT PATH '$.payload',
            `updated_at` BIGINT PATH '$.updated_at')) w
    STRAIGHT_JOIN workflow_schedules s FORCE INDEX (PRIMARY)
        ON s.namespace = w.namespace AND s.schedule_id = w.schedule_id
    SET s.revision = w.`revision`, s.status = w.`status`, s.workflow_type = w.`workflow_type`,
        s.next_fire_at = w.`next_fire_at`, s.look_at = w.`look_at`, s.buffered_actions =
        w.`buffered_actions`, s.fires_total = w.`fires_total`, s.missed_total = w.`missed_total`,
        s.skipped_total = w.`skipped_total`, s.definition = w.`definition`, s.state = w.`state`,
        s.codec = w.`codec`, s.payload = unhex(w.`payload`), s.updated_at = w.`updated_at`";

const ADD_FIRES: &str = "
    INSERT INTO workflow_schedule_fires
        (namespace, schedule_id, occurrence_at, fire_number, cause, workflow_id, run_id, fired_at)
    SELECT w.`namespace`, w.`schedule_id`, w.`occurrence_at`, w.`fire_number`, w.`cause`, w.`workflow_id`,
        w.`run_id`, w.`fired_at`
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `namespace` LONGTEXT PATH '$.namespace',
            `schedule_id` LONGTEXT PATH '$.schedule_id',
            `occurrence_at` BIGINT PATH '$.occurrence_at',
            `fire_number` BIGINT PATH '$.fire_number',
            `cause` LONGTEXT PATH '$.cause',
            `workflow_id` LONGTEXT PATH '$.workflow_id',
            `run_id` LONGTEXT PATH '$.run_id',
            `fired_at` BIGINT PATH '$.fired_at')) w
    ON DUPLICATE KEY UPDATE fire_number = workflow_schedule_fires.fire_number";

const DROP_OLD_FIRES: &str = "
    DELETE f FROM JSON_TABLE(?, '$[*]' COLUMNS (
            namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[0]',
            id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]',
            until BIGINT PATH '$[2]')) w
    STRAIGHT_JOIN workflow_schedule_fires f FORCE INDEX (PRIMARY)
        ON f.namespace = w.namespace AND f.schedule_id = w.id
    WHERE f.fire_number <= w.until";

const DUE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules
      WHERE look_at >= ? AND look_at <= ? AND look_at < 4611686018427387904
        AND (look_at > ? OR namespace > ? OR (namespace = ? AND schedule_id > ?))
        AND (? IS NULL OR namespace = ?)
      ORDER BY look_at, namespace, schedule_id LIMIT ?"
);

const NEXT_DUE: &str = "
    SELECT min(look_at) FROM workflow_schedules
    WHERE look_at > ? AND look_at < 4611686018427387904
      AND (? IS NULL OR namespace = ?)";

const OPEN: &str = concat!(
    "SELECT STRAIGHT_JOIN i.namespace, i.workflow_id FROM ",
    keys!(),
    " JOIN workflow_instances i FORCE INDEX (PRIMARY)
        ON i.namespace = w.namespace AND i.workflow_id = w.id
      JOIN workflow_runs r FORCE INDEX (PRIMARY) ON r.run_id = i.current_run_id
      WHERE r.closed_at IS NULL"
);

const ONE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules WHERE namespace = ? AND schedule_id = ?"
);

const FIRES: &str = "
    SELECT namespace, schedule_id, occurrence_at, fire_number, cause, workflow_id, run_id, fired_at
    FROM workflow_schedule_fires WHERE namespace = ? AND schedule_id = ?
    ORDER BY fire_number DESC LIMIT ?";

const LIST: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules WHERE namespace = ? AND schedule_id > ?
      ORDER BY schedule_id LIMIT ?"
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

pub(super) async fn due(store: &Mysql, asked: &DueSchedules) -> Result<DuePage> {
    const WHAT: &str = "looking for due schedules";
    let mut transaction = snapshot(&store.pool, WHAT).await?;
    let now = sqlx::query_scalar(CLOCK).fetch_one(&mut *transaction);
    let now: i64 = now.await.map_err(at(WHAT))?;
    let (look_at, namespace, schedule) = asked.place();
    let rows: Vec<ScheduleRow> = sqlx::query_as(DUE)
        .bind(look_at)
        .bind(now)
        .bind(look_at)
        .bind(namespace)
        .bind(namespace)
        .bind(schedule)
        .bind(store.scope())
        .bind(store.scope())
        .bind(i64::from(asked.limit) + 1)
        .fetch_all(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    let next_due = sqlx::query_scalar(NEXT_DUE).bind(now);
    let next_due = next_due.bind(store.scope()).bind(store.scope());
    let next_due: Option<i64> = next_due
        .fetch_one(&mut *transaction)
        .await
        .map_err(at(WHAT))?;
    let mut seen = Seen::new(rows)?;
    keep_open(store, &mut transaction, &mut seen).await?;
    transaction.commit().await.map_err(at(WHAT))?;
    Ok(seen.due(asked, (now, next_due)))
}

pub(super) async fn describe(
    store: &Mysql,
    of: &ScheduleKey,
) -> Result<Option<ScheduleDescription>> {
    const WHAT: &str = "describing a schedule";
    let mut transaction = snapshot(&store.pool, WHAT).await?;
    let now = sqlx::query_scalar(CLOCK).fetch_one(&mut *transaction);
    let now: i64 = now.await.map_err(at(WHAT))?;
    let rows = sqlx::query_as(ONE);
    let rows = rows.bind(of.namespace.as_str()).bind(of.id.as_str());
    let rows: Vec<ScheduleRow> = rows.fetch_all(&mut *transaction).await.map_err(at(WHAT))?;
    let mut seen = Seen::new(rows)?;
    keep_open(store, &mut transaction, &mut seen).await?;
    let fires = sqlx::query_as(FIRES);
    let fires = fires.bind(of.namespace.as_str()).bind(of.id.as_str());
    let fires = fires.bind(KEPT_FIRES).fetch_all(&mut *transaction);
    let fires = fires.await.map_err(at(WHAT))?;
    transaction.commit().await.map_err(at(WHAT))?;
    seen.description(now, fires)
}

async fn keep_open(store: &Mysql, connection: &mut MySqlConnection, seen: &mut Seen) -> Result<()> {
    let running = seen.running()?;
    let open: Vec<OpenRow> = match running.as_slice() {
        [] => Vec::new(),
        running => {
            let read = sqlx::query_as(store.text(OPEN)).bind(json(running)?);
            let read = read.fetch_all(connection);
            read.await.map_err(at("reading what schedules started"))?
        }
    };
    seen.keep(&open);
    Ok(())
}

pub(super) async fn list(pool: &MySqlPool, listing: &ScheduleListing) -> Result<SchedulePage> {
    let rows = sqlx::query_as(LIST)
        .bind(listing.namespace.as_str())
        .bind(listing.place())
        .bind(i64::from(listing.limit) + 1)
        .fetch_all(pool)
        .await;
    schedule_page(listing, rows.map_err(at("listing schedules"))?)
}
