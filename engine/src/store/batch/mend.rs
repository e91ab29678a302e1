//! Runs that stand: those that were set aside, and those that lost their task.

use coord_core::Result;

use super::super::rows::{RunRow, TaskRow, signed};
use super::super::{LOST_EPOCHS, Outcome, Restore, Target};
use super::state::State;
use crate::model::{RunStatus, TaskStatus, Wait};

impl State {
    /// Makes the tasks of a run that are set aside ready.
    pub(super) fn resume(&mut self, target: &Target) -> Result<Outcome> {
        let Some(run) = self.find(target) else {
            return Ok(Outcome::NotFound);
        };
        let is_meant = |task: &&TaskRow| task.run_id == run && task.is(TaskStatus::Blocked);
        let blocked: Vec<_> = self.tasks.values().filter(is_meant).cloned().collect();
        if blocked.is_empty() {
            return Ok(Outcome::NotFound);
        }
        for mut task in blocked {
            TaskStatus::Ready.as_str().clone_into(&mut task.status);
            task.available_at = self.now;
            (task.attempt_count, task.recover_count) = (0, 0);
            task.blocked_reason = None;
            self.insert_task(task);
        }
        self.done(&run)
    }

    /// Gives an open run the workflow task that nothing else stands for.
    pub(super) fn repair(&mut self, run: &str) -> Result<Outcome> {
        let now = self.now;
        let has_task = self.tasks.contains_key(&format!("{run}:0"));
        let row = self.runs.get(run).filter(|row| row.is_open() && !has_task);
        let Some(row) = row else {
            return Ok(Outcome::NotFound);
        };
        let is = |status: RunStatus| row.status == status.as_str();
        let lacks = is(RunStatus::Pending)
            || is(RunStatus::Running)
            || row.wait_reason.as_deref() == Some(Wait::Timer.as_str())
            || row.inbox_seq > row.inbox_drained;
        if !lacks {
            return Ok(Outcome::NotFound);
        }
        let mut task = TaskRow::workflow(row, now, now);
        task.lease_epoch += signed(LOST_EPOCHS);
        self.insert_task(task);
        self.done(run)
    }

    /// Gives a run the task of an activity that nothing else stands for.
    pub(super) fn restore(&mut self, restore: &Restore) -> Result<Outcome> {
        let (run, now) = (restore.run.as_str(), self.now);
        let turn = self.tasks.get(&format!("{run}:0"));
        let is_under_way = turn.is_some_and(|task| !task.is(TaskStatus::Ready));
        let stands = |row: &&RunRow| {
            row.is_open()
                && row.history_length == signed(restore.history_length)
                && row.inbox_seq <= row.inbox_drained
                && !is_under_way
        };
        let Some(row) = self.runs.get(run).filter(stands) else {
            return Ok(Outcome::NotFound);
        };
        let mut task = TaskRow::activity(row, &restore.activity, now);
        if self.tasks.contains_key(&task.task_id) {
            return Ok(Outcome::NotFound);
        }
        task.lease_epoch += signed(LOST_EPOCHS);
        task.attempt_count = i32::try_from(restore.attempts).unwrap_or(i32::MAX);
        task.deadline_at = task.deadline();
        self.insert_task(task);
        self.done(run)
    }
}
