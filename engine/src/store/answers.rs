//! From rows to what a call answers: the same for every dialect.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use coord_core::{Error, Result};

use super::rows::{
    ArchiveRow, AttemptRow, AttributeRow, MemoRow, OwnerRow, RecordRow, RunRow, TaskRow,
};
use super::{
    Buried, Claimed, ClaimedTask, Description, Lacking, Listing, Load, Loaded, LoadedRun, Overdue,
    Page, Ready, Renewal, RenewalItem, Renewed, Role, Roles, StillHeld, Swept, Term, Unattended,
};
use crate::model::{
    Namespace, OwnerId, Queue, Record, RunId, TaskId, TaskKind, TaskStatus, Timestamp,
};

/// When a lease of `ttl` that begins at `now` ends.
pub(super) fn until(now: i64, ttl: std::time::Duration) -> i64 {
    Timestamp::from_micros(now).plus(ttl).as_micros()
}

/// A place in a history.
#[derive(Clone, PartialEq, Eq, Hash, Debug, serde::Serialize)]
pub(super) struct Place {
    pub(super) run_id: String,
    pub(super) seq: i64,
}

/// The events that scheduled these activities.
pub(super) fn scheduled(tasks: &[TaskRow]) -> Vec<Place> {
    let places = tasks.iter().filter_map(|task| {
        Some(Place {
            run_id: task.run_id.clone(),
            seq: task.scheduled_seq?,
        })
    });
    places.collect()
}

fn by_place(events: Vec<RecordRow>) -> HashMap<(String, i64), RecordRow> {
    let placed = events
        .into_iter()
        .map(|event| ((event.run_id.clone(), event.seq), event));
    placed.collect()
}

fn event_of(
    events: &mut HashMap<(String, i64), RecordRow>,
    task: &TaskRow,
) -> Result<Option<Record>> {
    let Some(seq) = task.scheduled_seq else {
        return Ok(None);
    };
    let event = events.remove(&(task.run_id.clone(), seq)).ok_or_else(|| {
        let task = &task.task_id;
        Error::corrupt(format!("reading what scheduled {task}: it is not there"))
    });
    event?.record().map(Some)
}

/// When a claim looked, and when the next task will be due that it looked for in vain.
#[derive(Clone, Copy, Default)]
pub(super) struct Looked {
    pub(super) now: i64,
    pub(super) next_due: Option<i64>,
}

/// What a claim got.
pub(super) fn claimed(
    looked: Looked,
    mut tasks: Vec<TaskRow>,
    events: Vec<RecordRow>,
) -> Result<Claimed> {
    tasks.sort_by(|one, other| {
        let key = |task: &TaskRow| (task.priority, task.available_at);
        key(one)
            .cmp(&key(other))
            .then_with(|| one.task_id.cmp(&other.task_id))
    });
    let mut events = by_place(events);
    let tasks: Result<Vec<ClaimedTask>> = tasks
        .into_iter()
        .map(|task| {
            let scheduled = event_of(&mut events, &task)?;
            task.claimed(scheduled)
        })
        .collect();
    Ok(Claimed {
        now: Timestamp::from_micros(looked.now),
        tasks: tasks?,
        next_due: looked.next_due.map(Timestamp::from_micros),
        held_back: Vec::new(),
    })
}

/// The queues of those of `tasks` that may be claimed, with the earliest instant of each.
pub(super) fn ready<'a>(tasks: impl Iterator<Item = &'a TaskRow>) -> Result<Vec<Ready>> {
    let ready = tasks.filter(|task| task.is(TaskStatus::Ready));
    gathered(ready.map(|task| ReadyTask {
        kind: kind_of(&task.task_type),
        namespace: &task.namespace,
        queue: &task.queue,
        due: task.available_at,
        id: Cow::Borrowed(task.task_id.as_str()),
    }))
}

/// A task that may be claimed.
pub(super) struct ReadyTask<'a> {
    pub(super) kind: TaskKind,
    pub(super) namespace: &'a str,
    pub(super) queue: &'a str,
    pub(super) due: i64,
    pub(super) id: Cow<'a, str>,
}

