//! Scripts: by digest, then whole.

use coord_core::ErrorKind;
use coord_redis::{Config, Redis, Reply, Script};
use coord_tests::need;
use coord_tests::servers::RedisServer;

use super::{connect, get, key};

static SET: Script = Script::new(
    "set",
    "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)",
);
static UNDECLARED: Script = Script::new("broken", "return redis.call('NO-SUCH-COMMAND')");

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_the_server_forgot_costs_one_more_round_trip_and_no_script_load() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let name = key(&redis, "a");
    redis
        .run(&SET.call(&[&name]).arg("1"))
        .await
        .expect("connected");
    server
        .command(&["SCRIPT", "FLUSH"])
        .await
        .expect("permitted");
    server
        .command(&["CONFIG", "RESETSTAT"])
        .await
        .expect("permitted");

    redis
        .run(&SET.call(&[&name]).arg("2"))
        .await
        .expect("sent whole");
    redis
        .run(&SET.call(&[&name]).arg("3"))
        .await
        .expect("known again");

    assert_eq!(get(&redis, &name).await.as_deref(), Some("3"));
    let calls = async |command: &str| {
        server
            .info(&format!("cmdstat_{command}"))
            .await
            .unwrap_or_default()
    };
    assert!(
        calls("evalsha").await.starts_with("calls=2,"),
        "{}",
        calls("evalsha").await
    );
    assert!(
        calls("eval").await.starts_with("calls=1,"),
        "{}",
        calls("eval").await
    );
    assert_eq!(calls("script|load").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acl_that_knows_only_eval_is_enough() {
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-evalsha"];
    let server = need!(RedisServer::builder().user("app", &rules).start().await);
    let redis = connect(&server.url_as("app", "secret")).await;
    let name = key(&redis, "a");

    redis
        .run(&SET.call(&[&name]).arg("1"))
        .await
        .expect("sent whole");

    assert_eq!(get(&redis, &name).await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acl_without_scripts_is_a_plain_error_that_names_the_script() {
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval"];
    let server = need!(RedisServer::builder().user("app", &rules).start().await);
    let redis = connect(&server.url_as("app", "secret")).await;

    let error = redis
        .run(&SET.call(&[&key(&redis, "a")]).arg("1"))
        .await
        .expect_err("refused");

    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().starts_with("set"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_failed_half_way_has_an_unknown_outcome() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;

    let error = redis
        .run(&UNDECLARED.call(&[&key(&redis, "a")]))
        .await
        .expect_err("it fails");

    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_invalid_and_not_shown() {
    let server = need!(RedisServer::builder().password("right").start().await);
    let url = format!("redis://:wrong-secret@127.0.0.1:{}", server.port());
    let config = Config::from_url(&url)
        .expect("valid")
        .deadline(std::time::Duration::from_secs(1));

    let error = Redis::connect(config).await.expect_err("refused");

    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        !coord_core::signals::Detail::error(&error)
            .to_string()
            .contains("wrong-secret")
    );
    let right = format!("redis://:right@127.0.0.1:{}", server.port());
    let redis = connect(&right).await;
    let reply = redis
        .run(&coord_redis::Command::new("PING"))
        .await
        .and_then(Reply::text);
    assert_eq!(reply.expect("connected"), "PONG");
}
