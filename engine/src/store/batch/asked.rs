//! What writes are about, before anything is read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::rows::{InstanceRow, KinRow, RunRow};
use super::super::{ScheduleKey, ScheduleWrite, Start, Target, Terminate, Then, Turn, Write};
use crate::model::TaskId;

type Instance = (String, String);

/// What a batch names.
#[derive(Default)]
pub(super) struct Asked {
    /// The instances to start, each with the first run that is to be its own.
    starts: BTreeMap<Instance, String>,
    /// The instances whose current run is meant.
    currents: BTreeSet<Instance>,
    runs: BTreeSet<String>,
    tasks: BTreeSet<String>,
    closing: BTreeSet<String>,
    closing_currents: BTreeSet<Instance>,
    resuming: BTreeSet<String>,
    resuming_currents: BTreeSet<Instance>,
    schedules: BTreeSet<(String, String)>,
}

impl Asked {
    pub(super) fn of(writes: &[Write]) -> Self {
        let mut asked = Self::default();
        for write in writes {
            match write {
                Write::Start(start) => asked.start(start),
                Write::Deliver(deliver) => asked.target(&deliver.target),
                Write::Append(append) => asked.task(append.held.task.as_str()),
                Write::Turn(turn) => asked.turn(turn),
                Write::Settle(settle) => {
                    asked.task(settle.held.task.as_str());
                    asked.run(settle.run.as_str());
                }
                Write::PutBack(put_back) => asked.task(put_back.held.task.as_str()),
                Write::Terminate(terminate) => asked.terminate(terminate),
                Write::Resume(target) => asked.resume(target),
                Write::Repair(run) => asked.run(run.as_str()),
                Write::Restore(restore) => {
                    asked.run(restore.run.as_str());
                    let task = TaskId::of(&restore.run, restore.activity.step);
                    asked.task(task.as_str());
                }
                Write::Schedule(schedule) => asked.schedule(schedule),
                Write::Unschedule(ScheduleKey { namespace, id }) => {
                    let key = (namespace.to_string(), id.to_string());
                    asked.schedules.insert(key);
                }
            }
        }
        asked
    }

    fn start(&mut self, start: &Start) {
        let instance = (start.namespace.to_string(), start.workflow.to_string());
        let run = start.run.to_string();
        // A run that is there already answers the start that is repeated.
        self.runs.insert(run.clone());
        self.starts.entry(instance).or_insert(run);
    }

    fn turn(&mut self, turn: &Turn) {
        for held in turn.fence.held() {
            self.task(held.task.as_str());
        }
        self.run(turn.run.as_str());
        for task in &turn.dropped {
            self.task(task.as_str());
        }
        for child in &turn.children {
            self.start(child);
        }
        for delivery in &turn.deliveries {
            self.target(&delivery.target);
        }
        if let Then::Close(closing) = &turn.then {
            self.closing.insert(turn.run.to_string());
            if let Some(next) = &closing.next {
                let instance = (next.namespace.to_string(), next.workflow.to_string());
                self.currents.insert(instance);
            }
        }
    }

    fn terminate(&mut self, terminate: &Terminate) {
        self.target(&terminate.target);
        match &terminate.target {
            Target::Run(run) => _ = self.closing.insert(run.to_string()),
            Target::Current(namespace, workflow) => {
                let instance = (namespace.to_string(), workflow.to_string());
                self.closing_currents.insert(instance);
            }
        }
    }

    fn resume(&mut self, target: &Target) {
        self.target(target);
        match target {
            Target::Run(run) => _ = self.resuming.insert(run.to_string()),
            Target::Current(namespace, workflow) => {
                let instance = (namespace.to_string(), workflow.to_string());
                self.resuming_currents.insert(instance);
            }
        }
    }

    fn schedule(&mut self, schedule: &ScheduleWrite) {
        let record = &schedule.record;
        let key = (record.namespace.to_string(), record.id.to_string());
        self.schedules.insert(key);
        for cancel in &schedule.cancels {
            self.target(&cancel.target);
        }
        for terminate in &schedule.terminates {
            self.terminate(terminate);
        }
        for fire in &schedule.fires {
            self.start(&fire.start);
        }
    }

    fn target(&mut self, target: &Target) {
        match target {
            Target::Run(run) => self.run(run.as_str()),
            Target::Current(namespace, workflow) => {
                let instance = (namespace.to_string(), workflow.to_string());
                self.currents.insert(instance);
            }
        }
    }

    fn run(&mut self, run: &str) {
        self.runs.insert(run.to_owned());
    }

    fn task(&mut self, task: &str) {
        self.tasks.insert(task.to_owned());
    }

    pub(super) fn instances_to_name(&self) -> Vec<InstanceRow> {
        let rows = self.starts.iter().map(|(instance, run)| InstanceRow {
            namespace: instance.0.clone(),
            workflow_id: instance.1.clone(),
            current_run_id: run.clone(),
            has_run: false,
        });
        rows.collect()
    }

    /// The schedules to lock.
    pub(super) fn schedules(&self) -> Vec<(String, String)> {
        self.schedules.iter().cloned().collect()
    }

    pub(super) fn names_current_runs(&self) -> bool {
        !self.currents.is_empty()
    }

    /// The instances to read.
    pub(super) fn instances(&self) -> Vec<Instance> {
        let all: BTreeSet<_> = self.starts.keys().chain(&self.currents).collect();
        all.into_iter().cloned().collect()
    }

    /// The runs that may close.
    pub(super) fn closing(&self, instances: &[InstanceRow]) -> Vec<String> {
        let mut closing = self.closing.clone();
        closing.extend(current(&self.closing_currents, instances));
        closing.into_iter().collect()
    }

    /// The runs of which all tasks are meant.
    pub(super) fn whole(&self, closing: &[String], instances: &[InstanceRow]) -> Vec<String> {
        let mut whole = self.resuming.clone();
        whole.extend(current(&self.resuming_currents, instances));
        whole.extend(closing.iter().cloned());
        whole.into_iter().collect()
    }

    /// The runs to lock.
    pub(super) fn runs(&self, instances: &[InstanceRow], kin: &[KinRow]) -> Vec<String> {
        let mut runs = self.runs.clone();
        runs.extend(current(&self.currents, instances));
        runs.extend(kin.iter().map(|kin| kin.kin_id.clone()));
        runs.into_iter().collect()
    }

    /// The tasks to lock, beside all of the runs that close.
    pub(super) fn tasks(&self, runs: &[RunRow]) -> Vec<String> {
        let mut tasks = self.tasks.clone();
        let open = runs.iter().filter(|run| run.is_open());
        tasks.extend(open.map(|run| format!("{}:0", run.run_id)));
        tasks.into_iter().collect()
    }
}

/// The current runs of instances.
fn current(wanted: &BTreeSet<Instance>, instances: &[InstanceRow]) -> Vec<String> {
    let current: HashMap<_, _> = instances
        .iter()
        .map(|row| ((row.namespace.as_str(), row.workflow_id.as_str()), row))
        .collect();
    let found = wanted.iter().filter_map(|(namespace, workflow)| {
        let row = current.get(&(namespace.as_str(), workflow.as_str()))?;
        Some(row.current_run_id.clone())
    });
    found.collect()
}
