//! What a test may see of the store that no caller of an engine does.

use std::time::Duration;

use super::Memory;
use super::schedule::ScheduleRow;
use super::tables::RunRow;
use crate::model::{Closed, Queue, Record, TaskKind, TaskStatus, TypeName};
use crate::store::{Then, Write};

/// The store at one instant.
pub(crate) struct Look {
    /// How much has been written and claimed so far: who sees the same number twice has missed
    /// nothing.
    pub(crate) changes: usize,
    /// How many tasks were begun so far.
    pub(crate) begun: usize,
    /// What could be claimed now.
    pub(crate) due: Vec<(Queue, TaskKind, TypeName)>,
    /// What went wrong with a workflow task.
    pub(crate) trouble: Option<String>,
    /// A workflow that failed, or whose time was over, and that nobody else has started.
    pub(crate) failed: Option<String>,
    /// Whether a schedule is to be looked at.
    pub(crate) fires: bool,
    /// Whether somebody works, or would have to.
    pub(crate) is_busy: bool,
    /// How long it takes until anything is due, if anything is.
    pub(crate) next_due: Option<Duration>,
}

impl Memory {
    pub(crate) fn look(&self) -> Look {
        let tables = self.locked();
        let is_due = |status, at| status == TaskStatus::Ready && at <= tables.now;
        let tasks = || tables.tasks.values();
        let to_come = tasks().filter(|task| task.status == TaskStatus::Ready);
        let to_come = to_come.flat_map(|task| [task.available_at, task.deadline()]);
        let looks = || tables.schedules.values().map(ScheduleRow::look_at);
        let to_come = to_come.chain(looks());
        let next_due = to_come.filter(|at| at.comes() && *at > tables.now).min();
        let fires = looks().any(|at| at <= tables.now);
        let due = tasks().filter(|task| is_due(task.status, task.available_at));
        let workflow_tasks = tasks().filter(|task| task.kind == TaskKind::Workflow);
        let mut trouble = workflow_tasks.filter_map(|task| {
            let error = task.last_error.as_deref().or(task.blocked)?;
            Some(format!("{} ({}): {error}", task.workflow, task.name))
        });
        Look {
            changes: tables.changes,
            begun: tables.begun,
            due: due
                .map(|task| (task.queue.clone(), task.kind, task.name.clone()))
                .collect(),
            trouble: trouble.next(),
            failed: tables.runs.values().find_map(failed),
            fires,
            is_busy: fires
                || tasks()
                    .any(|task| task.status == TaskStatus::Leased || task.deadline() <= tables.now),
            next_due: next_due.map(|due| due.since(tables.now)),
        }
    }

    /// All events of all runs, each run's in their order.
    pub(crate) fn events(&self) -> Vec<Record> {
        let tables = self.locked();
        let histories = tables.runs.values().map(|row| row.history.clone());
        histories.flatten().collect()
    }
}

fn failed(row: &RunRow) -> Option<String> {
    let run = row.run.parent.is_none().then_some(&row.run)?;
    let (Closed::Failed(failure) | Closed::TimedOut(failure)) = run.closed.as_ref()? else {
        return None;
    };
    Some(format!("{} ({}): {failure}", run.workflow, run.name))
}

/// How many tasks a write begins.
pub(super) fn begun_by(write: &Write) -> usize {
    match write {
        Write::Start(start) => usize::from(start.lease.is_some()),
        Write::Turn(turn) => {
            let eager = turn.activities.iter().filter(|new| new.lease.is_some());
            eager.count() + usize::from(matches!(turn.then, Then::Take(_)))
        }
        _ => 0,
    }
}
