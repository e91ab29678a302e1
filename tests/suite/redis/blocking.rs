//! The pool for calls that occupy a connection.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_redis::{Command, Reply};
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;

use super::{SOON, connect, increment, key};

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_call_holds_up_no_other_call() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let list = key(&redis, "list");
    let popping = {
        let (redis, pop) = (redis.clone(), Command::new("BLPOP").key(&list).arg(5));
        tokio::spawn(async move { redis.run_blocking(&pop, Duration::from_secs(5)).await })
    };
    eventually(SOON, "the call blocks", || async {
        server
            .info("blocked_clients")
            .await
            .is_ok_and(|count| count == "1")
    })
    .await;

    for expected in 1..=100 {
        assert_eq!(
            increment(&redis, &key(&redis, "n"))
                .await
                .expect("not held up"),
            expected
        );
    }
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
    let redis = connect(&server.url()).await;
    let list = key(&redis, "list");
    let pop = Command::new("BLPOP").key(&list).arg(30);
    let given_up =
        tokio::time::timeout(Duration::from_millis(200), redis.run_blocking(&pop, SOON)).await;
    assert!(given_up.is_err());

    eventually(SOON, "its connection is closed", || async {
        server
            .info("blocked_clients")
            .await
            .is_ok_and(|count| count == "0")
    })
    .await;
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
