//! `coord tail`: what happens, while it happens.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use coord_core::Result;
use coord_engine::client::Client;
use coord_engine::model::{Closed, Event, Run, RunId, Timestamp, WorkflowId};
use coord_engine::store::{Filter, Listing, Period, Target};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Common;
use super::exit::Failure;
use super::input;
use super::place::Visit;
use super::runs::event_line;
use super::show::{Shown, instant, instant_json};

/// How often it looks. Where hints pass nobody waits for this tool, so it may be late.
const EVERY: Duration = Duration::from_millis(500);
/// How late what is committed may be seen: instants are given before commits.
const LATE: Duration = Duration::from_secs(10);
/// How much is read at a time.
const PAGE: u32 = 500;

/// Shows what happens to a workflow while it happens, or which workflows start and end.
///
/// With `--json` each line is a document. It looks twice a second, so what it shows has happened, and may have done so half a second ago.
#[derive(Args)]
pub(crate) struct Tail {
    /// Each event of this workflow, until it has ended. Without it: starts and ends of all.
    #[arg(value_name = "ID", value_parser = input::id::<WorkflowId>)]
    id: Option<WorkflowId>,
    /// Begins with so many events that have happened before.
    #[arg(long, value_name = "COUNT", default_value_t = 10, requires = "id")]
    last: u64,
    /// Ends after so long. Without it: when the workflow does, or at Ctrl-C.
    #[arg(long = "for", value_name = "SPAN", value_parser = input::span)]
    lasting: Option<Duration>,
}

/// Whether whoever reads goes on doing so.
type Reads = bool;

impl Tail {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        let follow = async {
            match &self.id {
                Some(id) => self.of_workflow(&visit, id, common.json).await,
                None => of_namespace(&visit, common.json).await,
            }
        };
        let followed = match self.lasting {
            None => follow.await,
            Some(span) => {
                let ended = tokio::time::timeout_at(Instant::now() + span, follow).await;
                ended.unwrap_or(Ok(()))
            }
        };
        visit.end().await?;
        followed.map(|()| Shown::nothing())
    }

    async fn of_workflow(
        &self,
        visit: &Visit,
        id: &WorkflowId,
        is_json: bool,
    ) -> Result<(), Failure> {
        let client = visit.client(None).untyped();
        let current = Target::Current(visit.namespace().clone(), id.clone());
        let found = client.find(&current).await?;
        let found = found.ok_or_else(|| Failure::missing("workflow", id))?;
        let mut after = found.history_length.saturating_sub(self.last);
        let mut run = found.run;
        loop {
            let read = client.events(&run, after, PAGE).await?;
            let (stands, events) = read.ok_or_else(|| Failure::missing("run", &run))?;
            for event in &events {
                after = event.seq;
                if !print(&of_event(&run, event, is_json)?) {
                    return Ok(());
                }
            }
            if events.len() >= PAGE as usize {
                continue;
            }
            match stands.closed {
                None => tokio::time::sleep(EVERY).await,
                Some(Closed::ContinuedAsNew(next)) => (run, after) = (next, 0),
                Some(_) => return Ok(()),
            }
        }
    }
}

fn print(line: &str) -> Reads {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

fn of_event(run: &RunId, event: &Event, is_json: bool) -> Result<String> {
    let line = event_line(event)?;
    if !is_json {
        let [seq, at, what, step, details] = line;
        let parts = [at, seq, what, step, details];
        let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).collect();
        let parts: Vec<&str> = parts.into_iter().map(String::as_str).collect();
        return Ok(parts.join("  "));
    }
    let details = event.record()?.details;
    let details = details.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
    let document = json!({
        "run": run.as_str(),
        "seq": event.seq,
        "at": instant_json(event.at),
        "event": event.kind.name(),
        "step": event.step,
        "details": details,
        "payload": event.payload.as_ref().map(super::show::payload),
    });
    Ok(document.to_string())
}

/// Starts and ends, in the order of their instants, each once.
async fn of_namespace(visit: &Visit, is_json: bool) -> Result<(), Failure> {
    let client = visit.client(None);
    let mut from = visit.engine().now().await?;
    let namespace = visit.namespace();
    eprintln!("coord: listening for starts and ends in namespace {namespace}; Ctrl-C ends it");
    let mut seen: HashMap<(RunId, bool), Timestamp> = HashMap::new();
    loop {
        let now = visit.engine().now().await?;
        let mut news = Vec::new();
        for is_end in [false, true] {
            for run in since(&client, from, is_end).await? {
                let at = if is_end {
                    run.closed_at
                } else {
                    Some(run.started_at)
                };
                let at = at.unwrap_or(now);
                if seen.insert((run.run.clone(), is_end), at).is_none() {
                    news.push((at, is_end, run));
                }
            }
        }
        news.sort_by_key(|(at, is_end, _)| (*at, *is_end));
        for (at, is_end, run) in &news {
            if !print(&of_run(*at, *is_end, run, is_json)) {
                return Ok(());
            }
        }
        // Never back behind where it began.
        let late = Timestamp::from_micros(now.as_micros() - LATE.as_micros() as i64);
        from = from.max(late);
        seen.retain(|_, at| *at >= from);
        tokio::time::sleep(EVERY).await;
    }
}

/// The runs that have started, or ended, since `from`.
async fn since(client: &Client, from: Timestamp, is_end: bool) -> Result<Vec<Run>> {
    let period = Period {
        from: Some(from),
        until: None,
    };
    let mut filter = Filter::all(client.namespace().clone());
    if is_end {
        filter.closed = period;
    } else {
        filter.started = period;
    }
    let (mut runs, mut after) = (Vec::new(), None);
    loop {
        let listing = Listing {
            filter: filter.clone(),
            limit: PAGE,
            after,
        };
        let page = client.list(&listing).await?;
        runs.extend(page.runs);
        after = page.next;
        if after.is_none() {
            return Ok(runs);
        }
    }
}

fn of_run(at: Timestamp, is_end: bool, run: &Run, is_json: bool) -> String {
    let how = run.closed.as_ref().map_or("closed", Closed::reason);
    let what = if is_end { how } else { "started" };
    if !is_json {
        let (workflow, name) = (&run.workflow, &run.name);
        return format!("{}  {what}  {workflow}  {name}", instant(at));
    }
    let document = json!({
        "at": instant_json(at),
        "event": what,
        "workflow": run.workflow.as_str(),
        "run": run.run.as_str(),
        "type": run.name.as_str(),
        "queue": run.queue.as_str(),
    });
    document.to_string()
}
