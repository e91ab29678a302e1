//! `coord health`.

use std::time::Duration;

use clap::Args;
use coord_core::{Env, Error, ErrorKind, Result};
use coord_redis::Redis;
use serde_json::{Value, json};

use super::Common;
use super::exit::{Failure, NOT_WELL};
use super::input;
use super::place::Visit;
use super::show::{Shown, table};

/// How long what runs in the background may take to end: nothing was begun that needs it.
const GRACE: Duration = Duration::from_secs(1);

/// Asks whether what a node stands on is there: the database with its schema, and Redis where the
/// environment says that there is one. With `--node`, asks a node that runs.
#[derive(Args)]
pub(crate) struct Health {
    /// Asks the node at this address, such as `http://127.0.0.1:8080`, whether it serves.
    #[arg(long, value_name = "URL")]
    node: Option<String>,
    /// Asks it whether it takes traffic.
    #[arg(long, requires = "node")]
    ready: bool,
    /// How long it may take to answer.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = input::span)]
    within: Duration,
}

/// One thing that was looked at.
struct Check {
    name: &'static str,
    result: Result<String>,
}

impl Health {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        if let Some(node) = &self.node {
            return self.ask(node).await;
        }
        let mut checks = vec![Check {
            name: "database",
            result: within(self.within, database(common)).await?,
        }];
        let env = Env::process();
        if coord_redis::Config::is_placed(&env)? {
            checks.push(Check {
                name: "redis",
                result: within(self.within, async { Ok(redis(&env).await) }).await?,
            });
        }
        Ok(shown(&checks))
    }

    async fn ask(&self, node: &str) -> Result<Shown, Failure> {
        let base = node.trim_end_matches('/');
        let path = if self.ready { "ready" } else { "health" };
        let url = format!("{base}/api/{path}");
        let refused = |error: reqwest::Error| {
            let is_address = error.is_builder();
            let kind = if is_address {
                ErrorKind::Invalid
            } else {
                ErrorKind::Unavailable
            };
            let what = format!("asking the node at {node}");
            // The address stands in the message already.
            Error::new(kind, what).with_source(error.without_url())
        };
        let client = reqwest::Client::builder().timeout(self.within).no_proxy();
        let client = client.build().map_err(refused)?;
        let answer = client.get(&url).send().await.map_err(refused)?;
        let status = answer.status();
        let body = answer.text().await.map_err(refused)?;
        let body: Value = serde_json::from_str(&body).unwrap_or(Value::String(body));
        let word = body["status"]
            .as_str()
            .unwrap_or("nothing that a node says");
        let text = format!("{node}: {word} ({})", status.as_u16());
        let document = json!({ "node": node, "status": status.as_u16(), "answer": body });
        let code = if status.is_success() { 0 } else { NOT_WELL };
        Ok(Shown::new(document, text).ending(code))
    }
}

async fn within<T>(
    limit: Duration,
    look: impl Future<Output = Result<Result<T>, Failure>>,
) -> Result<Result<T>, Failure> {
    let late = || Error::timeout(format!("no answer within {limit:?}"));
    match tokio::time::timeout(limit, look).await {
        Ok(looked) => looked,
        Err(_) => Ok(Err(late())),
    }
}

/// Whether the database answers and has a schema. What is wrong with the question is an error.
async fn database(common: &Common) -> Result<Result<String>, Failure> {
    let visit = match Visit::begin(common).await {
        Ok(visit) => visit,
        Err(Failure::Failed(error)) if error.kind() != ErrorKind::Invalid => return Ok(Err(error)),
        Err(failure) => return Err(failure),
    };
    visit.end().await?;
    Ok(Ok(
        "it answers, and its schema is one of this version".to_owned()
    ))
}

async fn redis(env: &Env) -> Result<String> {
    let redis = Redis::from_env(env).await?;
    let (kind, version) = (redis.server().kind, redis.server().version);
    redis.shutdown(GRACE).await?;
    Ok(format!("it answers: {kind:?} {version}"))
}

fn shown(checks: &[Check]) -> Shown {
    let status = |check: &Check| if check.result.is_ok() { "ok" } else { "error" };
    let message = |check: &Check| match &check.result {
        Ok(message) => message.clone(),
        Err(error) => super::exit::told(error),
    };
    let documents: Vec<_> = checks
        .iter()
        .map(|check| {
            json!({ "name": check.name, "status": status(check), "message": message(check) })
        })
        .collect();
    let rows = checks.iter().map(|check| {
        [
            check.name.to_owned(),
            status(check).to_owned(),
            message(check),
        ]
    });
    let is_well = checks.iter().all(|check| check.result.is_ok());
    let word = if is_well { "ok" } else { "error" };
    let text = table(["CHECK", "STATUS", "WHAT"], rows);
    let code = if is_well { 0 } else { NOT_WELL };
    Shown::new(json!({ "status": word, "checks": documents }), text).ending(code)
}
