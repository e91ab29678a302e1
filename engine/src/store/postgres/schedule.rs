//! Schedules.

use coord_core::Result;

use super::super::rows::{
    FireRow, OpenRow, RevisionRow, ScheduleRow, Seen, schedule_columns, schedule_page,
};
use super::super::{
    DuePage, DueSchedules, ScheduleDescription, ScheduleKey, ScheduleListing, SchedulePage,
};
use super::batch::{PgQuery, bind};
use super::claim::now;
use super::error::at;
use super::single::Single;
use super::{Postgres, READ, Transaction};
use crate::store::batch::{Changes, KEPT_FIRES};

const LOCK: &str = "
    SELECT s.namespace, s.schedule_id, s.revision
    FROM unnest($1::text[], $2::text[]) AS w (namespace, schedule_id)
    JOIN workflow_schedules s ON s.namespace = w.namespace AND s.schedule_id = w.schedule_id
    ORDER BY s.namespace, s.schedule_id FOR UPDATE OF s";

const DROP: &str = "
    DELETE FROM workflow_schedules s USING unnest($1::text[], $2::text[])
        AS w (namespace, schedule_id)
    WHERE s.namespace = w.namespace AND s.schedule_id = w.schedule_id";

const DROP_FIRES: &str = "
    DELETE FROM workflow_schedule_fires f USING unnest($1::text[], $2::text[])
        AS w (namespace, schedule_id)
    WHERE f.namespace = w.namespace AND f.schedule_id = w.schedule_id";

const ADD: &str = concat!(
    "INSERT INTO workflow_schedules (",
    schedule_columns!(),
    ") SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], $5::text[], $6::int8[], $7::int8[], $8::int8[],
        $9::int8[], $10::int8[], $11::int8[], $12::text[], $13::text[], $14::text[], $15::bytea[],
        $16::int8[], $17::int8[])"
);

const PUT: &str = concat!(
    "UPDATE workflow_schedules s SET
        revision = w.revision, status = w.status, workflow_type = w.workflow_type, next_fire_at =
        w.next_fire_at, look_at = w.look_at, buffered_actions = w.buffered_actions, fires_total =
        w.fires_total, missed_total = w.missed_total, skipped_total = w.skipped_total, definition
        = w.definition, state = w.state, codec = w.codec, payload = w.payload, updated_at =
        w.updated_at
     FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], $5::text[], $6::int8[], $7::int8[], $8::int8[],
        $9::int8[], $10::int8[], $11::int8[], $12::text[], $13::text[], $14::text[], $15::bytea[],
        $16::int8[], $17::int8[])
        AS w (",
    schedule_columns!(),
    ") WHERE s.namespace = w.namespace AND s.schedule_id = w.schedule_id"
);

const ADD_FIRES: &str = "
    INSERT INTO workflow_schedule_fires
        (namespace, schedule_id, occurrence_at, fire_number, cause, workflow_id, run_id, fired_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::text[], $6::text[], $7::text[], $8::int8[])
    ON CONFLICT DO NOTHING";

const DROP_OLD_FIRES: &str = "
    DELETE FROM workflow_schedule_fires f USING unnest($1::text[], $2::text[], $3::int8[])
        AS w (namespace, schedule_id, until)
    WHERE f.namespace = w.namespace AND f.schedule_id = w.schedule_id
        AND f.fire_number <= w.until";

const DUE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules
      WHERE look_at <= $1 AND look_at < 4611686018427387904
        AND (look_at, namespace, schedule_id) > ($2, $3, $4)
        AND ($6::text IS NULL OR namespace = $6)
      ORDER BY look_at, namespace, schedule_id LIMIT $5"
);

const NEXT_DUE: &str = "
    SELECT min(look_at) FROM workflow_schedules
    WHERE look_at > $1 AND look_at < 4611686018427387904
      AND ($2::text IS NULL OR namespace = $2)";

const OPEN: &str = "
    SELECT i.namespace, i.workflow_id
    FROM unnest($1::text[], $2::text[]) AS w (namespace, workflow_id)
    JOIN workflow_instances i ON i.namespace = w.namespace AND i.workflow_id = w.workflow_id
    JOIN workflow_runs r ON r.run_id = i.current_run_id
    WHERE r.closed_at IS NULL";

const ONE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules WHERE namespace = $1 AND schedule_id = $2"
);

const FIRES: &str = "
    SELECT namespace, schedule_id, occurrence_at, fire_number, cause, workflow_id, run_id, fired_at
    FROM workflow_schedule_fires WHERE namespace = $1 AND schedule_id = $2
    ORDER BY fire_number DESC LIMIT $3";

const LIST: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM workflow_schedules WHERE namespace = $1 AND schedule_id > $2
      ORDER BY schedule_id LIMIT $3"
);

