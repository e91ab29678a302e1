//! What the server is: version, TLS, eviction.

use coord_core::{Env, ErrorKind};
use coord_redis::{Config, Kept, Redis, ServerKind, Version};
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;

use super::{SOON, config, connect, increment, key};

#[tokio::test(flavor = "multi_thread")]
async fn kind_and_version_are_those_that_the_server_says() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;

    let said = match redis.server().kind {
        ServerKind::Redis => server.info("redis_version").await,
        ServerKind::Valkey => server.info("valkey_version").await,
    };

    let Version { major, minor } = redis.server().version;
    assert!(
        said.expect("it says so")
            .starts_with(&format!("{major}.{minor}."))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_not_read_info_connects_all_the_same() {
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-info"];
    let server = need!(RedisServer::builder().user("app", &rules).start().await);
    let known = connect(&server.url()).await;

    let redis = connect(&server.url_as("app", "secret")).await;

    assert_eq!(redis.server().version, known.server().version);
    assert_eq!(redis.server().kind, known.server().kind);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_a_private_authority_works_for_every_purpose() {
    let server = need!(RedisServer::builder().tls().start().await);
    let redis = Redis::connect(config(&server.tls_url()).ca_file(server.ca_path()))
        .await
        .expect("the authority is trusted");
    let name = key(&redis, "a");

    assert_eq!(increment(&redis, &name).await.expect("command"), 1);
    redis.subscribe(&name.channel(0)).await.expect("subscriber");
    let pop = coord_redis::Command::new("BLPOP")
        .key(&name.part("list"))
        .arg(1);
    let wait = std::time::Duration::from_secs(1);
    redis.run_blocking(&pop, wait).await.expect("pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_an_unknown_authority_is_refused() {
    let server = need!(RedisServer::builder().tls().start().await);

    let deadline = std::time::Duration::from_millis(500);
    let error = Redis::connect(config(&server.tls_url()).deadline(deadline))
        .await
        .expect_err("unknown");

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let causes = coord_core::signals::Detail::error(&error).to_string();
    assert!(causes.contains("TLS handshake"), "{causes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_evict_is_known_to_whoever_keeps_something_in_it() {
    let server = need!(
        RedisServer::builder()
            .max_memory(100_000_000, "allkeys-lru")
            .start()
            .await
    );
    let redis = connect(&server.url()).await;

    redis.keeps(Kept::Leases);

    assert_eq!(redis.server().evicts.as_deref(), Some("allkeys-lru"));
    let fields = [("kept", "leases"), ("policy", "allkeys-lru")];
    recorder().event("redis.server.evicts", &fields, SOON).await;
}

#[tokio::test]
async fn a_misspelt_variable_is_reported_and_changes_nothing() {
    recorder();
    let misspelt = need::unique("COORD_REDIS_DEADLIN");
    let env = Env::from_pairs([("COORD_REDIS_URL", "redis://h"), (misspelt.as_str(), "1s")]);

    Config::from_env(&env).expect("the rest is valid");

    let fields = [("variable", misspelt.as_str())];
    recorder()
        .event("redis.config.unknown_variable", &fields, SOON)
        .await;
}
