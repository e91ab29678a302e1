//! The rows of a batch while it is decided.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::rows::{
    CommandRow, InstanceRow, RecordRow, RevisionRow, RunRow, TaskRow, TipRow, signed,
};
use super::super::{CommandKind, Held, Holder, Start, Target, Write};
use super::Changes;
use crate::model::{Record, RequestId, RunStatus, TaskKind, TaskStatus};

/// All rows that were read, and what has become of them.
pub(super) struct State {
    pub(super) now: i64,
    /// The current run of each instance; `None` while it has a name only.
    instances: HashMap<(String, String), Option<String>>,
    /// What the table says, to see what is to be written.
    named: HashMap<(String, String), InstanceRow>,
    pub(super) runs: HashMap<String, RunRow>,
    changed_runs: BTreeSet<String>,
    pub(super) tasks: BTreeMap<String, TaskRow>,
    changed_tasks: BTreeSet<String>,
    gone_tasks: BTreeSet<String>,
    tips: HashMap<String, TipRow>,
    commands: Vec<CommandRow>,
    /// The revision of each schedule.
    pub(super) revisions: HashMap<(String, String), i64>,
    pub(super) changes: Changes,
}

impl State {
    pub(super) fn new(
        now: i64,
        instances: Vec<InstanceRow>,
        runs: Vec<RunRow>,
        tasks: Vec<TaskRow>,
    ) -> Self {
        let key = |row: &InstanceRow| (row.namespace.clone(), row.workflow_id.clone());
        let current = |row: &InstanceRow| row.has_run.then(|| row.current_run_id.clone());
        Self {
            now,
            instances: instances
                .iter()
                .map(|row| (key(row), current(row)))
                .collect(),
            named: instances.into_iter().map(|row| (key(&row), row)).collect(),
            runs: runs
                .into_iter()
                .map(|row| (row.run_id.clone(), row))
                .collect(),
            changed_runs: BTreeSet::new(),
            tasks: tasks
                .into_iter()
                .map(|row| (row.task_id.clone(), row))
                .collect(),
            changed_tasks: BTreeSet::new(),
            gone_tasks: BTreeSet::new(),
            tips: HashMap::new(),
            commands: Vec::new(),
            revisions: HashMap::new(),
            changes: Changes::default(),
        }
    }

    pub(super) fn add_revisions(&mut self, revisions: Vec<RevisionRow>) {
        let revisions = revisions.into_iter();
        self.revisions
            .extend(revisions.map(|row| ((row.namespace, row.schedule_id), row.revision)));
    }

    /// The runs of which it must be known how far they are, without a lock on them.
    pub(super) fn tips_wanted(&self, writes: &[Write]) -> Vec<String> {
        let of_task = |held: &Held| Some(self.tasks.get(held.task.as_str())?.run_id.clone());
        let wanted: BTreeSet<String> = writes
            .iter()
            .filter_map(|write| match write {
                Write::Append(append) => of_task(&append.held),
                Write::PutBack(put_back) => of_task(&put_back.held),
                Write::Turn(turn) => {
                    let is_of_activities = turn.fence.is_of_activities();
                    is_of_activities.then(|| turn.run.to_string())
                }
                Write::Terminate(terminate) => self.find(&terminate.target),
                _ => None,
            })
            .chain(
                writes
                    .iter()
                    .flat_map(|write| self.ended_by_schedule(write)),
            )
            .collect();
        wanted.into_iter().collect()
    }

    fn ended_by_schedule(&self, write: &Write) -> Vec<String> {
        let Write::Schedule(schedule) = write else {
            return Vec::new();
        };
        let ended = schedule.terminates.iter();
        ended.filter_map(|it| self.find(&it.target)).collect()
    }

    pub(super) fn add_tips(&mut self, tips: Vec<TipRow>) {
        let tips = tips.into_iter().map(|tip| (tip.run_id.clone(), tip));
        self.tips.extend(tips);
    }

