//! What writes do to the rows: no I/O, no clock.

use std::num::NonZeroU32;

use coord_core::{Error, Result};

use super::super::rows::{AttemptRow, AttributeRow, MemoRow, RunRow, TaskRow, signed};
use super::super::{
    Append, Closing, CommandKind, Deliver, Lease, OnDuplicate, Outcome, PutBack, PutBackHow,
    Settle, Start, Target, Terminate, Then, Turn, Write,
};
use super::Changes;
use super::state::{State, command};
use crate::model::{
    Attempt, Closed, Due, Marks, Record, RequestId, RunId, RunStatus, TaskStatus, Timestamp, Wait,
    shown,
};

/// Decides `writes` in their order.
///
/// # Errors
/// `Invalid` for a value without a stored form; `Corrupt` for rows that do not belong together.
pub(super) fn decide(mut state: State, writes: &[Write]) -> Result<(Vec<Outcome>, Changes)> {
    let outcomes: Result<_> = writes.iter().map(|write| state.decide(write)).collect();
    Ok((outcomes?, state.into_changes()))
}

impl State {
    fn decide(&mut self, write: &Write) -> Result<Outcome> {
        match write {
            Write::Start(start) => self.start(start),
            Write::Deliver(deliver) => self.deliver(deliver),
            Write::Append(append) => self.append(append),
            Write::Turn(turn) => self.turn(turn),
            Write::Settle(settle) => self.settle(settle),
            Write::PutBack(put_back) => self.put_back(put_back),
            Write::Terminate(terminate) => self.terminate(terminate),
            Write::Resume(target) => self.resume(target),
            Write::Repair(run) => self.repair(run.as_str()),
            Write::Restore(restore) => self.restore(restore),
            Write::Schedule(schedule) => self.schedule(schedule),
            Write::Unschedule(key) => Ok(self.unschedule(key)),
        }
    }

    pub(super) fn done(&self, run: &str) -> Result<Outcome> {
        Ok(Outcome::Done {
            run: run_id(run)?,
            inbox_seq: self.inbox_seq(run),
        })
    }

    fn due(&self, due: Due) -> i64 {
        due.resolve(Timestamp::from_micros(self.now)).as_micros()
    }

    pub(super) fn start(&mut self, start: &Start) -> Result<Outcome> {
        let instance = (start.namespace.to_string(), start.workflow.to_string());
        let is_ours =
            |row: &RunRow| (&row.namespace, &row.workflow_id) == (&instance.0, &instance.1);
        if self.runs.get(start.run.as_str()).is_some_and(is_ours) {
            let run = start.run.clone();
            return Ok(Outcome::Started { run, created: true });
        }
        if self.runs.contains_key(start.run.as_str()) {
            // Made elsewhere under the same id: it is imported a second time.
            let current = start.run.clone();
            return Ok(Outcome::Refused { current });
        }
        let command = State::start_command(start);
        let before = command.as_ref().and_then(|it| self.carried_out(it));
        if let Some(run) = before.and_then(|run| run_id(run).ok()) {
            return Ok(Outcome::Started { run, created: true });
        }
        let current = self.current(&instance).and_then(|run| run_id(run).ok());
        Ok(match (current, start.on_duplicate) {
            (None, _) => {
                self.begin(start, (0, 0))?;
                if let Some(command) = command {
                    self.carry_out(command);
                }
                let run = start.run.clone();
                Outcome::Started { run, created: true }
            }
            (Some(current), OnDuplicate::Reject) => Outcome::Refused { current },
            (Some(run), OnDuplicate::ReturnExisting) => Outcome::Started {
                run,
                created: false,
            },
        })
    }

    /// A new run, whose inbox goes on from the places `inbox`: given and taken.
    fn begin(&mut self, start: &Start, inbox: (i64, i64)) -> Result<()> {
        let instance = (start.namespace.to_string(), start.workflow.to_string());
        self.set_current(instance, start.run.to_string());
        let row = RunRow::new(start, self.now, inbox);
        let has_news = inbox.0 > inbox.1;
        let due = if has_news { Due::Now } else { start.due };
        let mut task = TaskRow::workflow(&row, self.due(due), self.now);
        if let Some(lease) = &start.lease {
            task.lease(lease, self.now);
        }
        self.extend(start.run.as_str(), &start.records);
        self.mark((&row.namespace, &row.run_id), &start.marks)?;
        self.insert_task(task);
        self.insert_run(row);
        Ok(())
    }

