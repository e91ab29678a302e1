//! What a workflow has asked for.

use serde::de::DeserializeOwned;

use super::TestKit;
use crate::flow::{Activity, Workflow};
use crate::model::{Event, EventKind, TypeName};

impl TestKit {
    /// The inputs with which workflows have asked for `activity`, oldest first within a run. An
    /// activity that is tried again was asked for once.
    ///
    /// # Panics
    /// When an input is no `I`.
    #[track_caller]
    pub fn dispatched<I: DeserializeOwned, O>(&self, activity: Activity<I, O>) -> Vec<I> {
        let name = activity.name();
        self.inputs(|kind| matches!(kind, EventKind::ActivityScheduled(new) if new.name == name))
    }

    /// The inputs with which workflows have started `workflow` as a child, oldest first within a
    /// run.
    ///
    /// # Panics
    /// When an input is no `I`.
    #[track_caller]
    pub fn children<I: DeserializeOwned, O>(&self, workflow: Workflow<I, O>) -> Vec<I> {
        let name = workflow.name();
        self.inputs(|kind| matches!(kind, EventKind::ChildStarted(child) if child.name == name))
    }

    /// # Panics
    /// When no workflow has asked for `activity`.
    #[track_caller]
    pub fn assert_dispatched<I, O>(&self, activity: Activity<I, O>) {
        assert_ne!(
            self.count(&activity.name()),
            0,
            "{activity:?} was not asked for"
        );
    }

    /// # Panics
    /// When workflows have asked for `activity` more or less often.
    #[track_caller]
    pub fn assert_dispatched_times<I, O>(&self, activity: Activity<I, O>, times: usize) {
        let name = activity.name();
        assert_eq!(self.count(&name), times, "how often {name} was asked for");
    }

    /// # Panics
    /// When a workflow has asked for `activity`.
    #[track_caller]
    pub fn assert_not_dispatched<I, O>(&self, activity: Activity<I, O>) {
        self.assert_dispatched_times(activity, 0);
    }

    /// # Panics
    /// When a workflow has asked for any activity.
    #[track_caller]
    pub fn assert_nothing_dispatched(&self) {
        let asked_for: Vec<_> = self.scheduled().collect();
        assert!(asked_for.is_empty(), "asked for: {asked_for:?}");
    }

    fn count(&self, activity: &TypeName) -> usize {
        self.scheduled().filter(|name| name == activity).count()
    }

    fn scheduled(&self) -> impl Iterator<Item = TypeName> {
        self.events().filter_map(|event| match event.kind {
            EventKind::ActivityScheduled(activity) => Some(activity.name),
            _ => None,
        })
    }

    #[track_caller]
    fn inputs<I: DeserializeOwned>(&self, is_meant: impl Fn(&EventKind) -> bool) -> Vec<I> {
        let values = self.engine.values();
        let meant = self.events().filter(|event| is_meant(&event.kind));
        let read = |event: Event| values.read(event.payload.as_ref());
        let inputs: coord_core::Result<_> = meant.map(read).collect();
        match inputs {
            Ok(inputs) => inputs,
            Err(error) => panic!("an input cannot be read: {error}"),
        }
    }

    fn events(&self) -> impl Iterator<Item = Event> {
        let records = self.memory.events().into_iter();
        records.map(|record| match Event::from_record(record) {
            Ok(event) => event,
            Err(error) => panic!("the store holds what the engine has not written: {error}"),
        })
    }
}
