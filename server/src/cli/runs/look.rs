//! `coord runs describe` and `coord runs history`.

use clap::Args;
use coord_core::{Error, Result};
use coord_engine::client::Handle;
use coord_engine::model::{Attribute, Closed, Event};
use coord_engine::store::{Description, OpenTask};
use serde_json::{Value, json};

use super::super::exit::Failure;
use super::super::place::Visit;
use super::super::show::{Shown, instant, instant_json, list, payload, table};
use super::Which;

pub(super) async fn describe(handle: &Handle<Value>) -> Result<Shown, Failure> {
    let described = handle.describe().await?;
    let described = described.ok_or_else(|| Failure::missing("workflow", handle.id()))?;
    Ok(Shown::new(document(&described), text(&described)))
}

fn document(described: &Description) -> Value {
    let mut document = super::document(&described.run);
    let attributes = described.attributes.iter();
    let attributes = attributes.map(|(name, value)| (name.to_owned(), attribute(value)));
    let more = json!({
        "now": instant_json(described.now),
        "outcome": described.run.closed.as_ref().map(outcome),
        "memo": described.memo,
        "archived": described.archived.as_ref().map(|archived| json!({
            "at": instant_json(archived.at),
            "place": archived.place,
        })),
        "search_attributes": attributes.collect::<serde_json::Map<_, _>>(),
        "tasks": described.tasks.iter().map(task).collect::<Vec<_>>(),
        "failed_attempts": described.attempts.iter().map(|attempt| json!({
            "task": attempt.task.as_str(),
            "number": attempt.number,
            "failure": attempt.failure,
            "ended_at": instant_json(attempt.ended_at),
        })).collect::<Vec<_>>(),
    });
    if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
        document.extend(more);
    }
    document
}

fn attribute(value: &Attribute) -> Value {
    match value {
        Attribute::Keyword(text) => json!(text),
        Attribute::Keywords(texts) => json!(texts),
        Attribute::Integer(number) => json!(number),
        Attribute::Float(number) => json!(number),
        Attribute::Bool(flag) => json!(flag),
        Attribute::Time(at) => instant_json(*at),
    }
}

fn task(task: &OpenTask) -> Value {
    json!({
        "task": task.task.as_str(),
        "kind": task.kind.as_str(),
        "name": task.name.as_str(),
        "status": task.status,
        "available_at": instant_json(task.available_at),
        "owner": task.owner,
        "attempt": task.attempt,
        "recoveries": task.recoveries,
        "blocked": task.blocked,
        "last_error": task.last_error,
    })
}

/// What a run ended with, and why it did not end well.
pub(super) fn outcome(closed: &Closed) -> Value {
    match closed {
        Closed::Completed(output) => json!({ "output": payload(output) }),
        Closed::Failed(failure)
        | Closed::Cancelled(failure)
        | Closed::Terminated(failure)
        | Closed::TimedOut(failure) => json!({ "failure": failure }),
        Closed::ContinuedAsNew(run) => json!({ "continued_as": run.as_str() }),
    }
}

fn text(described: &Description) -> String {
    let run = &described.run;
    let closed = run.closed.as_ref();
    let memo = &described.memo;
    let mut text = list([
        ("workflow", run.workflow.to_string()),
        ("type", run.name.to_string()),
        ("status", run.status.as_str().to_owned()),
        (
            "waits for",
            run.wait.map_or("", |wait| wait.as_str()).to_owned(),
        ),
        ("run", format!("{}, number {}", run.run, run.number)),
        ("queue", run.queue.to_string()),
        ("started", instant(run.started_at)),
        ("closed", run.closed_at.map_or_else(String::new, instant)),
        ("reason", closed.map_or("", Closed::reason).to_owned()),
        (
            "outcome",
            closed.map_or_else(String::new, |closed| outcome(closed).to_string()),
        ),
        ("events", run.history_length.to_string()),
        (
            "history",
            described
                .archived
                .as_ref()
                .map_or_else(String::new, |archived| {
                    let (at, place) = (instant(archived.at), &archived.place);
                    format!("not here since {at}, but at {place}")
                }),
        ),
        (
            "parent",
            run.parent
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
        ),
        (
            "memo",
            if memo.is_empty() {
                String::new()
            } else {
                Value::Object(memo.clone()).to_string()
            },
        ),
    ]);
    if !described.tasks.is_empty() {
        let rows = described.tasks.iter().map(|task| {
            let why = task.blocked.as_ref().or(task.last_error.as_ref());
            [
                task.kind.as_str().to_owned(),
                task.name.to_string(),
                task.status.clone(),
                instant(task.available_at),
                task.attempt.to_string(),
                task.owner.clone().unwrap_or_default(),
                why.cloned().unwrap_or_default(),
            ]
        });
        text.push('\n');
        let headings = [
            "OPEN TASK",
            "OF",
            "STATUS",
            "DUE",
            "ATTEMPT",
            "OWNER",
            "WHY",
        ];
        text.push_str(&table(headings, rows));
    }
    if !described.attempts.is_empty() {
        let rows = described.attempts.iter().map(|attempt| {
            let (number, failure) = (attempt.number.to_string(), attempt.failure.to_string());
            [number, instant(attempt.ended_at), failure]
        });
        text.push('\n');
        text.push_str(&table(["FAILED ATTEMPT", "ENDED", "FAILURE"], rows));
    }
    text
}

#[derive(Args)]
pub(crate) struct History {
    #[command(flatten)]
    which: Which,
    /// Only the last events.
    #[arg(long, value_name = "COUNT")]
    last: Option<usize>,
}

impl History {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let handle = self.which.of(visit);
        super::present(&handle).await?;
        let history = handle.export().await?;
        let document = serde_json::from_str(&history.to_json()?)
            .map_err(|error| Error::corrupt("reading a history").with_source(error))?;
        let events = history.events();
        let shown = self
            .last
            .map_or(0, |last| events.len().saturating_sub(last));
        let rows = events[shown..]
            .iter()
            .map(row)
            .collect::<Result<Vec<_>>>()?;
        let text = table(["EVENT", "AT", "WHAT", "STEP", "DETAILS"], rows);
        Ok(Shown::new(document, text))
    }
}

/// An event for people: its number, instant, sort and step, and what it carries.
pub(in super::super) fn row(event: &Event) -> Result<[String; 5]> {
    let details = event.record()?.details.unwrap_or_default();
    let value = event
        .payload
        .as_ref()
        .map(|value| payload(value).to_string());
    let both: Vec<_> = [Some(details), value].into_iter().flatten().collect();
    Ok([
        event.seq.to_string(),
        instant(event.at),
        event.kind.name().to_owned(),
        event.step.map_or_else(String::new, |step| step.to_string()),
        short(both.join(" ").trim()),
    ])
}

/// What fits beside the rest; `--json` has all of it.
fn short(text: &str) -> String {
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