    /// What `run` of a namespace is found and described by.
    fn mark(&mut self, (namespace, run): (&str, &str), marks: &Marks) -> Result<()> {
        if let Some(attributes) = &marks.attributes {
            let rows = AttributeRow::of(namespace, run, attributes);
            self.changes.attributes.insert(run.to_owned(), rows);
        }
        if let Some(memo) = &marks.memo {
            let row = MemoRow::new(run, memo)?;
            self.changes.memos.insert(run.to_owned(), row);
        }
        Ok(())
    }

    pub(super) fn deliver(&mut self, deliver: &Deliver) -> Result<Outcome> {
        let request = deliver.request.as_ref().map(|(kind, id)| (*kind, id));
        let run = match self.reach(&deliver.target, request, deliver.at_most)? {
            Reached::Open(run) => run,
            Reached::Not(outcome) => return Ok(outcome),
        };
        self.push_if_open(&run, &deliver.record, None);
        self.done(&run)
    }

    /// The open run that a command is for; its receipt is kept.
    fn reach(
        &mut self,
        target: &Target,
        request: Option<(CommandKind, &RequestId)>,
        at_most: Option<NonZeroU32>,
    ) -> Result<Reached> {
        let found = self.find(target);
        let Some(row) = found.and_then(|run| self.runs.get(&run)) else {
            return Ok(Reached::Not(Outcome::NotFound));
        };
        let (run, is_open) = (row.run_id.clone(), row.is_open());
        let is_full = at_most.is_some_and(|most| row.waiting() >= i64::from(most.get()));
        let command = request.map(|(kind, id)| command(row, kind, id));
        if let Some(before) = command
            .as_ref()
            .and_then(|command| self.carried_out(command))
        {
            let run = run_id(before)?;
            return Ok(Reached::Not(Outcome::Repeated { run }));
        }
        if !is_open {
            return Ok(Reached::Not(Outcome::Closed));
        }
        if is_full {
            return Ok(Reached::Not(Outcome::Full));
        }
        if let Some(command) = command {
            self.carry_out(command);
        }
        Ok(Reached::Open(run))
    }

    fn append(&mut self, append: &Append) -> Result<Outcome> {
        if !self.holds(&append.held) {
            return Ok(Outcome::Lost);
        }
        self.extend(append.run.as_str(), &append.records);
        self.done(append.run.as_str())
    }

    fn turn(&mut self, turn: &Turn) -> Result<Outcome> {
        let run = turn.run.as_str();
        let held = turn.fence.held();
        if held.is_empty() || !held.iter().all(|held| self.holds(held)) {
            return Ok(Outcome::Lost);
        }
        if turn.fence.is_of_activities() {
            if self.has_gone_on(turn) {
                return Ok(Outcome::Stale);
            }
            for held in held {
                self.remove_task(held.task.as_str());
            }
        }
        self.extend(run, &turn.records);
        self.account(turn)?;
        if let (Some(fingerprint), Some(row)) = (&turn.fingerprint, self.run_mut(run)) {
            row.fingerprint
                .get_or_insert_with(|| fingerprint.to_string());
        }
        if !turn.marks.is_empty() {
            let row = self.runs.get(run).ok_or_else(|| no_run(run))?;
            let namespace = row.namespace.clone();
            self.mark((&namespace, run), &turn.marks)?;
        }
        for task in &turn.dropped {
            self.remove_task(task.as_str());
        }
        for child in &turn.children {
            self.start_child(child, turn)?;
        }
        for delivery in &turn.deliveries {
            self.deliver(delivery)?;
        }
        match &turn.then {
            Then::Keep => {}
            Then::Take(lease) => return self.take(run, lease),
            Then::Wait { due, wait } => self.wait(run, *due, *wait)?,
            Then::Close(closing) => self.close(run, closing)?,
        }
        self.done(run)
    }

