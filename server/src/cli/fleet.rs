//! `coord fleet`.

use std::fmt::Write as _;

use clap::Args;
use coord_engine::compatibility::Supported;
use coord_engine::model::Queue;
use coord_engine::store::{Census, Role, WorkerFilter, WorkerRecord};
use serde_json::{Value, json};

use super::Common;
use super::exit::Failure;
use super::input;
use super::place::Visit;
use super::show::{Shown, instant, instant_json, table};

/// The workers that live, their processes, and who does what one process does for all.
#[derive(Args)]
pub(crate) struct Fleet {
    /// Only workers of this queue.
    #[arg(long, value_parser = input::id::<Queue>)]
    queue: Option<Queue>,
    /// Those of all namespaces.
    #[arg(long)]
    all: bool,
}

impl Fleet {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        let shown = self.looked(&visit).await;
        visit.end().await?;
        shown
    }

    async fn looked(self, visit: &Visit) -> Result<Shown, Failure> {
        let filter = WorkerFilter {
            namespace: (!self.all).then(|| visit.namespace().clone()),
            queue: self.queue,
        };
        let workers = visit.engine().workers(&filter).await?;
        let census = visit.engine().census().await?;
        let headings = [
            "WORKER", "NODE", "HOST", "PROCESS", "QUEUE", "BUILD", "SUPPORTS", "STATUS", "SINCE",
        ];
        let mut text = table(headings, workers.iter().map(row));
        let (live, silent) = (census.nodes.live, census.nodes.silent.count);
        _ = writeln!(text, "\n{live} processes live, {silent} are silent\n");
        let roles = Role::ALL.map(|role| held(role, &census));
        let rows = roles.iter().map(|held| {
            let (owner, until) = match &held.by {
                Some((owner, until)) => (owner.clone(), until.clone()),
                None => ("nobody".to_owned(), String::new()),
            };
            [held.role.as_str().to_owned(), owner, until]
        });
        text.push_str(&table(["ROLE", "HELD BY", "UNTIL"], rows));
        let document = json!({
            "workers": workers.iter().map(document).collect::<Vec<_>>(),
            "processes": { "live": census.nodes.live, "silent": census.nodes.silent.count },
            "roles": roles.iter().map(|held| json!({
                "role": held.role.as_str(),
                "holder": held.by.as_ref().map(|(owner, _)| owner),
                "until": held.by.as_ref().map(|(_, until)| until),
            })).collect::<Vec<_>>(),
        });
        Ok(Shown::new(document, text))
    }
}

/// A role, and who has it until when.
struct Held {
    role: Role,
    by: Option<(String, String)>,
}

fn held(role: Role, census: &Census) -> Held {
    let row = census.roles.iter().find(|row| row.role == role);
    let row = row.filter(|_| census.is_held(role));
    Held {
        role,
        by: row.and_then(|row| Some((row.holder.as_ref()?.to_string(), instant(row.expires_at)))),
    }
}

fn supports(supported: &Supported) -> String {
    match supported {
        Supported::All => "*".to_owned(),
        Supported::Only(builds) => {
            let builds: Vec<_> = builds.iter().map(ToString::to_string).collect();
            builds.join(",")
        }
    }
}

fn status(worker: &WorkerRecord) -> &'static str {
    if worker.is_draining {
        "draining"
    } else {
        "active"
    }
}

fn row(worker: &WorkerRecord) -> [String; 9] {
    let own = &worker.enlistment;
    [
        own.worker.clone(),
        worker.node.clone(),
        own.host.clone().unwrap_or_default(),
        worker.pid.to_string(),
        own.queue.to_string(),
        own.current
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        supports(&own.supported),
        status(worker).to_owned(),
        instant(worker.started_at),
    ]
}

fn document(worker: &WorkerRecord) -> Value {
    let own = &worker.enlistment;
    json!({
        "worker": own.worker,
        "owner": own.owner.as_str(),
        "node": worker.node,
        "host": own.host,
        "pid": worker.pid,
        "namespace": own.namespace.as_str(),
        "queue": own.queue.as_str(),
        "build": own.current.as_ref().map(ToString::to_string),
        "supports": supports(&own.supported),
        "status": status(worker),
        "started_at": instant_json(worker.started_at),
        "recorded_at": instant_json(worker.recorded_at),
        "expires_at": instant_json(worker.expires_at),
    })
}