/// The queues of `tasks`, each once.
pub(super) fn gathered<'a>(tasks: impl IntoIterator<Item = ReadyTask<'a>>) -> Result<Vec<Ready>> {
    let mut ready: Vec<Ready> = Vec::new();
    for task in tasks {
        let due = Timestamp::from_micros(task.due);
        let id = TaskId::new(task.id).map_err(corrupt)?;
        let is_known = |known: &&mut Ready| {
            known.kind == task.kind
                && known.queue.as_str() == task.queue
                && known.namespace.as_str() == task.namespace
        };
        if let Some(known) = ready.iter_mut().find(is_known) {
            known.due = known.due.min(due);
            known.tasks.push(id);
            continue;
        }
        ready.push(Ready {
            namespace: Namespace::new(task.namespace).map_err(corrupt)?,
            queue: Queue::new(task.queue).map_err(corrupt)?,
            kind: task.kind,
            due,
            tasks: vec![id],
        });
    }
    Ok(ready)
}

pub(super) fn kind_of(task_type: &str) -> TaskKind {
    if task_type == TaskKind::Activity.as_str() {
        TaskKind::Activity
    } else {
        TaskKind::Workflow
    }
}

/// Activities that have exceeded a time.
pub(super) fn overdue(
    now: i64,
    tasks: Vec<TaskRow>,
    events: Vec<RecordRow>,
) -> Result<Vec<Overdue>> {
    let mut events = by_place(events);
    let overdue = tasks.into_iter().map(|task| {
        let scheduled = event_of(&mut events, &task)?.ok_or_else(|| {
            Error::corrupt(format!("reading {}: nothing scheduled it", task.task_id))
        });
        task.overdue(scheduled?, now)
    });
    overdue.collect()
}

/// A lease to renew.
#[derive(Debug, serde::Serialize)]
pub(super) struct RenewalRow {
    pub(super) task_id: String,
    pub(super) epoch: i64,
    /// 1 for a heartbeat.
    pub(super) beat: i16,
    pub(super) codec: Option<String>,
    #[serde(serialize_with = "super::rows::hex")]
    pub(super) payload: Option<Vec<u8>>,
}

/// The leases to renew, in the order of their ids.
pub(super) fn renewals(renewal: &Renewal) -> Vec<RenewalRow> {
    let row = |item: &RenewalItem| {
        let payload = item.beat.as_ref().and_then(Option::as_ref);
        RenewalRow {
            task_id: item.task.to_string(),
            epoch: super::rows::signed(item.epoch),
            beat: i16::from(item.beat.is_some()),
            codec: payload.map(|payload| payload.codec.to_string()),
            payload: payload.map(|payload| payload.bytes.to_vec()),
        }
    };
    let mut rows: Vec<_> = renewal.items.iter().map(row).collect();
    rows.sort_by(|one, other| one.task_id.cmp(&other.task_id));
    rows
}

/// A lease that was renewed.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct RenewedRow {
    pub(super) task_id: String,
    pub(super) lease_epoch: i64,
    pub(super) lease_expires_at: i64,
    pub(super) inbox_seq: i64,
}

/// What became of the leases.
pub(super) fn renewed(now: i64, renewal: &Renewal, rows: Vec<RenewedRow>) -> Renewed {
    let held: HashMap<_, _> = rows
        .into_iter()
        .map(|row| ((row.task_id.clone(), row.lease_epoch), row))
        .collect();
    let items = renewal.items.iter().map(|item| {
        let row = held.get(&(item.task.to_string(), super::rows::signed(item.epoch)))?;
        Some(StillHeld {
            lease_expires_at: Timestamp::from_micros(row.lease_expires_at),
            inbox_seq: u64::try_from(row.inbox_seq).unwrap_or(0),
        })
    });
    Renewed {
        now: Timestamp::from_micros(now),
        items: items.collect(),
    }
}

/// A task that was taken back.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct SweptRow {
    pub(super) task_id: String,
    pub(super) task_type: String,
    pub(super) namespace: String,
    pub(super) queue: String,
    pub(super) status: String,
    /// 1 when its owner was gone.
    pub(super) is_gone: i64,
}