    fn has_gone_on(&self, turn: &Turn) -> bool {
        let run = turn.run.as_str();
        let task = self.tasks.get(&format!("{run}:0"));
        task.is_some_and(|task| !task.is(TaskStatus::Ready))
            || self.history(run) != signed(turn.history_length)
            || self.inbox_seq(run) != turn.drained
    }

    /// What a turn adds to its run itself, and takes from its inbox.
    fn account(&mut self, turn: &Turn) -> Result<()> {
        let (run, now) = (turn.run.as_str(), self.now);
        let row = self.run_mut(run).ok_or_else(|| no_run(run))?;
        row.history_length = signed(turn.history_length + turn.records.len() as u64);
        let taken = signed(turn.drained);
        let is_news = taken > row.inbox_drained;
        row.inbox_drained = taken;
        if let Some(buffered) = turn.buffered {
            row.buffered_signals = signed(buffered);
        }
        let activities = turn.activities.iter();
        let tasks: Vec<_> = activities
            .map(|activity| TaskRow::activity(row, activity, now))
            .collect();
        if is_news {
            self.changes.taken.push((run.to_owned(), taken));
        }
        for task in tasks {
            self.insert_task(task);
        }
        Ok(())
    }

    fn start_child(&mut self, child: &Start, turn: &Turn) -> Result<()> {
        let created = matches!(self.start(child)?, Outcome::Started { created: true, .. });
        if let (false, Some(link), Some(record)) = (created, &child.parent, &turn.not_started) {
            self.push_if_open(turn.run.as_str(), record, Some(link.step));
        }
        Ok(())
    }

    fn take(&mut self, run: &str, lease: &Lease) -> Result<Outcome> {
        let now = self.now;
        let row = self.run_mut(run).ok_or_else(|| no_run(run))?;
        RunStatus::Running.as_str().clone_into(&mut row.status);
        let new = TaskRow::workflow(row, now, now);
        let old = self.tasks.get(&new.task_id).cloned();
        let mut task = old.unwrap_or(new);
        task.lease(lease, now);
        let epoch = u64::try_from(task.lease_epoch).unwrap_or(0);
        self.insert_task(task);
        Ok(Outcome::Taken {
            epoch,
            inbox_seq: self.inbox_seq(run),
        })
    }

    fn wait(&mut self, run: &str, due: Option<Due>, wait: Option<Wait>) -> Result<()> {
        let now = self.now;
        let old = self.remove_task(&format!("{run}:0"));
        let row = self.run_mut(run).ok_or_else(|| no_run(run))?;
        if let Some(old) = old {
            row.turn_epoch = old.lease_epoch + 1;
        }
        let has_news = row.inbox_seq > row.inbox_drained;
        let due = if has_news { Some(Due::Now) } else { due };
        let due = due.map(|due| due.resolve(Timestamp::from_micros(now)).as_micros());
        let status = match due {
            Some(due) if due <= now => RunStatus::Running,
            _ => RunStatus::Waiting,
        };
        status.as_str().clone_into(&mut row.status);
        row.wait_reason = wait.map(|wait| wait.as_str().to_owned());
        if let Some(due) = due {
            let task = TaskRow::workflow(row, due, now);
            self.insert_task(task);
        }
        Ok(())
    }

    fn close(&mut self, run: &str, closing: &Closing) -> Result<()> {
        let now = self.now;
        let tasks = self.tasks.values().filter(|task| task.run_id == run);
        let tasks: Vec<_> = tasks.map(|task| task.task_id.clone()).collect();
        for task in tasks {
            self.remove_task(&task);
        }
        let row = self.run_mut(run).ok_or_else(|| no_run(run))?;
        row.close(&closing.closed, now)?;
        let row = row.clone();
        match (&closing.closed, &closing.next) {
            (Closed::ContinuedAsNew(_), Some(next)) => self.go_on(&row, next)?,
            _ if row.inbox_seq > row.inbox_drained => {
                self.changes.taken.push((run.to_owned(), i64::MAX));
            }
            _ => {}
        }
        let parent = row.parent_run_id.as_deref();
        if let (Some(parent), Some(record)) = (parent, &closing.to_parent) {
            let step = row
                .parent_step_seq
                .and_then(|step| u64::try_from(step).ok());
            self.push_if_open(parent, record, step);
        }
        self.close_children(run, closing);
        Ok(())
    }