pub(super) async fn lock(
    transaction: &mut Transaction<'_>,
    schedules: &[(String, String)],
) -> Result<Vec<RevisionRow>> {
    let read = bind!(transaction.statements.rows(LOCK), schedules; 0 1);
    let read = read.fetch_all(&mut *transaction.inner);
    read.await.map_err(at("locking schedules"))
}

pub(super) async fn write(transaction: &mut Transaction<'_>, changes: &Changes) -> Result<()> {
    let gone = &changes.unscheduled;
    for sql in [DROP_FIRES, DROP] {
        let dropped = transaction.put(sql, gone, |query, rows| bind!(query, rows; 0 1));
        dropped.await?;
    }
    let new = &changes.new_schedules;
    transaction.put(ADD, new, schedules_of).await?;
    let changed = &changes.schedules;
    transaction.put(PUT, changed, schedules_of).await?;
    let fires = &changes.fires;
    transaction.put(ADD_FIRES, fires, fires_of).await?;
    let old = &changes.old_fires;
    let dropped = transaction.put(DROP_OLD_FIRES, old, |query, rows| bind!(query, rows; 0 1 2));
    dropped.await
}

fn schedules_of<'q>(query: PgQuery<'q>, rows: &'q [ScheduleRow]) -> PgQuery<'q> {
    bind!(query, rows;
        namespace schedule_id revision status workflow_type next_fire_at look_at buffered_actions
        fires_total missed_total skipped_total definition state codec payload created_at
        updated_at)
}

fn fires_of<'q>(query: PgQuery<'q>, rows: &'q [FireRow]) -> PgQuery<'q> {
    bind!(query, rows;
        namespace schedule_id occurrence_at fire_number cause workflow_id run_id fired_at)
}

pub(super) async fn due(store: &Postgres, asked: &DueSchedules) -> Result<DuePage> {
    const WHAT: &str = "looking for due schedules";
    let mut transaction = store.begin(READ, WHAT).await?;
    let now = now(&mut transaction).await?;
    let (look_at, namespace, schedule) = asked.place();
    let rows = store
        .statements
        .rows(DUE)
        .bind(now)
        .bind(look_at)
        .bind(namespace)
        .bind(schedule)
        .bind(i64::from(asked.limit) + 1)
        .bind(store.scope());
    let rows: Vec<ScheduleRow> = rows
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let next_due = store.statements.rows(NEXT_DUE).bind(now);
    let next_due = next_due.bind(store.scope());
    let next_due = next_due.fetch_one(&mut *transaction.inner).await;
    let (next_due,): (Option<i64>,) = next_due.map_err(at(WHAT))?;
    let mut seen = Seen::new(rows)?;
    keep_open(&mut transaction, &mut seen).await?;
    Ok(seen.due(asked, (now, next_due)))
}

pub(super) async fn describe(
    store: &Postgres,
    of: &ScheduleKey,
) -> Result<Option<ScheduleDescription>> {
    const WHAT: &str = "describing a schedule";
    let mut transaction = store.begin(READ, WHAT).await?;
    let now = now(&mut transaction).await?;
    let rows = store.statements.rows(ONE);
    let rows = rows.bind(of.namespace.as_str()).bind(of.id.as_str());
    let rows: Vec<ScheduleRow> = rows
        .fetch_all(&mut *transaction.inner)
        .await
        .map_err(at(WHAT))?;
    let mut seen = Seen::new(rows)?;
    keep_open(&mut transaction, &mut seen).await?;
    let fires = store.statements.rows(FIRES);
    let fires = fires.bind(of.namespace.as_str()).bind(of.id.as_str());
    let fires = fires.bind(KEPT_FIRES).fetch_all(&mut *transaction.inner);
    seen.description(now, fires.await.map_err(at(WHAT))?)
}

async fn keep_open(transaction: &mut Transaction<'_>, seen: &mut Seen) -> Result<()> {
    let running = seen.running()?;
    let open: Vec<OpenRow> = match running.as_slice() {
        [] => Vec::new(),
        running => {
            let read = bind!(transaction.statements.rows(OPEN), running; 0 1);
            let read = read.fetch_all(&mut *transaction.inner);
            read.await.map_err(at("reading what schedules started"))?
        }
    };
    seen.keep(&open);
    Ok(())
}

pub(super) async fn list(store: &Postgres, listing: &ScheduleListing) -> Result<SchedulePage> {
    const WHAT: &str = "listing schedules";
    let mut connection = Single::begin(store, WHAT).await?;
    let rows = store
        .statements
        .rows(LIST)
        .bind(listing.namespace.as_str())
        .bind(listing.place())
        .bind(i64::from(listing.limit) + 1)
        .fetch_all(&mut *connection);
    let rows = rows.await.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    schedule_page(listing, rows)
}
