//! Commands to a workflow that was started.

use clap::Args;
use coord_core::Error;
use coord_engine::client::{Handle, Reached};
use coord_engine::model::{RequestId, TypeName};
use coord_engine::store::Target;
use serde_json::{Value, json};

use super::super::exit::Failure;
use super::super::input;
use super::super::place::Visit;
use super::super::show::Shown;
use super::{Which, present};

#[derive(Args)]
pub(crate) struct Signal {
    #[command(flatten)]
    which: Which,
    /// The name of the signal.
    #[arg(value_parser = input::id::<TypeName>)]
    name: TypeName,
    /// What it carries: JSON, `@FILE`, or `-` for standard input. Default: null.
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    #[command(flatten)]
    once: Once,
}

#[derive(Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: Which,
    /// Why, for the workflow and for people.
    #[arg(long, default_value = "cancelled by an operator")]
    reason: String,
    #[command(flatten)]
    once: Once,
}

#[derive(Args)]
pub(crate) struct Terminate {
    #[command(flatten)]
    which: Which,
    /// Why, for people.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    once: Once,
}

#[derive(Args)]
struct Once {
    /// Carried out once for this id, however often the command is given.
    #[arg(long, value_name = "ID", value_parser = input::id::<RequestId>)]
    request: Option<RequestId>,
}

impl Signal {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let value = input::value(self.input.as_deref())?;
        let handle = self.which.of(visit);
        let target = Target::Current(visit.namespace().clone(), handle.id().clone());
        let client = visit.client(None).untyped();
        let id = handle.id();
        match client
            .signal(target, self.name, &value, self.once.request)
            .await?
        {
            Reached::Now(_) | Reached::Before(_) => Ok(done(&handle, "was sent the signal")),
            Reached::Closed => Err(Error::invalid(format!("workflow {id} has ended")).into()),
            Reached::Full => Err(Error::unavailable(format!(
                "workflow {id} has not received as many signals as may wait for it: send it again \
                 when it has"
            ))
            .into()),
            Reached::Missing => Err(Failure::missing("workflow", id)),
        }
    }
}

impl Cancel {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let handle = self.which.of(visit);
        present(&handle).await?;
        let mut call = handle.cancel(&self.reason);
        if let Some(request) = self.once.request {
            call = call.request(request);
        }
        call.await?;
        Ok(done(&handle, "was asked to end"))
    }
}

impl Terminate {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let handle = self.which.of(visit);
        present(&handle).await?;
        let mut call = handle.terminate(&self.reason);
        if let Some(request) = self.once.request {
            call = call.request(request);
        }
        call.await?;
        Ok(done(&handle, "has ended"))
    }
}

pub(super) async fn resume(handle: &Handle<Value>) -> Result<Shown, Failure> {
    present(handle).await?;
    handle.resume().await?;
    Ok(done(handle, "goes on"))
}

fn done(handle: &Handle<Value>, what: &str) -> Shown {
    let id = handle.id();
    let document = json!({ "workflow": id.as_str(), "done": true });
    Shown::new(document, format!("{id} {what}"))
}
