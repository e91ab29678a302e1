//! Why a run does not move.

mod held;

use std::collections::BTreeMap;
use std::time::Duration;

use coord_core::Result;

use crate::engine::Core;
use crate::model::{Event, OpKind, RunId, TaskKind, Timestamp, Wait};
use crate::quotas::Quotas;
use crate::recovery::Recovery;
use crate::refusals::{Grounds, Refusal, Waits};
use crate::store::{
    Backlogs, Census, Description, Load, OpenTask, Store, Target, WorkerFilter, WorkerRecord,
};
use crate::transition::{Op, RunState, opens};

/// How many events are read at a time.
const PAGE: u32 = 1000;
/// A longer history is not read for this: what it says of its waits is then their sort alone.
const MOST_EVENTS: u64 = 20_000;
/// Where a run stands, and what holds it up.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub state: Liveness,
    /// Why nobody has taken its task, when that may be claimed.
    pub refusal: Option<Refusal>,
    /// The row that it waits for.
    pub row: Row,
    /// Since when.
    pub since: Timestamp,
    /// How long that is.
    pub age: Duration,
    /// When it ends by itself, if it does: a timer, a retry, a lease.
    pub until: Option<Timestamp>,
    /// What holds it up, for people.
    pub message: String,
    /// What to do about it.
    pub action: String,
}

/// A row of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The table.
    pub table: &'static str,
    /// Its key there.
    pub key: String,
}

/// Where a run stands. A timer has no task here: its instant is that of the workflow task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Liveness {
    /// It has ended.
    Closed,
    /// Its code went another way than its history.
    WorkflowReplayBlocked,
    /// It took its processes down each time.
    WorkflowPoisoned,
    /// It was imported, and nobody has resumed it.
    WorkflowImported,
    /// A worker has its workflow task.
    WorkflowTaskLeased,
    /// Its workflow task waits for a worker.
    WorkflowTaskReady,
    /// Its last turn failed, and is tried again.
    WorkflowTaskFailed,
    /// It waits for an instant.
    TimerScheduled,
    /// A worker has the activity for which it waits.
    ActivityTaskLeased,
    /// The activity for which it waits waits for a worker.
    ActivityTaskReady,
    /// An attempt of the activity failed, and another one follows.
    ActivityRetryScheduled,
    /// It waits for an activity that has no task: something removed it.
    ActivityRunningWithoutTask,
    /// It waits for a signal or an update.
    WaitingForSignal,
    /// It waits for a condition of its own state.
    WaitingForCondition,
    /// It waits for a child workflow.
    WaitingForChild,
    /// It has no task and waits for nothing: something removed its task.
    RepairNeeded,
}

impl Liveness {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::WorkflowReplayBlocked => "workflow_replay_blocked",
            Self::WorkflowPoisoned => "workflow_poisoned",
            Self::WorkflowImported => "workflow_imported",
            Self::WorkflowTaskLeased => "workflow_task_leased",
            Self::WorkflowTaskReady => "workflow_task_ready",
            Self::WorkflowTaskFailed => "workflow_task_failed",
            Self::TimerScheduled => "timer_scheduled",
            Self::ActivityTaskLeased => "activity_task_leased",
            Self::ActivityTaskReady => "activity_task_ready",
            Self::ActivityRetryScheduled => "activity_retry_scheduled",
            Self::ActivityRunningWithoutTask => "activity_running_without_task",
            Self::WaitingForSignal => "waiting_for_signal",
            Self::WaitingForCondition => "waiting_for_condition",
            Self::WaitingForChild => "waiting_for_child",
            Self::RepairNeeded => "repair_needed",
        }
    }
}

/// An operation without an outcome, and since when.
struct Open {
    step: u64,
    op: Op,
    since: Timestamp,
}

/// The open operations of a run, in their order; none when its history is too long to be read for
/// that.
async fn open_operations(store: &dyn Store, run: &RunId) -> Result<Vec<Open>> {
    let (mut state, mut opened, mut after) = (RunState::default(), BTreeMap::new(), 0);
    loop {
        let wanted = Load {
            run: run.clone(),
            after,
            limit: PAGE,
        };
        let loaded = store.load(&[wanted]).await?.runs.pop().flatten();
        let page = loaded.map(|run| run.events).unwrap_or_default();
        let is_last = page.len() < PAGE as usize;
        for record in page {
            let event = Event::from_record(record)?;
            after = event.seq;
            if let (Some(step), Some(_)) = (event.step, opens(&event.kind)) {
                opened.entry(step).or_insert(event.at);
            }
            state.apply(&event)?;
        }
        if is_last {
            break;
        }
        if after >= MOST_EVENTS {
            return Ok(Vec::new());
        }
    }
    let open = state.open().map(|(step, op)| Open {
        step,
        op: op.clone(),
        since: opened.get(&step).copied().unwrap_or_else(|| state.at()),
    });
    Ok(open.collect())
}

