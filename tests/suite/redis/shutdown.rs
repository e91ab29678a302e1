//! The end: releases first, then subscriptions, then connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coord_core::ErrorKind;
use coord_redis::Command;
use coord_tests::need;
use coord_tests::servers::RedisServer;
use coord_tests::wait::eventually;
use tokio::sync::oneshot;

use super::{SOON, connect, key};

async fn connections(server: &RedisServer) -> usize {
    let clients = server
        .command(&["CLIENT", "LIST"])
        .await
        .expect("permitted");
    clients
        .text()
        .lines()
        .filter(|line| line.contains("name=coord-"))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_what_runs_in_the_background_and_closes_everything() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let mut subscription = redis
        .subscribe(&key(&redis, "a").channel(0))
        .await
        .expect("confirmed");
    let (go, gone) = oneshot::channel::<()>();
    let done = Arc::new(AtomicBool::new(false));
    let (work, finished) = (redis.clone(), Arc::clone(&done));
    redis.spawn(async move {
        _ = gone.await;
        let set = Command::new("SET")
            .key(&key(&work, "late"))
            .arg("1")
            .arg("PX")
            .arg(60_000);
        work.run_apart(&set, SOON).await.expect("still connected");
        finished.store(true, Ordering::SeqCst);
    });

    let shutting_down = {
        let redis = redis.clone();
        tokio::spawn(async move { redis.shutdown(SOON).await })
    };
    go.send(()).expect("it waits");
    shutting_down.await.expect("no panic").expect("drained");

    assert!(done.load(Ordering::SeqCst));
    assert_eq!(subscription.next().await, None);
    let error = redis.run(&Command::new("PING")).await.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    eventually(SOON, "no connection is left", || async {
        connections(&server).await == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_says_so_when_work_is_left_after_the_grace() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    redis.spawn(std::future::pending());

    let error = redis
        .shutdown(Duration::from_millis(50))
        .await
        .expect_err("never done");

    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_client_to_go_closes_its_connections() {
    let server = need!(RedisServer::start().await);
    let redis = connect(&server.url()).await;
    let subscription = redis
        .subscribe(&key(&redis, "a").channel(0))
        .await
        .expect("confirmed");
    assert!(connections(&server).await >= 3);

    drop(subscription);
    drop(redis);

    eventually(SOON, "no connection is left", || async {
        connections(&server).await == 0
    })
    .await;
}

#[test]
fn work_goes_on_while_the_runtime_of_the_caller_is_blocked() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (server, redis) = runtime.block_on(async {
        let server = RedisServer::start().await.expect("a server");
        let redis = connect(&server.url()).await;
        (server, redis)
    });
    let (say, said) = std::sync::mpsc::channel();
    let work = redis.clone();
    redis.spawn(async move {
        let reply = work.run_apart(&Command::new("PING"), SOON).await;
        _ = say.send(reply.is_ok());
    });

    // Nothing drives the caller's runtime while its only thread waits here.
    assert_eq!(said.recv_timeout(SOON), Ok(true));
    drop((redis, server));
}
