//! To whom a command goes: the current run of a workflow, or one run and no other.

use axum::Json;
use axum::http::StatusCode;
use coord_engine::client::{Reached, Untyped};
use coord_engine::model::{Namespace, RequestId, RunId, TypeName, WorkflowId};
use coord_engine::store::Target;
use serde::Serialize;
use utoipa::ToSchema;

use super::caller::Caller;
use super::problem::Problem;
use super::runs::of_workflow;
use super::workflows;

/// A workflow, and what is to reach it.
pub(super) struct Addressee {
    pub(super) client: Untyped,
    pub(super) namespace: Namespace,
    pub(super) id: WorkflowId,
    pub(super) target: Target,
}

impl Addressee {
    pub(super) fn current<R>(caller: &Caller<R>, id: WorkflowId) -> Self {
        Self {
            client: caller.client().untyped(),
            namespace: caller.namespace.clone(),
            target: Target::Current(caller.namespace.clone(), id.clone()),
            id,
        }
    }

    /// The run `run`, once it is known to belong to the workflow and its namespace.
    pub(super) async fn run<R>(
        caller: &Caller<R>,
        id: WorkflowId,
        run: RunId,
    ) -> Result<Self, Problem> {
        let client = caller.client().untyped();
        of_workflow(&client, &caller.namespace, &id, &run).await?;
        Ok(Self {
            client,
            namespace: caller.namespace.clone(),
            id,
            target: Target::Run(run),
        })
    }

    pub(super) fn missing(&self) -> Problem {
        workflows::missing(&self.namespace, &self.id)
    }

    pub(super) fn closed(&self, operation: &str) -> Problem {
        let why = match &self.target {
            Target::Run(run) => format!("run {run} of workflow {} has ended", self.id),
            Target::Current(..) => format!("workflow {} has ended", self.id),
        };
        Problem::conflict("run_not_active", why)
            .with("workflow_id", self.id.to_string())
            .with("control_plane_operation", operation)
    }

    /// The run that a command reached, and whether it did so before.
    pub(super) fn reached(
        &self,
        reached: Reached,
        operation: &str,
    ) -> Result<(RunId, bool), Problem> {
        match reached {
            Reached::Now(run) => Ok((run, false)),
            Reached::Before(run) => Ok((run, true)),
            Reached::Full => {
                let why = format!(
                    "workflow {} has not received what it was sent before",
                    self.id
                );
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Err(Problem::new(status, "pending_signals_limit_reached", why))
            }
            Reached::Closed => Err(self.closed(operation)),
            Reached::Missing => Err(self.missing()),
        }
    }

    pub(super) fn receipt(&self, run: &RunId, outcome: &'static str) -> Receipt {
        Receipt {
            namespace: self.namespace.to_string(),
            workflow_id: self.id.to_string(),
            run_id: run.to_string(),
            outcome,
            command_status: "accepted",
            request_id: None,
            retained: false,
            signal_name: None,
        }
    }
}

/// A command that was carried out.
#[derive(Serialize, ToSchema)]
pub(super) struct Receipt {
    namespace: String,
    workflow_id: String,
    /// The run that it reached.
    run_id: String,
    /// `signal_received`, `cancellation_requested`, `terminated` or `repaired`.
    outcome: &'static str,
    /// Always `accepted`.
    command_status: &'static str,
    /// The id under which it was sent.
    request_id: Option<String>,
    /// Whether it was carried out before under this id, and not again.
    retained: bool,
    /// The signal, when it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal_name: Option<String>,
}

impl Receipt {
    /// For a command that was sent as `request`, and perhaps was carried out before.
    pub(super) fn of_request(mut self, request: Option<&RequestId>, retained: bool) -> Self {
        self.request_id = request.map(ToString::to_string);
        self.retained = retained;
        self
    }

    /// For the signal `name`.
    pub(super) fn of_signal(mut self, name: &TypeName) -> Self {
        self.signal_name = Some(name.to_string());
        self
    }
}

/// The answer to a command that takes effect when the workflow gets to it.
pub(super) type Accepted = (StatusCode, Json<Receipt>);
