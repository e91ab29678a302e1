//! `coord runs`.

mod change;
mod list;
mod look;
mod start;

use clap::{Args, Subcommand};
use coord_engine::client::Handle;
use coord_engine::flow::Workflow;
use coord_engine::model::{Closed, Run, RunId, Wait, WorkflowId};
use serde_json::{Value, json};

use super::Common;
use super::exit::Failure;
use super::input;
use super::place::Visit;
use super::show::{Shown, instant_json};

pub(super) use look::row as event_line;

#[derive(Subcommand)]
pub(crate) enum Runs {
    /// Lists runs, the youngest first.
    List(list::List),
    /// Shows where a workflow stands: its current run, what it waits for, and what went wrong.
    Describe(Which),
    /// Shows what happened to a workflow. With `--json` it is a document that can be kept, sent
    /// along with a question, and read again.
    History(look::History),
    /// Starts a workflow.
    Start(start::Start),
    /// Waits for the end of a workflow, and shows what it returned.
    Result(start::Await),
    /// Sends a workflow a signal.
    Signal(change::Signal),
    /// Asks a workflow to end. It may clean up first, or refuse.
    Cancel(change::Cancel),
    /// Ends a workflow, whatever it does.
    Terminate(change::Terminate),
    /// Makes a workflow go on that was set aside, with the code that runs now.
    Resume(Which),
}

#[derive(Args)]
pub(crate) struct Which {
    /// The id by which the workflow was started.
    #[arg(value_name = "ID", value_parser = input::id::<WorkflowId>)]
    id: WorkflowId,
}

/// Whatever its type: a handle for looking and commanding asks for none.
const ANY: Workflow<Value, Value> = Workflow::new("any");

impl Runs {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        let shown = match self {
            Self::List(list) => list.run(&visit).await,
            Self::Describe(which) => look::describe(&which.of(&visit)).await,
            Self::History(history) => history.run(&visit).await,
            Self::Start(start) => start.run(&visit).await,
            Self::Result(awaited) => awaited.run(&visit).await,
            Self::Signal(signal) => signal.run(&visit).await,
            Self::Cancel(cancel) => cancel.run(&visit).await,
            Self::Terminate(terminate) => terminate.run(&visit).await,
            Self::Resume(which) => change::resume(&which.of(&visit)).await,
        };
        visit.end().await?;
        shown
    }
}

impl Which {
    fn of(&self, visit: &Visit) -> Handle<Value> {
        visit.client(None).handle(ANY, self.id.clone())
    }
}

/// The workflow is there, or it is said that it is not.
async fn present(handle: &Handle<Value>) -> Result<Run, Failure> {
    let described = handle.describe().await?;
    let described = described.ok_or_else(|| Failure::missing("workflow", handle.id()))?;
    Ok(described.run)
}

/// A run, for programs.
fn document(run: &Run) -> Value {
    json!({
        "namespace": run.namespace.as_str(),
        "workflow": run.workflow.as_str(),
        "run": run.run.as_str(),
        "number": run.number,
        "type": run.name.as_str(),
        "queue": run.queue.as_str(),
        "status": run.status.as_str(),
        "waits_for": run.wait.map(Wait::as_str),
        "history_length": run.history_length,
        "started_at": instant_json(run.started_at),
        "closed_at": run.closed_at.map(instant_json),
        "closed_reason": run.closed.as_ref().map(Closed::reason),
        "parent": run.parent.as_ref().map(RunId::as_str),
    })
}
