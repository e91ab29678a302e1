//! Writes.

mod end;
mod give_back;

use serde_json::Map;

use super::tables::{RunRow, Tables, TaskRow};
use crate::model::{Attributes, Due, Record, Run, RunId, RunStatus, TaskId, TaskKind, TaskStatus};
use crate::store::{
    Append, CommandKind, Deliver, Fence, Held, Holder, Lease, OnDuplicate, Outcome, Start, Then,
    Turn, Write,
};

impl Tables {
    pub(super) fn apply(&mut self, write: &Write) -> Outcome {
        match write {
            Write::Start(start) => self.start(start),
            Write::Deliver(deliver) => self.deliver(deliver),
            Write::Append(append) => self.append(append),
            Write::Turn(turn) => self.turn(turn),
            Write::Settle(settle) => self.settle(settle),
            Write::PutBack(put_back) => self.put_back(put_back),
            Write::Terminate(terminate) => self.terminate(terminate),
            Write::Resume(target) => self.resume(target),
            Write::Repair(run) => self.repair(run),
            Write::Restore(restore) => self.restore(restore),
            Write::Schedule(schedule) => self.schedule(schedule),
            Write::Unschedule(key) => self.unschedule(key),
        }
    }

    fn done(&self, run: &RunId) -> Outcome {
        Outcome::Done {
            run: run.clone(),
            inbox_seq: self.runs.get(run).map_or(0, |row| row.run.inbox_seq),
        }
    }

    pub(super) fn start(&mut self, start: &Start) -> Outcome {
        let instance = (start.namespace.clone(), start.workflow.clone());
        let command = start.request.clone().map(|request| {
            let (namespace, workflow) = instance.clone();
            (namespace, workflow, CommandKind::Start, request)
        });
        if let Some(run) = command.as_ref().and_then(|it| self.receipts.get(it)) {
            return Outcome::Started {
                run: run.clone(),
                created: true,
            };
        }
        if let Some(current) = self.current.get(&instance) {
            let current = current.clone();
            if self.runs.contains_key(&start.run) {
                return Outcome::Started {
                    run: start.run.clone(),
                    created: true,
                };
            }
            return match start.on_duplicate {
                OnDuplicate::Reject => Outcome::Refused { current },
                OnDuplicate::ReturnExisting => Outcome::Started {
                    run: current,
                    created: false,
                },
            };
        }
        if self.runs.contains_key(&start.run) {
            let current = start.run.clone();
            return Outcome::Refused { current };
        }
        self.insert_run(start, 0, Vec::new());
        if let Some(command) = command {
            self.receipts.insert(command, start.run.clone());
        }
        Outcome::Started {
            run: start.run.clone(),
            created: true,
        }
    }

    /// Inserts a run that takes over `inbox`, of which the last place given was `inbox_seq`.
    fn insert_run(&mut self, start: &Start, inbox_seq: u64, inbox: Vec<Record>) {
        let instance = (start.namespace.clone(), start.workflow.clone());
        self.current.insert(instance, start.run.clone());
        let mut row = RunRow {
            attributes: Attributes::new(),
            memo: Map::new(),
            run: Run {
                namespace: start.namespace.clone(),
                workflow: start.workflow.clone(),
                run: start.run.clone(),
                number: start.number,
                name: start.name.clone(),
                queue: start.queue.clone(),
                build: start.build.clone(),
                fingerprint: None,
                status: RunStatus::Pending,
                wait: None,
                history_length: start.records.len() as u64,
                inbox_seq,
                started_at: self.now,
                closed_at: None,
                closed: None,
                parent: start.parent.as_ref().map(|link| link.run.clone()),
            },
            priority: start.priority,
            fairness: start.fairness.clone(),
            parent: start.parent.clone(),
            continued_to: None,
            inbox_drained: inbox.first().map_or(inbox_seq, |first| first.seq - 1),
            turn_epoch: 0,
            history: start.records.clone(),
            inbox,
            buffered_signals: start.buffered(),
            updated_at: self.now,
        };
        row.mark(&start.marks);
        let mut task = TaskRow::workflow(&row, start.due.resolve(self.now));
        if let Some(lease) = &start.lease {
            task.lease(&lease.owner, self.now.plus(lease.ttl), self.now);
        }
        self.put(task);
        self.runs.insert(start.run.clone(), row);
    }

