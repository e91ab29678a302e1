//! `coord explain`.

use clap::Args;
use coord_engine::Refusal;
use coord_engine::health::Explanation;
use coord_engine::model::{RunId, WorkflowId};
use coord_engine::store::Target;
use serde_json::{Value, json};

use super::Common;
use super::exit::Failure;
use super::input;
use super::place::Visit;
use super::show::{Shown, instant, instant_json, list};

#[derive(Args)]
pub(crate) struct Explain {
    /// The id by which the workflow was started.
    #[arg(value_name = "ID", value_parser = input::id::<WorkflowId>)]
    id: WorkflowId,
    /// This run of it, in place of the current one.
    #[arg(long, value_name = "RUN", value_parser = input::id::<RunId>)]
    run: Option<RunId>,
}

impl Explain {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        let shown = self.explained(&visit).await;
        visit.end().await?;
        shown
    }

    async fn explained(&self, visit: &Visit) -> Result<Shown, Failure> {
        let client = visit.client(None).untyped();
        let namespace = visit.namespace();
        let target = match &self.run {
            None => Target::Current(namespace.clone(), self.id.clone()),
            Some(run) => Target::Run(run.clone()),
        };
        let run = client.find(&target).await?;
        let is_meant =
            |run: &coord_engine::model::Run| run.workflow == self.id && run.namespace == *namespace;
        if !run.as_ref().is_some_and(is_meant) {
            return Err(match &self.run {
                None => Failure::missing("workflow", &self.id),
                Some(run) => Failure::Missing(format!("workflow {} has no run {run}", self.id)),
            });
        }
        let explained = client.explain(&target).await?;
        let explained = explained.ok_or_else(|| Failure::missing("workflow", &self.id))?;
        Ok(Shown::new(
            document(&self.id, &explained),
            text(&self.id, &explained),
        ))
    }
}

fn document(id: &WorkflowId, it: &Explanation) -> Value {
    json!({
        "workflow": id.as_str(),
        "run": it.run.as_str(),
        "state": it.state.as_str(),
        "refusal": it.refusal.map(Refusal::as_str),
        "row": { "table": it.row.table, "key": it.row.key },
        "since": instant_json(it.since),
        "age_ms": it.age.as_millis() as u64,
        "until": it.until.map(instant_json),
        "message": it.message,
        "action": it.action,
    })
}

fn text(id: &WorkflowId, it: &Explanation) -> String {
    list([
        ("workflow", id.to_string()),
        ("run", it.run.to_string()),
        ("stands", it.state.as_str().to_owned()),
        ("why", it.message.clone()),
        ("refusal", it.refusal.map_or("", Refusal::as_str).to_owned()),
        ("since", instant(it.since)),
        ("for", super::show::age(it.age)),
        ("until", it.until.map_or_else(String::new, instant)),
        ("row", format!("{} {}", it.row.table, it.row.key)),
        ("do", it.action.clone()),
    ])
}