    /// The commands of which it must be known whether they were carried out.
    pub(super) fn commands_wanted(&self, writes: &[Write]) -> Vec<CommandRow> {
        let mut wanted = Vec::new();
        let mut want = |target: &Target, request: Option<(CommandKind, &RequestId)>| {
            let run = self.find(target).and_then(|run| self.runs.get(&run));
            if let (Some(run), Some((kind, id))) = (run, request) {
                wanted.push(command(run, kind, id));
            }
        };
        let starts = writes.iter().filter_map(|write| match write {
            Write::Start(start) => Self::start_command(start),
            _ => None,
        });
        let starts: Vec<_> = starts.collect();
        for write in writes {
            match write {
                Write::Deliver(deliver) => {
                    let request = deliver.request.as_ref();
                    want(&deliver.target, request.map(|(kind, id)| (*kind, id)));
                }
                Write::Turn(turn) => {
                    for deliver in &turn.deliveries {
                        let request = deliver.request.as_ref();
                        want(&deliver.target, request.map(|(kind, id)| (*kind, id)));
                    }
                }
                Write::Terminate(terminate) => {
                    let request = terminate.request.as_ref();
                    let request = request.map(|id| (CommandKind::Terminate, id));
                    want(&terminate.target, request);
                }
                _ => {}
            }
        }
        wanted.extend(starts);
        wanted
    }

    /// The command that a start is, if its caller wants it to happen once.
    pub(super) fn start_command(start: &Start) -> Option<CommandRow> {
        let request = start.request.as_ref()?;
        Some(CommandRow {
            namespace: start.namespace.to_string(),
            workflow_id: start.workflow.to_string(),
            kind: CommandKind::Start.as_str().to_owned(),
            request_id: request.to_string(),
            run_id: start.run.to_string(),
        })
    }

    pub(super) fn add_commands(&mut self, commands: Vec<CommandRow>) {
        self.commands.extend(commands);
    }

    /// The run that a target means, open or closed.
    pub(super) fn find(&self, target: &Target) -> Option<String> {
        match target {
            Target::Run(run) => {
                let run = run.as_str();
                self.runs.contains_key(run).then(|| run.to_owned())
            }
            Target::Current(namespace, workflow) => {
                let instance = (namespace.to_string(), workflow.to_string());
                self.instances.get(&instance).cloned().flatten()
            }
        }
    }

    /// The current run of an instance.
    pub(super) fn current(&self, instance: &(String, String)) -> Option<&String> {
        self.instances.get(instance)?.as_ref()
    }

    pub(super) fn set_current(&mut self, instance: (String, String), run: String) {
        self.instances.insert(instance, Some(run));
    }

    /// The run to which a command of this id led, if it was carried out.
    pub(super) fn carried_out(&self, wanted: &CommandRow) -> Option<&str> {
        let is_it = |row: &&CommandRow| {
            (&row.namespace, &row.workflow_id, &row.kind, &row.request_id)
                == (
                    &wanted.namespace,
                    &wanted.workflow_id,
                    &wanted.kind,
                    &wanted.request_id,
                )
        };
        Some(&self.commands.iter().find(is_it)?.run_id)
    }

    pub(super) fn carry_out(&mut self, command: CommandRow) {
        self.commands.push(command.clone());
        self.changes.commands.push(command);
    }

    /// A run that is to change.
    pub(super) fn run_mut(&mut self, run: &str) -> Option<&mut RunRow> {
        let row = self.runs.get_mut(run)?;
        row.updated_at = self.now;
        self.changed_runs.insert(run.to_owned());
        Some(row)
    }

    pub(super) fn insert_run(&mut self, row: RunRow) {
        self.changed_runs.insert(row.run_id.clone());
        self.runs.insert(row.run_id.clone(), row);
    }

    pub(super) fn insert_task(&mut self, row: TaskRow) {
        self.changed_tasks.insert(row.task_id.clone());
        self.gone_tasks.remove(&row.task_id);
        self.tasks.insert(row.task_id.clone(), row);
    }

    pub(super) fn remove_task(&mut self, task: &str) -> Option<TaskRow> {
        let row = self.tasks.remove(task)?;
        self.changed_tasks.remove(task);
        self.gone_tasks.insert(task.to_owned());
        Some(row)
    }

