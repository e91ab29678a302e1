//! The pool for calls that occupy a connection.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_redis::{Command, Reply};
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;

use super::{SOON, connect, connect_patiently, increment, key};

/// So many clients wait in a call.
async fn blocked_becomes(server: &RedisServer, count: &str) {
    eventually(SOON, &format!("{count} are blocked"), || async {
        server
            .info("blocked_clients")
            .await
            .is_ok_and(|told| told == count)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_call_holds_up_no_other_call() {
    let server = need!(RedisServer::start().await);
    let redis = connect_patiently(&server.url()).await;
    let list = key(&redis, "list");
    // Any call that this holds up runs into its deadline.
    let block = SOON * 6;
    let popping = {
        let pop = Command::new("BLPOP").key(&list).arg(block.as_secs());
        let redis = redis.clone();
        tokio::spawn(async move { redis.run_blocking(&pop, block).await })
    };
    blocked_becomes(&server, "1").await;

    for expected in 1..=100 {
        assert_eq!(
            increment(&redis, &key(&redis, "n"))
                .await
                .expect("not held up"),
            expected
        );
    }
    assert!(!popping.is_finished(), "it blocks all the while");
    redis
        .run(&Command::new("RPUSH").key(&list).arg("item"))
        .await
        .expect("not held up");

    let [_, item] = popping
        .await
        .expect("no panic")
        .and_then(Reply::array)
        .expect("popped");
    assert_eq!(item.text().expect("text"), "item");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_call_that_was_given_up_pops_nothing_later() {
    let server = need!(RedisServer::start().await);
    let redis = connect_patiently(&server.url()).await;
    let list = key(&redis, "list");
    let block = SOON * 6;
    let pop = Command::new("BLPOP").key(&list).arg(block.as_secs());
    tokio::select! {
        popped = redis.run_blocking(&pop, block) => panic!("nothing is there: {popped:?}"),
        () = blocked_becomes(&server, "1") => {}
    }

    blocked_becomes(&server, "0").await;
    redis
        .run(&Command::new("RPUSH").key(&list).arg("item"))
        .await
        .expect("connected");

    let length = redis
        .run(&Command::new("LLEN").key(&list))
        .await
        .and_then(Reply::int);
    assert_eq!(length.expect("connected"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_ends_a_blocking_call_as_timeout() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let redis = connect(&proxy.url()).await;
    let list = key(&redis, "list");
    let warm = Command::new("BLPOP").key(&list).arg("0.01");
    redis
        .run_blocking(&warm, Duration::from_millis(10))
        .await
        .expect("connected");
    let swallowed = proxy.lose_reply_to("BLPOP");

    let pop = Command::new("BLPOP").key(&list).arg("0.01");
    let error = redis
        .run_blocking(&pop, Duration::from_millis(10))
        .await
        .expect_err("the reply is lost");

    swallowed.await;
    assert_eq!(error.kind(), ErrorKind::Timeout);
    redis
        .run_blocking(&warm, Duration::from_millis(10))
        .await
        .expect("a fresh connection");
}
