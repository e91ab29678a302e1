//! What its owner is done with, or gives back, and what goes on again.

use crate::memory::tables::{RunRow, Tables, TaskRow};
use crate::model::{RunId, TaskId, TaskStatus, shown};
use crate::store::{LOST_EPOCHS, Outcome, PutBack, PutBackHow, Restore, Settle, Target};

impl Tables {
    pub(super) fn settle(&mut self, settle: &Settle) -> Outcome {
        if !self.holds(&settle.held) {
            return Outcome::Lost;
        }
        self.tasks.remove(&settle.held.task);
        self.attempts.extend(settle.attempt.clone());
        self.push_if_open(&settle.run, settle.record.clone());
        self.done(&settle.run)
    }

    pub(super) fn put_back(&mut self, put_back: &PutBack) -> Outcome {
        if !self.holds(&put_back.held) {
            return Outcome::Lost;
        }
        let now = self.now;
        let task = self.tasks.get_mut(&put_back.held.task).expect("it is held");
        match &put_back.how {
            PutBackHow::Untouched => {
                task.attempt -= 1;
                task.free(TaskStatus::Ready, now);
            }
            PutBackHow::Retry {
                due,
                error,
                attempt,
            } => {
                task.free(TaskStatus::Ready, due.resolve(now));
                task.last_error = Some(shown(error));
                self.attempts.extend(attempt.clone());
            }
            PutBackHow::Blocked { reason, error } => {
                task.free(TaskStatus::Blocked, now);
                task.blocked = Some(reason.as_str());
                task.last_error = Some(shown(error));
            }
        }
        let task = task.clone();
        self.tell(&task);
        self.done(&task.run)
    }

    pub(super) fn resume(&mut self, target: &Target) -> Outcome {
        let Some(run) = self.find(target) else {
            return Outcome::NotFound;
        };
        let blocked = self.tasks.values_mut();
        let blocked = blocked.filter(|task| task.run == run && task.status == TaskStatus::Blocked);
        let mut resumed = Vec::new();
        for task in blocked {
            task.status = TaskStatus::Ready;
            task.available_at = self.now;
            (task.attempt, task.recoveries, task.blocked) = (0, 0, None);
            resumed.push(task.clone());
        }
        if resumed.is_empty() {
            return Outcome::NotFound;
        }
        for task in &resumed {
            self.tell(task);
        }
        self.done(&run)
    }

    pub(super) fn repair(&mut self, run: &RunId) -> Outcome {
        let row = self.runs.get(run).filter(|row| row.run.closed_at.is_none());
        let Some(row) = row.filter(|row| self.lacks_task(row)) else {
            return Outcome::NotFound;
        };
        let mut task = TaskRow::workflow(row, self.now);
        task.epoch += LOST_EPOCHS;
        self.put(task);
        self.done(run)
    }

    pub(super) fn restore(&mut self, restore: &Restore) -> Outcome {
        let turn = self.tasks.get(&TaskId::of(&restore.run, 0));
        let is_free = turn.is_none_or(|task| task.status == TaskStatus::Ready);
        let stands = |row: &&RunRow| {
            row.run.closed_at.is_none()
                && row.history.len() as u64 == restore.history_length
                && row.inbox.is_empty()
                && is_free
        };
        let Some(row) = self.runs.get(&restore.run).filter(stands) else {
            return Outcome::NotFound;
        };
        let mut task = TaskRow::activity(row, &restore.activity, self.now);
        if self.tasks.contains_key(&task.id) {
            return Outcome::NotFound;
        }
        task.epoch += LOST_EPOCHS;
        task.attempt = restore.attempts;
        self.put(task);
        self.done(&restore.run)
    }
}