    pub(super) fn deliver(&mut self, deliver: &Deliver) -> Outcome {
        let Some(run) = self.find(&deliver.target) else {
            return Outcome::NotFound;
        };
        if let Some(repeated) = self.receipt(&run, deliver.request.as_ref()) {
            return repeated;
        }
        if !self.runs[&run].run.status.is_open() {
            return Outcome::Closed;
        }
        let row = &self.runs[&run];
        let waiting = row.inbox.len() as u64 + row.buffered_signals;
        if deliver
            .at_most
            .is_some_and(|most| waiting >= u64::from(most.get()))
        {
            return Outcome::Full;
        }
        self.keep_receipt(&run, deliver.request.as_ref());
        self.push(&run, deliver.record.clone());
        self.done(&run)
    }

    fn receipt(
        &self,
        run: &RunId,
        request: Option<&(CommandKind, crate::model::RequestId)>,
    ) -> Option<Outcome> {
        let (kind, id) = request?;
        let Run {
            namespace,
            workflow,
            ..
        } = &self.runs[run].run;
        let key = (namespace.clone(), workflow.clone(), *kind, id.clone());
        self.receipts
            .get(&key)
            .map(|run| Outcome::Repeated { run: run.clone() })
    }

    fn keep_receipt(
        &mut self,
        run: &RunId,
        request: Option<&(CommandKind, crate::model::RequestId)>,
    ) {
        if let Some((kind, id)) = request {
            let Run {
                namespace,
                workflow,
                ..
            } = &self.runs[run].run;
            let key = (namespace.clone(), workflow.clone(), *kind, id.clone());
            self.receipts.insert(key, run.clone());
        }
    }

    /// A message for an open run.
    fn push(&mut self, run: &RunId, mut record: Record) {
        let now = self.now;
        let row = self.runs.get_mut(run).expect("the caller found it");
        row.run.inbox_seq += 1;
        row.updated_at = now;
        row.run.status = RunStatus::Running;
        record.seq = row.run.inbox_seq;
        row.inbox.push(record);
        let task = TaskRow::workflow(row, now);
        let task = self.tasks.entry(task.id.clone()).or_insert(task);
        if task.status == TaskStatus::Ready {
            task.available_at = task.available_at.min(now);
        }
        let task = task.clone();
        self.tell(&task);
    }

    /// A message for a run that may be closed, or not there.
    fn push_if_open(&mut self, run: &RunId, record: Record) {
        if self
            .runs
            .get(run)
            .is_some_and(|row| row.run.status.is_open())
        {
            self.push(run, record);
        }
    }

    fn holds(&self, held: &Held) -> bool {
        let Some(task) = self
            .tasks
            .get(&held.task)
            .filter(|task| task.epoch == held.epoch)
        else {
            return false;
        };
        match &held.holder {
            Holder::Owner(owner) => {
                task.status == TaskStatus::Leased
                    && task.owner.as_ref() == Some(owner)
                    && task.lease_expires_at > self.now
            }
            Holder::Overdue => task.kind == TaskKind::Activity && task.deadline() <= self.now,
        }
    }

    fn append(&mut self, append: &Append) -> Outcome {
        if !self.holds(&append.held) {
            return Outcome::Lost;
        }
        self.extend(&append.run, &append.records);
        self.done(&append.run)
    }

    fn extend(&mut self, run: &RunId, records: &[Record]) {
        let row = self.runs.get_mut(run).expect("a task has a run");
        for record in records {
            if record.seq == row.history.len() as u64 + 1 {
                row.history.push(record.clone());
            }
        }
    }