    /// Whether a claim is still good.
    pub(super) fn holds(&self, held: &Held) -> bool {
        let Some(task) = self.tasks.get(held.task.as_str()) else {
            return false;
        };
        let is_right = match &held.holder {
            Holder::Owner(owner) => {
                task.is(TaskStatus::Leased)
                    && task.lease_owner.as_deref() == Some(owner.as_str())
                    && task.lease_expires_at.is_some_and(|end| end > self.now)
            }
            Holder::Overdue => {
                task.task_type == TaskKind::Activity.as_str() && task.deadline_at <= self.now
            }
        };
        is_right && task.lease_epoch == signed(held.epoch)
    }

    /// How many events a run has, with those appended since its last turn.
    pub(super) fn history(&self, run: &str) -> i64 {
        let tip = self.tips.get(run).map_or(0, |tip| tip.history);
        let row = self.runs.get(run).map_or(0, |row| row.history_length);
        tip.max(row)
    }

    /// How many messages a run was ever sent.
    pub(super) fn inbox_seq(&self, run: &str) -> u64 {
        let row = self.runs.get(run).map(|row| row.inbox_seq);
        let seq = row.or_else(|| self.tips.get(run).map(|tip| tip.inbox_seq));
        u64::try_from(seq.unwrap_or(0)).unwrap_or(0)
    }

    pub(super) fn extend(&mut self, run: &str, records: &[Record]) {
        for record in records {
            let row = RecordRow::new(run, signed(record.seq), record);
            if let Some(tip) = self.tips.get_mut(run) {
                tip.history = tip.history.max(row.seq);
            }
            self.changes.history.push(row);
        }
    }

    /// A message for a run, if it is there and open.
    pub(super) fn push_if_open(&mut self, run: &str, record: &Record, step: Option<u64>) {
        if !self.runs.get(run).is_some_and(RunRow::is_open) {
            return;
        }
        let now = self.now;
        let Some(row) = self.run_mut(run) else { return };
        row.inbox_seq += 1;
        RunStatus::Running.as_str().clone_into(&mut row.status);
        let mut message = RecordRow::new(run, row.inbox_seq, record);
        message.step_seq = step.map(signed).or(message.step_seq);
        let new = TaskRow::workflow(row, now, now);
        self.changes.inbox.push(message);
        match self.tasks.get_mut(&new.task_id) {
            None => self.insert_task(new),
            Some(task) if task.is(TaskStatus::Ready) && task.available_at > now => {
                task.available_at = now;
                self.changed_tasks.insert(new.task_id);
            }
            Some(_) => {}
        }
    }

    /// What is to be written.
    pub(super) fn into_changes(mut self) -> Changes {
        let mut changes = self.changes;
        for (instance, mut row) in self.named {
            match self.instances.remove(&instance).flatten() {
                None => changes.unnamed.push(row),
                Some(run) if run != row.current_run_id => {
                    row.current_run_id = run;
                    changes.current.push(row);
                }
                Some(_) => {}
            }
        }
        let key = |row: &InstanceRow| (row.namespace.clone(), row.workflow_id.clone());
        changes.unnamed.sort_by_key(key);
        changes.current.sort_by_key(key);
        let runs = self.changed_runs.iter();
        changes.runs = runs.filter_map(|run| self.runs.remove(run)).collect();
        let tasks = self.changed_tasks.iter();
        changes.tasks = tasks.filter_map(|task| self.tasks.remove(task)).collect();
        changes.locked = self.tasks.into_values().collect();
        changes.gone = self.gone_tasks.into_iter().collect();
        changes
    }
}

/// The command `request` for `run`.
pub(super) fn command(run: &RunRow, kind: CommandKind, request: &RequestId) -> CommandRow {
    CommandRow {
        namespace: run.namespace.clone(),
        workflow_id: run.workflow_id.clone(),
        kind: kind.as_str().to_owned(),
        request_id: request.to_string(),
        run_id: run.run_id.clone(),
    }
}
