//! An engine as the environment says, on every dialect that others reach.

use std::time::Duration;

use coord_core::Env;
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Failure, WorkflowId};
use coord_engine::wake::Health;
use coord_engine::{Engine, EngineConfig};

use crate::stage::Stage;

const TWICE: Workflow<u32, u32> = Workflow::new("tests.twice");
/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(1);

async fn twice(_: Context, number: u32) -> Result<u32, Failure> {
    Ok(number * 2)
}

/// The parts of `postgres://user:password@host:port/database`, or of the path of a file.
fn parts(address: &str) -> Vec<(&'static str, String)> {
    let Some((scheme, rest)) = address.split_once("://") else {
        return vec![
            ("DB_CONNECTION", "sqlite".to_owned()),
            ("DB_DATABASE", address.to_owned()),
        ];
    };
    let connection = if scheme == "mysql" {
        "mariadb"
    } else {
        "pgsql"
    };
    let (place, database) = rest.rsplit_once('/').expect("a database");
    let (who, place) = place.rsplit_once('@').unwrap_or(("", place));
    let (user, password) = who.split_once(':').unwrap_or((who, ""));
    let (host, port) = place.split_once(':').unwrap_or((place, ""));
    let pairs = [
        ("DB_CONNECTION", connection),
        ("DB_HOST", host),
        ("DB_PORT", port),
        ("DB_DATABASE", database),
        ("DB_USERNAME", user),
        ("DB_PASSWORD", password),
    ];
    pairs.map(|(name, value)| (name, value.to_owned())).into()
}

pub(crate) async fn an_engine_is_what_its_environment_says(stage: Stage) {
    let Some(address) = stage.database.address() else {
        return;
    };
    let is_pooled = stage.database.is_pooled().to_string();
    let more = [
        ("COORD_ENGINE_POOLER", is_pooled),
        ("WORKFLOW_V2_NAMESPACE", "shop".to_owned()),
        ("DW_V2_QUEUE", "orders".to_owned()),
        ("CACHE_DRIVER", "database".to_owned()),
    ];
    let env = Env::from_pairs(parts(&address).into_iter().chain(more));
    let config = EngineConfig::from_env(&env).expect("valid");

    let engine: Engine = config.start().await.expect("the database is there");

    let client = || engine.client(config.namespace.clone(), config.queue.clone());
    let id = WorkflowId::new("w").expect("an id");
    let started = client().start(TWICE, id.clone(), &3).await;
    assert!(started.expect("started").was_created);
    // Whoever was told of the same place by other means goes on with it.
    let other = stage.database.engine().await;
    let namespace = || coord_engine::model::Namespace::new("shop").expect("a name");
    let queue = || coord_engine::model::Queue::new("orders").expect("a name");
    let _worker = other
        .worker(namespace(), queue())
        .workflow(TWICE, twice)
        .start();
    let done = client().handle(TWICE, id).result(SOON).await;
    assert_eq!(done.expect("an answer"), Some(Ok(6)));
    assert_ne!(engine.wake_health(), Health::Alone);
}