    fn turn(&mut self, turn: &Turn) -> Outcome {
        let task = TaskId::of(&turn.run, 0);
        match &turn.fence {
            Fence::Task(held) if !self.holds(held) => return Outcome::Lost,
            Fence::Task(_) => {}
            Fence::Activities(held) => {
                if held.is_empty() || !held.iter().all(|held| self.holds(held)) {
                    return Outcome::Lost;
                }
                let row = &self.runs[&turn.run];
                let is_free = self
                    .tasks
                    .get(&task)
                    .is_none_or(|task| task.status == TaskStatus::Ready);
                if !is_free
                    || row.history.len() as u64 != turn.history_length
                    || row.run.inbox_seq != turn.drained
                {
                    return Outcome::Stale;
                }
                for held in held {
                    self.tasks.remove(&held.task);
                }
            }
        }
        self.extend(&turn.run, &turn.records);
        let now = self.now;
        let row = self.runs.get_mut(&turn.run).expect("a task has a run");
        row.run.history_length = row.history.len() as u64;
        row.run.fingerprint = row
            .run
            .fingerprint
            .take()
            .or_else(|| turn.fingerprint.clone());
        row.updated_at = now;
        row.inbox.retain(|record| record.seq > turn.drained);
        row.inbox_drained = turn.drained;
        row.buffered_signals = turn.buffered.unwrap_or(row.buffered_signals);
        row.mark(&turn.marks);
        let activities = turn.activities.iter();
        let activities = activities.map(|activity| TaskRow::activity(row, activity, now));
        for task in activities.collect::<Vec<_>>() {
            self.put(task);
        }
        for dropped in &turn.dropped {
            self.tasks.remove(dropped);
        }
        for child in &turn.children {
            self.start_child(child, turn);
        }
        for delivery in &turn.deliveries {
            self.deliver(delivery);
        }
        match &turn.then {
            Then::Keep => {}
            Then::Take(lease) => return self.take(&turn.run, lease),
            Then::Wait { due, wait } => {
                self.wait(&turn.run, *due);
                self.runs
                    .get_mut(&turn.run)
                    .expect("a task has a run")
                    .run
                    .wait = *wait;
            }
            Then::Close(closing) => self.close(&turn.run, closing),
        }
        self.done(&turn.run)
    }

    fn start_child(&mut self, child: &Start, turn: &Turn) {
        let created = matches!(self.start(child), Outcome::Started { created: true, .. });
        if let (false, Some(link), Some(record)) = (created, &child.parent, &turn.not_started) {
            let step = Some(link.step);
            self.push(
                &turn.run,
                Record {
                    step,
                    ..record.clone()
                },
            );
        }
    }

    fn take(&mut self, run: &RunId, lease: &Lease) -> Outcome {
        let row = self.runs.get_mut(run).expect("a task has a run");
        row.run.status = RunStatus::Running;
        let task = TaskRow::workflow(row, self.now);
        let task = self.tasks.entry(task.id.clone()).or_insert(task);
        task.lease(&lease.owner, self.now.plus(lease.ttl), self.now);
        Outcome::Taken {
            epoch: task.epoch,
            inbox_seq: row.run.inbox_seq,
        }
    }

    fn wait(&mut self, run: &RunId, due: Option<Due>) {
        let row = self.runs.get_mut(run).expect("a task has a run");
        let has_news = row.run.inbox_seq > row.inbox_drained;
        let due = if has_news { Some(Due::Now) } else { due };
        let due = due.map(|due| due.resolve(self.now));
        row.run.status = match due {
            Some(due) if due <= self.now => RunStatus::Running,
            _ => RunStatus::Waiting,
        };
        let mut task = TaskRow::workflow(row, self.now);
        if let Some(old) = self.tasks.remove(&task.id) {
            task.epoch = old.epoch + 1;
            row.turn_epoch = task.epoch;
        }
        if let Some(due) = due {
            task.available_at = due;
            self.put(task);
        }
    }
}
