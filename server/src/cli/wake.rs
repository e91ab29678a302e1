//! `coord wake`: why work that is there begins late.

use std::time::Duration;

use clap::{Args, Subcommand};
use coord_core::signals::Argument as _;
use coord_engine::model::{Queue, RunId};
use coord_engine::wake::{Health, Subject};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Common;
use super::exit::{Failure, NOT_WELL};
use super::input;
use super::place::Visit;
use super::progress::Progress;
use super::show::{Shown, table};

/// How long it may take until a message of our own comes back: a connection, and the longest time
/// between two looks into the table that carries hints where nothing else does.
const BEGINNING: Duration = Duration::from_secs(10);

#[derive(Subcommand)]
pub(crate) enum Wake {
    /// Says what carries hints from this machine, and whether what is sent through it comes back.
    Snapshot,
    /// Waits for a hint. Give it on one machine, and `wake signal` on another.
    ///
    /// It hears from the moment on at which it says so, and of nothing before: hints are not kept.
    Changed(Changed),
    /// Sends the hint that a commit sends which leaves work behind, and changes nothing.
    Signal(About),
}

#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct About {
    /// Of tasks in this queue, in place of `DW_V2_QUEUE`.
    #[arg(long, value_name = "NAME", value_parser = input::id::<Queue>)]
    queue: Option<Queue>,
    /// Of the end of this run.
    #[arg(long, value_name = "RUN", value_parser = input::id::<RunId>)]
    run: Option<RunId>,
}

#[derive(Args)]
pub(crate) struct Changed {
    #[command(flatten)]
    about: About,
    /// How long at most.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = input::span)]
    wait: Duration,
}

impl Wake {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        let shown = match self {
            Self::Snapshot => snapshot(&visit).await,
            Self::Changed(changed) => changed.run(&visit).await,
            Self::Signal(about) => about.signal(&visit).await,
        };
        visit.end().await?;
        Ok(shown)
    }
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Alone => "alone",
        Health::Healthy => "healthy",
        Health::Degraded => "degraded",
    }
}

fn said(health: Health) -> &'static str {
    match health {
        Health::Alone => {
            "nothing carries hints: each process looks for the others' work once a second"
        }
        Health::Healthy => "hints pass between processes",
        Health::Degraded => {
            "hints do not pass: each process looks for the others' work once a second; see that \
             what CACHE_DRIVER names runs, and that all nodes name the same"
        }
    }
}

async fn until_they_pass(visit: &Visit) -> Health {
    let _progress = Progress::begin("trying whether hints come back");
    visit.engine().until_hints_pass(BEGINNING).await
}

async fn snapshot(visit: &Visit) -> Shown {
    let health = until_they_pass(visit).await;
    let carriers = visit.engine().carriers();
    let named = |kind: coord_engine::wake::Kind| kind.label().unwrap_or_default();
    let documents: Vec<Value> = carriers
        .iter()
        .map(|it| json!({ "backend": named(it.kind), "works": it.works }))
        .collect();
    let rows = carriers.iter().map(|it| {
        let works = if it.works { "yes" } else { "no" };
        [named(it.kind).to_owned(), works.to_owned()]
    });
    let mut text = String::new();
    if !carriers.is_empty() {
        text = table(["BACKEND", "COMES BACK"], rows);
        text.push('\n');
    }
    text.push_str(said(health));
    let document = json!({ "health": word(health), "backends": documents });
    Shown::new(document, text).ending(code(health))
}

const fn code(health: Health) -> u8 {
    match health {
        Health::Healthy => 0,
        Health::Alone | Health::Degraded => NOT_WELL,
    }
}

impl About {
    fn subject(&self, visit: &Visit) -> Subject {
        if let Some(run) = &self.run {
            return Subject::Run(run.clone());
        }
        let queue = self.queue.as_ref().unwrap_or(visit.queue());
        Subject::Queue(visit.namespace().clone(), queue.clone())
    }

    fn name(&self, visit: &Visit) -> String {
        match self.subject(visit) {
            Subject::Run(run) => format!("run {run}"),
            Subject::Queue(namespace, queue) => format!("queue {queue} of namespace {namespace}"),
        }
    }

    async fn signal(self, visit: &Visit) -> Shown {
        let health = until_they_pass(visit).await;
        visit.engine().hint(&self.subject(visit)).await;
        let name = self.name(visit);
        let text = format!("a hint of {name} was sent: {}", said(health));
        let document = json!({ "about": name, "health": word(health) });
        Shown::new(document, text).ending(code(health))
    }
}

impl Changed {
    async fn run(self, visit: &Visit) -> Shown {
        let health = until_they_pass(visit).await;
        let name = self.about.name(visit);
        let (began, news) = (
            Instant::now(),
            visit.engine().news(&self.about.subject(visit)),
        );
        eprintln!("coord: listening for a hint of {name}");
        let has_come = {
            let _progress = Progress::begin("waiting for it");
            news.wait(self.wait).await
        };
        let waited = began.elapsed();
        let text = if has_come {
            format!("a hint of {name} has come after {waited:.1?}")
        } else {
            format!(
                "no hint of {name} has come within {:?}: {}",
                self.wait,
                said(health)
            )
        };
        let document = json!({
            "about": name,
            "changed": has_come,
            "waited_ms": waited.as_millis() as u64,
            "health": word(health),
        });
        Shown::new(document, text).ending(if has_come { 0 } else { NOT_WELL })
    }
}
