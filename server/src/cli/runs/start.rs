//! `coord runs start` and `coord runs result`.

use std::time::Duration;

use clap::Args;
use coord_engine::client::Handle;
use coord_engine::model::{Ids, Queue, RequestId, TypeName, WorkflowId};
use serde_json::{Value, json};

use super::super::exit::{Failure, NOT_WELL};
use super::super::input;
use super::super::place::Visit;
use super::super::progress::Progress;
use super::super::show::{Shown, list};
use super::Which;

#[derive(Args)]
pub(crate) struct Start {
    /// The type of the workflow, as its worker has it.
    #[arg(value_name = "TYPE", value_parser = input::id::<TypeName>)]
    name: TypeName,
    /// The id by which it is found. An id is used once; without one it gets one.
    #[arg(long, value_parser = input::id::<WorkflowId>)]
    id: Option<WorkflowId>,
    /// What it is given: JSON, `@FILE`, or `-` for standard input. Default: null.
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Where its tasks wait, in place of `DW_V2_QUEUE`.
    #[arg(long, value_parser = input::id::<Queue>)]
    queue: Option<Queue>,
    /// How long it waits before it begins.
    #[arg(long, value_name = "SPAN", value_parser = input::span)]
    delay: Option<Duration>,
    /// How long it may take.
    #[arg(long, value_name = "SPAN", value_parser = input::span)]
    within: Option<Duration>,
    /// Takes the workflow that is there, if the id is in use.
    #[arg(long)]
    or_existing: bool,
    /// Started once for this id, however often the command is given.
    #[arg(long, value_name = "ID", value_parser = input::id::<RequestId>)]
    request: Option<RequestId>,
    /// Waits at most so long for its end, and shows what it returned.
    #[arg(long, value_name = "SPAN", value_parser = input::span)]
    wait: Option<Duration>,
}

impl Start {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let client = visit.client(self.queue.as_ref());
        let id = self.id.unwrap_or_else(|| Ids::random().workflow());
        let input = input::value(self.input.as_deref())?;
        let mut start = client.untyped().start(self.name, id, &input);
        if self.or_existing {
            start = start.or_existing();
        }
        if let Some(request) = self.request {
            start = start.request(request);
        }
        if let Some(delay) = self.delay {
            start = start.delay(delay);
        }
        if let Some(within) = self.within {
            start = start.within(within);
        }
        let started = start.await?;
        if let Some(wait) = self.wait {
            return ended(&started.handle, wait).await;
        }
        let (id, run) = (started.handle.id(), started.handle.run());
        let run = run.map_or_else(String::new, ToString::to_string);
        let word = if started.was_created {
            "started"
        } else {
            "there already"
        };
        let text = list([("workflow", format!("{id}, {word}")), ("run", run.clone())]);
        let document = json!({
            "workflow": id.as_str(), "run": run, "created": started.was_created,
        });
        Ok(Shown::new(document, text))
    }
}

#[derive(Args)]
pub(crate) struct Await {
    #[command(flatten)]
    which: Which,
    /// How long at most.
    #[arg(long, value_name = "SPAN", default_value = "1m", value_parser = input::span)]
    wait: Duration,
}

impl Await {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let handle = self.which.of(visit);
        super::present(&handle).await?;
        ended(&handle, self.wait).await
    }
}

/// What the workflow returned, or that it goes on, or why it failed.
async fn ended(handle: &Handle<Value>, wait: Duration) -> Result<Shown, Failure> {
    let id = handle.id();
    let progress = Progress::begin(format_args!("waiting for the end of {id}"));
    let result = handle.result(wait).await;
    drop(progress);
    Ok(match result? {
        Some(Ok(output)) => {
            let document = json!({ "workflow": id.as_str(), "output": output });
            Shown::new(document, output.to_string())
        }
        Some(Err(failure)) => {
            let text = format!("{id} has ended with a failure: {failure}");
            let document = json!({ "workflow": id.as_str(), "failure": failure });
            Shown::new(document, text).ending(NOT_WELL)
        }
        None => {
            let text = format!("{id} goes on after {wait:?}");
            let document = json!({ "workflow": id.as_str(), "open": true });
            Shown::new(document, text).ending(NOT_WELL)
        }
    })
}