/// What is said of a run, without its age.
struct Said {
    state: Liveness,
    refusal: Option<Refusal>,
    row: Row,
    since: Timestamp,
    until: Option<Timestamp>,
    message: String,
    action: String,
}

/// What was read beside the run.
struct Seen<'a> {
    recovery: &'a Recovery,
    census: &'a Census,
    workers: &'a [WorkerRecord],
    quotas: &'a Quotas,
    backlogs: &'a Backlogs,
}

/// Why the run does not move that is meant; `None` when there is no such run.
pub(crate) async fn of(core: &Core, target: &Target) -> Result<Option<Explanation>> {
    let (store, quotas) = (&*core.store, &core.quotas);
    let Some(description) = store.describe(target).await? else {
        return Ok(None);
    };
    let run = &description.run;
    let waits = run.status.is_open() && run.wait.is_some();
    let open = if waits {
        open_operations(store, &run.run).await?
    } else {
        Vec::new()
    };
    let census = store.census().await?;
    let filter = WorkerFilter {
        namespace: Some(run.namespace.clone()),
        queue: None,
    };
    let workers = store.workers(&filter).await?;
    let is_bounded = |task: &OpenTask| quotas.bound(&task.queue, task.kind);
    let backlogs = if description.tasks.iter().any(is_bounded) {
        store.backlogs().await?
    } else {
        Backlogs::none(census.now)
    };
    let seen = Seen {
        recovery: &core.recovery,
        census: &census,
        workers: &workers,
        quotas,
        backlogs: &backlogs,
    };
    Ok(Some(explain(&description, &open, &seen)))
}

fn explain(it: &Description, open: &[Open], seen: &Seen<'_>) -> Explanation {
    let is_turn = |task: &&OpenTask| task.kind == TaskKind::Workflow;
    let turn = it.tasks.iter().find(is_turn);
    let said = closed(it)
        .or_else(|| turn.and_then(|task| of_turn(it, task, open, seen)))
        .unwrap_or_else(|| of_wait(it, open, seen));
    Explanation {
        run: it.run.run.clone(),
        state: said.state,
        refusal: said.refusal,
        row: said.row,
        since: said.since,
        age: it.now.since(said.since),
        until: said.until,
        message: said.message,
        action: said.action,
    }
}

fn run_row(it: &Description) -> Row {
    Row {
        table: "workflow_runs",
        key: it.run.run.to_string(),
    }
}

fn task_row(task: &OpenTask) -> Row {
    Row {
        table: "workflow_tasks",
        key: task.task.to_string(),
    }
}

fn closed(it: &Description) -> Option<Said> {
    if it.run.status.is_open() {
        return None;
    }
    let how = it
        .run
        .closed
        .as_ref()
        .map_or("closed", |closed| closed.reason());
    Some(Said {
        state: Liveness::Closed,
        refusal: None,
        row: run_row(it),
        since: it.run.closed_at.unwrap_or(it.now),
        until: None,
        message: format!("it has ended: {how}"),
        action: "nothing: what is closed stays so; start it again under this id to run it again"
            .to_owned(),
    })
}

/// What its workflow task says; nothing when that only waits for an instant beside something else.
fn of_turn(it: &Description, task: &OpenTask, open: &[Open], seen: &Seen<'_>) -> Option<Said> {
    if task.status == "blocked" {
        return Some(set_aside(task));
    }
    if task.status == "leased" {
        return Some(held::said(it, task, seen, Liveness::WorkflowTaskLeased));
    }
    let error = task.last_error.as_deref();
    if let Some(error) = error {
        return Some(Said {
            state: Liveness::WorkflowTaskFailed,
            refusal: None,
            row: task_row(task),
            since: task.available_at.min(it.now),
            until: Some(task.available_at),
            message: format!("its last turn failed ({} so far): {error}", task.attempt),
            action: "mend its code and deploy it: the turn is tried again by itself".to_owned(),
        });
    }
    if task.available_at <= it.now {
        return Some(ready(it, task, seen, Liveness::WorkflowTaskReady));
    }
    let oldest = open.first().map(|open| open.op.kind);
    let is_timer = it.run.wait == Some(Wait::Timer) || oldest == Some(OpKind::Timer);
    // A delayed start waits for nothing else.
    (is_timer || it.run.wait.is_none()).then(|| Said {
        state: Liveness::TimerScheduled,
        refusal: None,
        row: task_row(task),
        since: open.first().map_or(it.run.started_at, |open| open.since),
        until: Some(task.available_at),
        message: "it waits for an instant".to_owned(),
        action: "wait for it: the workflow asked for that".to_owned(),
    })
}