    /// The next run of the instance of `row`, which has closed.
    fn go_on(&mut self, row: &RunRow, next: &Start) -> Result<()> {
        self.begin(next, (row.inbox_seq, row.inbox_drained))?;
        let moved = (row.run_id.clone(), next.run.to_string());
        self.changes.moved.push(moved);
        if let Some(new) = self.run_mut(next.run.as_str()) {
            new.parent_run_id.clone_from(&row.parent_run_id);
            new.parent_step_seq = row.parent_step_seq;
            new.parent_close.clone_from(&row.parent_close);
        }
        Ok(())
    }

    fn close_children(&mut self, run: &str, closing: &Closing) {
        let mut children: Vec<_> = self
            .runs
            .values()
            .filter(|row| row.parent_run_id.as_deref() == Some(run))
            .map(|row| (row.run_id.clone(), row.parent_close.clone()))
            .collect();
        children.sort();
        for (child, on_close) in children {
            match on_close.as_deref() {
                Some("terminate") => self.push_if_open(&child, &closing.terminate_child, None),
                Some("request_cancel") => self.push_if_open(&child, &closing.cancel_child, None),
                _ => {}
            }
        }
    }

    fn settle(&mut self, settle: &Settle) -> Result<Outcome> {
        if !self.holds(&settle.held) {
            return Ok(Outcome::Lost);
        }
        self.remove_task(settle.held.task.as_str());
        self.keep_attempt(settle.attempt.as_ref())?;
        self.push_if_open(settle.run.as_str(), &settle.record, None);
        self.done(settle.run.as_str())
    }

    fn keep_attempt(&mut self, attempt: Option<&Attempt>) -> Result<()> {
        let row = attempt.map(AttemptRow::new).transpose()?;
        self.changes.attempts.extend(row);
        Ok(())
    }

    fn put_back(&mut self, put_back: &PutBack) -> Result<Outcome> {
        if !self.holds(&put_back.held) {
            return Ok(Outcome::Lost);
        }
        let held = put_back.held.task.as_str();
        let Some(mut task) = self.tasks.get(held).cloned() else {
            return Ok(Outcome::Lost);
        };
        match &put_back.how {
            PutBackHow::Untouched => {
                task.attempt_count -= 1;
                task.free(TaskStatus::Ready, self.now);
            }
            PutBackHow::Retry {
                due,
                error,
                attempt,
            } => {
                task.free(TaskStatus::Ready, self.due(*due));
                task.last_error = Some(shown(error));
                self.keep_attempt(attempt.as_ref())?;
            }
            PutBackHow::Blocked { reason, error } => {
                task.free(TaskStatus::Blocked, self.now);
                task.blocked_reason = Some(reason.as_str().to_owned());
                task.last_error = Some(shown(error));
            }
        }
        let run = task.run_id.clone();
        self.insert_task(task);
        self.done(&run)
    }

    pub(super) fn terminate(&mut self, terminate: &Terminate) -> Result<Outcome> {
        let request = terminate.request.as_ref();
        let request = request.map(|id| (CommandKind::Terminate, id));
        let run = match self.reach(&terminate.target, request, None)? {
            Reached::Open(run) => run,
            Reached::Not(outcome) => return Ok(outcome),
        };
        let seq = self.history(&run) + 1;
        let record = Record {
            seq: u64::try_from(seq).unwrap_or(0),
            ..terminate.record.clone()
        };
        self.extend(&run, &[record]);
        let row = self.run_mut(&run).ok_or_else(|| no_run(&run))?;
        row.history_length = seq;
        self.close(&run, &terminate.closing)?;
        self.done(&run)
    }
}

/// Where a command arrives.
enum Reached {
    Open(String),
    Not(Outcome),
}

fn run_id(text: &str) -> Result<RunId> {
    RunId::try_from(text).map_err(|error| Error::corrupt("reading a run id").with_source(error))
}

fn no_run(run: &str) -> Error {
    Error::corrupt(format!("applying writes: a task's run {run} is not there"))
}
