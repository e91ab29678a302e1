//! Engines as the environment says.

use coord_core::Env;
use coord_engine::EngineConfig;
use coord_engine::wake::Health;
use coord_tests::need::{self, Missing};
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;

use super::{SOON, Stage};

fn config(stage: &Stage, pairs: &[(&str, &str)]) -> EngineConfig {
    let url = format!("sqlite:{}", stage.path("work.db").display());
    let database = [("DATABASE_URL", url.as_str())];
    let env = Env::from_pairs(pairs.iter().copied().chain(database));
    EngineConfig::from_env(&env).expect("valid")
}

#[tokio::test]
async fn what_is_set_without_effect_is_reported() {
    let stage = Stage::new();
    let misspelt = need::unique("DW_V2_LIMIT_PENDING_TIMER");
    let config = config(
        &stage,
        &[
            (misspelt.as_str(), "7"),
            ("WORKFLOW_V2_GUARDRAILS_BOOT", "throw"),
            ("CACHE_DRIVER", "array"),
            ("DW_V2_MULTI_NODE", "true"),
            ("DW_V2_CACHE_VALIDATION_MODE", "fail"),
        ],
    );

    let started = config.start().await;

    started.expect("none of it keeps an engine from its work");
    for (key, field, value) in [
        (
            "engine.config.unknown_variable",
            "variable",
            misspelt.as_str(),
        ),
        (
            "engine.config.without_effect",
            "variable",
            "WORKFLOW_V2_GUARDRAILS_BOOT",
        ),
        ("engine.config.nodes_alone", "drivers", "array"),
    ] {
        recorder().event(key, &[(field, value)], SOON).await;
    }
}

#[tokio::test]
async fn a_redis_that_is_away_at_the_start_is_found_when_it_comes() -> Result<(), Missing> {
    let server = RedisServer::start().await?;
    let url = server.url();
    server.kill().await;
    let stage = Stage::new();
    let config = config(&stage, &[("REDIS_URL", &url)]);

    let engine = config.start().await.expect("Redis is not needed");

    let lost = [("backend", "redis")];
    recorder().event("engine.wake.lost", &lost, SOON).await;
    assert_eq!(engine.wake_health(), Health::Degraded);
    server.restart().await;
    eventually(SOON, "hints pass", || async {
        engine.wake_health() == Health::Healthy
    })
    .await;
    Ok(())
}
