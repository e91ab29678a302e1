//! What clients and other nodes are told.

use coord_engine::model::{Namespace, Queue, RunId, TypeName, Wait, WorkflowId};
use coord_engine::news::{About, News, What};
use serde::{Deserialize, Serialize};

/// The name of the event that tells of a run.
pub(super) const RUN: &str = "run";
/// The name of the event that tells that news are missing.
pub(super) const MISSED: &str = "missed";

/// Something that happened to a run: ids, states and instants, and never a value of anybody.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RunEvent {
    pub(super) event: String,
    pub(super) namespace: Namespace,
    pub(super) task_queue: Queue,
    pub(super) run_id: RunId,
    pub(super) workflow_id: WorkflowId,
    pub(super) workflow_type: TypeName,
    /// In RFC 3339.
    pub(super) at: String,
    /// What it waits for, how it closed, or why it is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
}

/// News are missing: clients look for themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Missed {
    /// How many, if that is known.
    pub(super) count: Option<u64>,
}

/// What a node publishes to the others.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Bulletin {
    /// How many it could not publish before.
    pub(super) missed: u64,
    pub(super) events: Vec<RunEvent>,
}

impl RunEvent {
    pub(super) fn new(news: &News, about: &About) -> Self {
        let (event, detail) = match news.what {
            What::Started => ("started", None),
            What::Waiting(wait) => ("waiting", wait.map(Wait::as_str)),
            What::Signalled => ("signalled", None),
            What::CancelRequested => ("cancel_requested", None),
            What::Closed(how) => ("closed", Some(how)),
            What::Blocked(reason) => ("blocked", Some(reason.as_str())),
            What::Resumed => ("resumed", None),
        };
        Self {
            event: event.to_owned(),
            namespace: about.namespace.clone(),
            task_queue: about.queue.clone(),
            run_id: news.run.clone(),
            workflow_id: about.workflow.clone(),
            workflow_type: about.name.clone(),
            at: crate::api::shown_instant(news.at).unwrap_or_default(),
            detail: detail.map(str::to_owned),
        }
    }
}
