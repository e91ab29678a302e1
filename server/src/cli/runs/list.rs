//! `coord runs list`.

use clap::Args;
use coord_core::Error;
use coord_engine::model::{Run, RunId, RunStatus, Timestamp, TypeName};
use coord_engine::store::{Filter, Listing};
use serde_json::json;

use super::super::exit::Failure;
use super::super::input;
use super::super::place::Visit;
use super::super::show::{Shown, instant, more, table};

#[derive(Args)]
pub(crate) struct List {
    /// Only runs that stand so: pending, running, waiting, completed, failed, cancelled, terminated.
    /// May be given several times.
    #[arg(long, value_parser = status)]
    status: Vec<RunStatus>,
    /// Only runs of this type.
    #[arg(long = "type", value_name = "NAME", value_parser = input::id::<TypeName>)]
    name: Option<TypeName>,
    /// Only workflows whose ids begin so.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// From where the page before ended, as it says.
    #[arg(long, value_name = "PLACE", value_parser = place)]
    after: Option<(Timestamp, RunId)>,
}

fn status(word: &str) -> Result<RunStatus, String> {
    RunStatus::from_word(word).ok_or_else(|| {
        "it is one of pending, running, waiting, completed, failed, cancelled and terminated"
            .to_owned()
    })
}

/// The end of a page: when its last run was started, and which that is.
fn place(text: &str) -> Result<(Timestamp, RunId), String> {
    let of = || Error::invalid("a page ends at what it says itself");
    let read = || {
        let (at, run) = text.split_once(':').ok_or_else(of)?;
        let at = at.parse().map_err(|_| of())?;
        Ok((Timestamp::from_micros(at), RunId::new(run)?))
    };
    read().map_err(|error: Error| error.message().to_owned())
}

impl List {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let client = visit.client(None);
        let listing = Listing {
            filter: Filter {
                name: self.name,
                statuses: self.status,
                id_prefix: self.prefix,
                ..Filter::all(client.namespace().clone())
            },
            limit: self.limit,
            after: self.after,
        };
        let page = client.list(&listing).await?;
        let next = page
            .next
            .map(|(at, run)| format!("{}:{run}", at.as_micros()));
        let mut text = table(
            [
                "WORKFLOW",
                "TYPE",
                "STATUS",
                "WAITS FOR",
                "EVENTS",
                "STARTED",
                "CLOSED",
            ],
            page.runs.iter().map(row),
        );
        if let Some(next) = &next {
            text.push_str(&more(next));
        }
        let runs: Vec<_> = page.runs.iter().map(super::document).collect();
        Ok(Shown::new(json!({ "runs": runs, "next": next }), text))
    }
}

fn row(run: &Run) -> [String; 7] {
    [
        run.workflow.to_string(),
        run.name.to_string(),
        run.status.as_str().to_owned(),
        run.wait.map_or("", |wait| wait.as_str()).to_owned(),
        run.history_length.to_string(),
        instant(run.started_at),
        run.closed_at.map_or_else(String::new, instant),
    ]
}