fn set_aside(task: &OpenTask) -> Said {
    let (state, what, action) = match task.blocked.as_deref() {
        Some("poison") => (
            Liveness::WorkflowPoisoned,
            "each process that took it died",
            "find out what it does to its processes, mend that, and resume the run",
        ),
        Some("imported") => (
            Liveness::WorkflowImported,
            "it was imported and nobody has resumed it",
            "resume the run, once it no longer goes on where it came from",
        ),
        _ => (
            Liveness::WorkflowReplayBlocked,
            "its code went another way than its history",
            "deploy code that goes the way of its history (a version marker keeps both ways), and resume the run",
        ),
    };
    let error = task.last_error.as_deref().unwrap_or("no more is known");
    Said {
        state,
        refusal: None,
        row: task_row(task),
        since: task.available_at,
        until: None,
        message: format!("it is set aside, since {what}: {error}"),
        action: action.to_owned(),
    }
}

fn ready(it: &Description, task: &OpenTask, seen: &Seen<'_>, state: Liveness) -> Said {
    let grounds = Grounds {
        workers: seen.workers,
        quotas: seen.quotas,
        backlogs: seen.backlogs,
    };
    let refusal = grounds.judge(&Waits {
        namespace: &it.run.namespace,
        queue: &task.queue,
        kind: task.kind,
        name: &task.name,
        build: it.run.build.as_ref(),
        fingerprint: it
            .run
            .fingerprint
            .as_ref()
            .filter(|_| task.kind == TaskKind::Workflow),
    });
    let (name, queue, kind) = (&task.name, &task.queue, task.kind.as_str());
    Said {
        state,
        refusal: Some(refusal),
        row: task_row(task),
        since: task.available_at,
        until: None,
        message: format!(
            "no worker has taken the {kind} {name} of the queue {queue} yet: {}",
            refusal.why()
        ),
        action: refusal.remedy().to_owned(),
    }
}

/// What it waits for.
fn of_wait(it: &Description, open: &[Open], seen: &Seen<'_>) -> Said {
    let oldest = open.first();
    let since = oldest.map_or(it.run.started_at, |open| open.since);
    let due = oldest.map(|open| open.op.due_at);
    let until = due.filter(|due| due.comes());
    let name = oldest.and_then(|open| open.op.name.as_ref());
    let name = name.map_or_else(String::new, |name| format!(" {name}"));
    let waits = |state, message: String, action: &str| Said {
        state,
        refusal: None,
        row: run_row(it),
        since,
        until,
        message,
        action: action.to_owned(),
    };
    match it.run.wait {
        Some(Wait::Activity) => of_activity(it, oldest, seen),
        Some(Wait::Signal) => waits(
            Liveness::WaitingForSignal,
            format!("it waits for the signal or update{name}"),
            "send it, if nobody else will",
        ),
        Some(Wait::Condition) => waits(
            Liveness::WaitingForCondition,
            format!("it waits for the condition{name} of its own state"),
            "send it what changes its state, such as a signal or an update",
        ),
        Some(Wait::Child) => Said {
            row: oldest.and_then(|open| open.op.child.as_ref()).map_or_else(
                || run_row(it),
                |(_, run)| Row {
                    table: "workflow_runs",
                    key: run.to_string(),
                },
            ),
            ..waits(
                Liveness::WaitingForChild,
                format!("it waits for a child workflow{name}"),
                "explain that child",
            )
        },
        Some(Wait::Timer) | None => waits(
            Liveness::RepairNeeded,
            "it has no task and waits for nothing: something removed its task".to_owned(),
            "wait half a minute: a process that may take the recovery role gives it a new one; nothing of the engine removes one alone",
        ),
    }
}

fn of_activity(it: &Description, oldest: Option<&Open>, seen: &Seen<'_>) -> Said {
    let activities = || {
        it.tasks
            .iter()
            .filter(|task| task.kind == TaskKind::Activity)
    };
    let wanted = oldest.map(|open| crate::model::TaskId::of(&it.run.run, open.step));
    let of_oldest = activities().find(|task| Some(&task.task) == wanted.as_ref());
    let Some(task) = of_oldest.or_else(|| activities().next()) else {
        return Said {
            state: Liveness::ActivityRunningWithoutTask,
            refusal: None,
            row: run_row(it),
            since: oldest.map_or(it.run.started_at, |open| open.since),
            until: None,
            message: "it waits for an activity that has no task: something removed it".to_owned(),
            action:
                "wait half a minute: a process that may take the recovery role gives it a new one; nothing of the engine removes such a task alone"
                    .to_owned(),
        };
    };
    if task.status == "blocked" {
        return set_aside(task);
    }
    if task.status == "leased" {
        return held::said(it, task, seen, Liveness::ActivityTaskLeased);
    }
    let failed = task.last_error.as_deref().filter(|_| task.attempt > 0);
    let Some(error) = failed else {
        return ready(it, task, seen, Liveness::ActivityTaskReady);
    };
    Said {
        state: Liveness::ActivityRetryScheduled,
        refusal: None,
        row: task_row(task),
        since: it
            .attempts
            .first()
            .map_or(task.available_at, |last| last.ended_at),
        until: Some(task.available_at),
        message: format!("attempt {} of {} failed: {error}", task.attempt, task.name),
        action: "see to what it failed by: the next attempt follows by itself".to_owned(),
    }
}