/// What was taken back.
pub(super) fn swept(rows: Vec<SweptRow>) -> Result<Swept> {
    let mut swept = Swept::default();
    for row in rows {
        if row.status == TaskStatus::Blocked.as_str() {
            swept
                .poisoned
                .push(TaskId::new(row.task_id).map_err(corrupt)?);
            continue;
        }
        swept.ready += 1;
        swept.of_living += u64::from(row.is_gone == 0);
        let kind = kind_of(&row.task_type);
        let namespace = Namespace::new(row.namespace).map_err(corrupt)?;
        let queue = (namespace, Queue::new(row.queue).map_err(corrupt)?, kind);
        if !swept.queues.contains(&queue) {
            swept.queues.push(queue);
        }
    }
    Ok(swept)
}

fn corrupt(error: Error) -> Error {
    Error::corrupt("reading an id").with_source(error)
}

/// Runs to load.
#[derive(Debug, serde::Serialize)]
pub(super) struct Wanted {
    pub(super) run_id: String,
    /// The first event that is not wanted any more lies after `until`.
    pub(super) after: i64,
    pub(super) until: i64,
}

pub(super) fn wanted(loads: &[Load]) -> Vec<Wanted> {
    let rows = loads.iter().map(|load| {
        let after = super::rows::signed(load.after);
        Wanted {
            run_id: load.run.to_string(),
            after,
            // Numbers are dense.
            until: after.saturating_add(i64::from(load.limit)),
        }
    });
    rows.collect()
}

/// Runs with their history and messages; the records of a run in their order.
pub(super) fn loaded(
    now: i64,
    wanted: &[Load],
    runs: Vec<RunRow>,
    events: Vec<RecordRow>,
    inbox: Vec<RecordRow>,
) -> Result<Loaded> {
    let (mut events, mut inbox) = (by_run(events)?, by_run(inbox)?);
    let runs: HashMap<_, _> = runs
        .into_iter()
        .map(|row| (row.run_id.clone(), row))
        .collect();
    let runs = wanted.iter().map(|load| {
        let Some(row) = runs.get(load.run.as_str()) else {
            return Ok(None);
        };
        Ok(Some(LoadedRun {
            run: row.clone().run()?,
            events: events.remove(load.run.as_str()).unwrap_or_default(),
            inbox: inbox.remove(load.run.as_str()).unwrap_or_default(),
        }))
    });
    Ok(Loaded {
        now: Timestamp::from_micros(now),
        runs: runs.collect::<Result<_>>()?,
    })
}

fn by_run(rows: Vec<RecordRow>) -> Result<HashMap<String, Vec<Record>>> {
    let mut records: HashMap<String, Vec<Record>> = HashMap::new();
    for row in rows {
        let run = row.run_id.clone();
        records.entry(run).or_default().push(row.record()?);
    }
    Ok(records)
}

/// As many attempts as a description shows.
pub(super) const ATTEMPTS: i64 = 100;

pub(super) fn description(
    now: i64,
    run: RunRow,
    (tasks, owners, attempts): (Vec<TaskRow>, Vec<OwnerRow>, Vec<AttemptRow>),
    (attributes, memo, archived): (Vec<AttributeRow>, Option<MemoRow>, Option<ArchiveRow>),
) -> Result<Description> {
    Ok(Description {
        now: Timestamp::from_micros(now),
        run: run.run()?,
        tasks: tasks
            .into_iter()
            .map(TaskRow::open)
            .collect::<Result<_>>()?,
        owners: owners
            .into_iter()
            .map(OwnerRow::owner)
            .collect::<Result<_>>()?,
        attempts: attempts
            .into_iter()
            .map(AttemptRow::attempt)
            .collect::<Result<_>>()?,
        attributes: AttributeRow::attributes(attributes)?,
        memo: MemoRow::memo(memo)?,
        archived: archived.map(ArchiveRow::archived),
    })
}

/// A page from rows, of which one more was read than are wanted.
pub(super) fn page(listing: &Listing, rows: Vec<RunRow>) -> Result<Page> {
    let has_more = rows.len() > listing.limit as usize;
    let runs = rows.into_iter().take(listing.limit as usize);
    let runs: Vec<_> = runs.map(RunRow::run).collect::<Result<_>>()?;
    let last = runs.last().filter(|_| has_more);
    let next = last.map(|run| (run.started_at, run.run.clone()));
    Ok(Page { runs, next })
}

