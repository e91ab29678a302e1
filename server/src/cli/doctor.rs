//! `coord doctor`.

use std::time::Duration;

use clap::Args;
use coord_core::Env;
use coord_engine::doctor::{Diagnosis, Finding};
use coord_engine::health::Status;
use coord_redis::Redis;
use serde_json::{Value, json};

use super::Common;
use super::exit::{Failure, NOT_WELL, told};
use super::place::Visit;
use super::show::{Shown, table};

/// How long what runs in the background may take to end: nothing was begun that needs it.
const GRACE: Duration = Duration::from_secs(1);

/// Looks for what is wrong with what nodes stand on: the database with its settings, indexes and
/// plans, what stands in between, and Redis where the environment says that there is one. Each finding
/// has its remedy. Ends with 1 when something keeps work from being done right.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Ends with 1 on warnings as well.
    #[arg(long)]
    strict: bool,
}

/// A finding, as it is shown.
struct Row {
    name: String,
    category: &'static str,
    status: Status,
    found: String,
    remedy: String,
}

impl From<&Finding> for Row {
    fn from(finding: &Finding) -> Self {
        Self {
            name: finding.name.to_owned(),
            category: finding.category.as_str(),
            status: finding.status,
            found: finding.found.clone(),
            remedy: finding.remedy.to_owned(),
        }
    }
}

impl Doctor {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        let Diagnosis { findings, .. } = visit.engine().doctor().await;
        visit.end().await?;
        let mut rows: Vec<_> = findings.iter().map(Row::from).collect();
        let env = Env::process();
        if coord_redis::Config::is_placed(&env)? {
            rows.extend(redis(&env).await);
        }
        Ok(self.shown(&rows))
    }

    fn shown(&self, rows: &[Row]) -> Shown {
        let worst = rows.iter().map(|row| row.status).max();
        let worst = worst.unwrap_or(Status::Ok);
        let from = if self.strict {
            Status::Warning
        } else {
            Status::Error
        };
        let documents: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({
                    "name": row.name, "category": row.category, "status": row.status.as_str(),
                    "found": row.found, "remedy": row.remedy,
                })
            })
            .collect();
        let mut text = table(
            ["CHECK", "STATUS", "FOUND"],
            rows.iter().map(|row| {
                [
                    row.name.clone(),
                    row.status.as_str().to_owned(),
                    row.found.clone(),
                ]
            }),
        );
        let advised = rows.iter().filter(|row| !row.remedy.is_empty());
        for (place, row) in advised.enumerate() {
            if place == 0 {
                text.push('\n');
            }
            for part in [row.name.as_str(), ": ", row.remedy.as_str(), "\n"] {
                text.push_str(part);
            }
        }
        let document = json!({ "status": worst.as_str(), "findings": documents });
        Shown::new(document, text).ending(if worst >= from { NOT_WELL } else { 0 })
    }
}

/// What is found of Redis. Without it hints take another way or a second, but locks, leases and
/// limits stand on it.
async fn redis(env: &Env) -> Vec<Row> {
    let row = |name: &str, status, found: String, remedy: &str| Row {
        name: name.to_owned(),
        category: "acceleration",
        status,
        found,
        remedy: remedy.to_owned(),
    };
    let redis = match Redis::from_env(env).await {
        Ok(redis) => redis,
        Err(error) => {
            let remedy = "see that it runs, and that this process reaches it as COORD_REDIS_URL or REDIS_* say";
            return vec![row("redis", Status::Warning, told(&error), remedy)];
        }
    };
    let server = redis.server();
    let version = format!("{:?} {}", server.kind, server.version);
    let evicts = server.evicts.clone();
    // Nothing was begun that has to end.
    _ = redis.shutdown(GRACE).await;
    let policy = match evicts {
        None => row(
            "redis_eviction",
            Status::Ok,
            "nothing is evicted that must not vanish".to_owned(),
            "",
        ),
        Some(policy) => row(
            "redis_eviction",
            Status::Warning,
            format!(
                "memory is bounded and maxmemory-policy is {policy}: locks, leases and queues may vanish before their time"
            ),
            "set maxmemory-policy to noeviction, and keep caches on a server of their own",
        ),
    };
    vec![row("redis", Status::Ok, version, ""), policy]
}
