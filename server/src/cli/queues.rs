//! `coord queues`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;
use coord_engine::model::{Queue, TaskKind};
use coord_engine::store::{Census, MOST_COUNTED, QueueCensus, Tally, WorkerFilter};
use serde_json::{Value, json};

use super::Common;
use super::exit::Failure;
use super::input;
use super::place::Visit;
use super::show::{Shown, age, table};

/// Task queues: what waits in them, since when, what is under way, and who looks there.
#[derive(Args)]
pub(crate) struct Queues {
    /// This queue alone.
    #[arg(value_name = "NAME", value_parser = input::id::<Queue>)]
    queue: Option<Queue>,
}

impl Queues {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        let shown = self.counted(&visit).await;
        visit.end().await?;
        shown
    }

    async fn counted(&self, visit: &Visit) -> Result<Shown, Failure> {
        let census = visit.engine().census().await?;
        let filter = WorkerFilter {
            namespace: Some(visit.namespace().clone()),
            queue: self.queue.clone(),
        };
        let mut workers: BTreeMap<Queue, u64> = BTreeMap::new();
        for worker in visit.engine().workers(&filter).await? {
            *workers.entry(worker.enlistment.queue).or_default() += 1;
        }
        let is_wanted = |queue: &Queue| self.queue.as_ref().is_none_or(|only| only == queue);
        let counted: Vec<_> = census
            .queues
            .iter()
            .filter(|it| it.namespace == *visit.namespace() && is_wanted(&it.queue))
            .collect();
        let mut documents: Vec<Value> = Vec::new();
        let mut rows = Vec::new();
        for it in &counted {
            let looking = workers.get(&it.queue).copied().unwrap_or(0);
            documents.push(document(it, &census, looking));
            rows.push(row(it, &census, looking));
        }
        // One that nothing waits in is a queue nevertheless, if somebody looks there.
        for (queue, looking) in &workers {
            if counted.iter().all(|it| it.queue != *queue) {
                let mut none: [String; 8] = Default::default();
                none[0] = queue.to_string();
                none[7] = looking.to_string();
                rows.push(none);
                documents.push(json!({ "queue": queue.as_str(), "open": 0, "workers": looking }));
            }
        }
        let headings = [
            "QUEUE",
            "TASKS",
            "DUE",
            "OLDEST",
            "LATER",
            "LEASED",
            "SET ASIDE",
            "WORKERS",
        ];
        let mut text = table(headings, rows);
        if census.is_capped() {
            _ = writeln!(text, "\nthere are more: {MOST_COUNTED} tasks were counted");
        }
        let document = json!({ "queues": documents, "is_capped": census.is_capped() });
        Ok(Shown::new(document, text))
    }
}

fn kind(of: TaskKind) -> &'static str {
    of.as_str()
}

fn set_aside(it: &QueueCensus) -> Tally {
    it.blocked_replay
        .and(it.blocked_poison)
        .and(it.blocked_imported)
}

fn row(it: &QueueCensus, census: &Census, workers: u64) -> [String; 8] {
    let leased = match it.expired.count {
        0 => it.leased.count.to_string(),
        expired => format!("{} ({expired} ended)", it.leased.count),
    };
    [
        it.queue.to_string(),
        kind(it.kind).to_owned(),
        it.due.count.to_string(),
        it.due
            .since
            .map_or_else(String::new, |_| age(it.due.age(census.now))),
        it.later.to_string(),
        leased,
        set_aside(it).count.to_string(),
        workers.to_string(),
    ]
}

fn document(it: &QueueCensus, census: &Census, workers: u64) -> Value {
    let tally = |of: Tally| {
        json!({
            "count": of.count,
            "oldest_ms": of.since.map(|_| of.age(census.now).as_millis() as u64),
        })
    };
    json!({
        "queue": it.queue.as_str(),
        "tasks": kind(it.kind),
        "open": it.open,
        "due": tally(it.due),
        "later": it.later,
        "leased": tally(it.leased),
        "expired": tally(it.expired),
        "retrying": tally(it.retrying),
        "overdue": tally(it.overdue),
        "set_aside": tally(set_aside(it)),
        "workers": workers,
    })
}
