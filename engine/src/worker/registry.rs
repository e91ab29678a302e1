//! What a worker can do, by name.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::attempt::Attempt;
use crate::flow::{Activity, Context, Function, Running, Workflow, function};
use crate::model::{Failure, Fingerprint, Payload, TaskKind, TypeName};
use crate::store::Types;

/// An activity function, without its types.
pub(super) type ActivityFunction = dyn Fn(Attempt, Option<Payload>) -> Running + Send + Sync;

/// Functions by name.
#[derive(Default)]
pub(super) struct Registry {
    workflows: HashMap<TypeName, Arc<Function>>,
    activities: HashMap<TypeName, Arc<ActivityFunction>>,
    /// What the code of workflows is, where that was said.
    definitions: HashMap<TypeName, Fingerprint>,
}

impl Registry {
    pub(super) fn workflow<I, O, F, R>(&mut self, workflow: Workflow<I, O>, code: F)
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(Context, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        self.workflows
            .insert(workflow.name(), Arc::new(function(code)));
    }

    pub(super) fn activity<I, O, F, R>(&mut self, activity: Activity<I, O>, code: F)
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(Attempt, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let code = Arc::new(code);
        let function = move |attempt: Attempt, input: Option<Payload>| -> Running {
            let code = Arc::clone(&code);
            Box::pin(async move {
                let values = Arc::clone(attempt.values());
                let output = code(attempt, values.decode(input.as_ref())?).await?;
                Ok(values.encode(&output)?)
            })
        };
        self.activities.insert(activity.name(), Arc::new(function));
    }

    pub(super) fn define(&mut self, name: TypeName, fingerprint: Fingerprint) {
        self.definitions.insert(name, fingerprint);
    }

    /// What its code of this type is, where that was said.
    pub(super) fn fingerprint(&self, name: &TypeName) -> Option<&Fingerprint> {
        self.definitions.get(name)
    }

    /// What its code is, of each type of which that was said.
    pub(super) fn fingerprints(&self) -> Vec<Fingerprint> {
        self.definitions.values().cloned().collect()
    }

    pub(super) fn workflow_named(&self, name: &TypeName) -> Option<&Arc<Function>> {
        self.workflows.get(name)
    }

    pub(super) fn activity_named(&self, name: &TypeName) -> Option<&Arc<ActivityFunction>> {
        self.activities.get(name)
    }

    /// All that it can do, as others see it.
    pub(super) fn types(&self, is_pinned: bool) -> Types {
        Types {
            workflows: self.workflows.keys().cloned().collect(),
            activities: self.activities.keys().cloned().collect(),
            definitions: self.definitions.values().cloned().collect(),
            is_pinned,
        }
    }

    pub(super) fn names(&self, kind: TaskKind) -> Vec<TypeName> {
        match kind {
            TaskKind::Workflow => self.workflows.keys().cloned().collect(),
            TaskKind::Activity => self.activities.keys().cloned().collect(),
        }
    }
}