/// How many rows were counted.
pub(super) fn count(count: i64) -> Result<u64> {
    u64::try_from(count).map_err(|_| Error::corrupt("counting runs: less than none"))
}

/// A row of `engine_roles`.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct TermRow {
    pub(super) term: i64,
    pub(super) acquired_at: i64,
    pub(super) expires_at: i64,
    pub(super) now: i64,
}

pub(super) fn term(role: Role, holder: &OwnerId, row: &TermRow) -> Term {
    Term {
        role,
        holder: holder.clone(),
        number: u64::try_from(row.term).unwrap_or(0),
        acquired_at: Timestamp::from_micros(row.acquired_at),
        expires_at: Timestamp::from_micros(row.expires_at),
        now: Timestamp::from_micros(row.now),
    }
}

/// The clock, whether there are schedules, and a role, if any has a term.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct RoleRow {
    pub(super) now: i64,
    pub(super) has_schedules: i64,
    pub(super) role: Option<String>,
    pub(super) holder: Option<String>,
    pub(super) term: Option<i64>,
    pub(super) acquired_at: Option<i64>,
    pub(super) expires_at: Option<i64>,
}

/// The roles of the store that keeps to `scope`.
pub(super) fn roles(rows: Vec<RoleRow>, scope: Option<&Namespace>) -> Result<Roles> {
    let first = rows
        .first()
        .ok_or_else(|| Error::corrupt("reading the roles: no clock"))?;
    let mut roles = Roles {
        now: Timestamp::from_micros(first.now),
        terms: Vec::new(),
        has_schedules: first.has_schedules != 0,
    };
    for row in rows {
        let named = |role: &Role| row.role.as_ref() == Some(&role.key(scope));
        // Those of another scope, and what only another version knows.
        let (Some(role), Some(holder)) = (Role::ALL.into_iter().find(named), row.holder) else {
            continue;
        };
        let held = TermRow {
            term: row.term.unwrap_or(0),
            acquired_at: row.acquired_at.unwrap_or(0),
            expires_at: row.expires_at.unwrap_or(0),
            now: row.now,
        };
        let holder = OwnerId::new(holder).map_err(corrupt)?;
        roles.terms.push(term(role, &holder, &held));
    }
    Ok(roles)
}

/// An open run of a page.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct LookedAtRow {
    pub(super) run_id: String,
    pub(super) started_at: i64,
    /// 1 when it lacks its workflow task, 2 when it waits for an activity and has no task.
    pub(super) lacks: i64,
}

/// What a page of open runs has, and where the next one begins.
pub(super) fn unattended(page: &Unattended, rows: &[LookedAtRow]) -> Result<Lacking> {
    let is_full = rows.len() >= page.limit as usize;
    let last = rows.last().filter(|_| is_full);
    let run_id = |row: &LookedAtRow| RunId::try_from(row.run_id.as_str()).map_err(corrupt);
    let place = |row: &LookedAtRow| {
        let at = Timestamp::from_micros(row.started_at);
        run_id(row).map(|run| (at, run))
    };
    let next = last.map(place).transpose()?;
    let lacking = |what| rows.iter().filter(move |row| row.lacks == what).map(run_id);
    Ok(Lacking {
        runs: lacking(1).collect::<Result<_>>()?,
        of_activities: lacking(2).collect::<Result<_>>()?,
        next,
    })
}

/// Those who were declared dead, each with how many microseconds it was silent.
pub(super) fn buried(rows: Vec<(String, i64)>) -> Result<Vec<Buried>> {
    let buried = rows.into_iter().map(|(id, silent_us)| {
        Ok(Buried {
            id: OwnerId::new(id).map_err(corrupt)?,
            silent_for: Duration::from_micros(u64::try_from(silent_us).unwrap_or(0)),
        })
    });
    buried.collect()
}

/// A span as a statement adds it to an instant.
pub(super) fn span(ttl: std::time::Duration) -> i64 {
    crate::model::micros(ttl)
}
