use std::time::{Duration, Instant};

use super::*;
use crate::{
    need,
    resp::{Connection, Resp, Result},
    servers::RedisServer,
};

/// Long against an answer on loopback, short against the length of the run.
const SILENCE: Duration = Duration::from_millis(150);

async fn through(proxy: &FaultProxy) -> Connection {
    Connection::open(proxy.addr()).await.unwrap()
}

async fn value(server: &RedisServer, key: &str) -> String {
    server.command(&["GET", key]).await.unwrap().text()
}

async fn is_silent(answer: impl Future<Output = Result<Resp>>) -> bool {
    tokio::time::timeout(SILENCE, answer).await.is_err()
}

#[tokio::test]
async fn a_healthy_proxy_passes_everything() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let long = "x".repeat(1 << 20);

    let mut client = through(&proxy).await;
    client.command(&["SET", "long", &long]).await.unwrap();

    assert_eq!(client.command(&["GET", "long"]).await.unwrap().text(), long);
    assert_eq!((proxy.connections_made(), proxy.live_connections()), (1, 1));
}

#[tokio::test]
async fn a_cut_ends_the_open_connections_and_no_later_one() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut before = through(&proxy).await;
    before.command(&["PING"]).await.unwrap();

    proxy.cut().await;

    assert_eq!(proxy.live_connections(), 0);
    before.command(&["PING"]).await.unwrap_err();
    through(&proxy).await.command(&["PING"]).await.unwrap();
    assert_eq!(proxy.connections_made(), 2);
}

#[tokio::test]
async fn in_a_hole_nothing_is_executed_and_nothing_closes() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut old = through(&proxy).await;
    old.command(&["SET", "n", "1"]).await.unwrap();

    proxy.hole();

    assert!(is_silent(old.command(&["INCR", "n"])).await);
    assert_eq!(value(&server, "n").await, "1");
    assert_eq!(proxy.live_connections(), 1);
}

#[tokio::test]
async fn in_a_hole_a_connection_is_accepted_and_the_server_hears_nothing_of_it() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let received = async || {
        let received = server.info("total_connections_received").await.unwrap();
        received.parse::<u32>().unwrap()
    };
    let before = received().await;

    proxy.hole();

    assert!(is_silent(through(&proxy).await.command(&["PING"])).await);
    assert_eq!(proxy.connections_made(), 1);
    assert_eq!(received().await, before + 1, "with the one that asks");
}

#[tokio::test]
async fn healing_a_hole_cuts_what_lost_bytes_in_it() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut old = through(&proxy).await;
    old.command(&["PING"]).await.unwrap();
    proxy.hole_down();
    assert!(is_silent(old.command(&["INCR", "n"])).await);

    proxy.heal().await;

    old.receive().await.unwrap_err();
    assert_eq!(
        through(&proxy)
            .await
            .command(&["GET", "n"])
            .await
            .unwrap()
            .text(),
        "1"
    );
}

#[tokio::test]
async fn healing_a_hole_that_nothing_fell_into_keeps_the_connection() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    client.command(&["PING"]).await.unwrap();

    proxy.hole();
    proxy.heal().await;

    client.command(&["PING"]).await.unwrap();
    assert_eq!(proxy.connections_made(), 1);
}

#[tokio::test]
async fn a_hole_hides_from_the_server_that_its_client_is_gone() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    client
        .command(&["CLIENT", "SETNAME", "ghost"])
        .await
        .unwrap();

    proxy.hole();
    drop(client);

    tokio::time::sleep(SILENCE).await;
    assert!(
        server
            .command(&["CLIENT", "LIST"])
            .await
            .unwrap()
            .text()
            .contains("name=ghost")
    );
}

#[tokio::test]
async fn a_refusing_proxy_keeps_old_connections_and_takes_no_new_one() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut old = through(&proxy).await;
    old.command(&["PING"]).await.unwrap();

    proxy.refuse().await;

    assert!(Connection::open(proxy.addr()).await.is_err());
    old.command(&["PING"]).await.unwrap();

    proxy.heal().await;

    through(&proxy).await.command(&["PING"]).await.unwrap();
}

#[tokio::test]
async fn a_delay_makes_every_round_trip_longer() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    client.command(&["PING"]).await.unwrap();
    proxy.delay(Duration::from_millis(60));

    let start = Instant::now();
    client.command(&["PING"]).await.unwrap();

    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn requests_that_are_delayed_together_arrive_together() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    client.command(&["PING"]).await.unwrap();
    proxy.delay_requests(Duration::from_millis(100));

    let start = Instant::now();
    for _ in 0..10 {
        client.send(&["INCR", "n"]).await.unwrap();
    }
    for n in 1..=10 {
        assert_eq!(client.receive().await.unwrap(), Resp::Int(n));
    }

    assert!(
        start.elapsed() < Duration::from_millis(900),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_lost_reply_leaves_its_request_executed() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    client.command(&["PING"]).await.unwrap();

    proxy.lose_next_reply();

    client.command(&["INCR", "n"]).await.unwrap_err();
    assert_eq!(value(&server, "n").await, "1");
    assert_eq!(
        through(&proxy).await.command(&["INCR", "n"]).await.unwrap(),
        Resp::Int(2)
    );
}

#[tokio::test]
async fn of_several_requests_in_flight_only_the_announced_one_loses_its_reply() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    let lost = proxy.lose_reply_to(b"second");

    client.send(&["INCR", "first"]).await.unwrap();
    client.send(&["INCR", "second"]).await.unwrap();

    assert_eq!(client.receive().await.unwrap(), Resp::Int(1));
    client.receive().await.unwrap_err();
    assert!(lost.await.ends_with(b"second\r\n"));
    assert_eq!(value(&server, "second").await, "1");
}

#[tokio::test]
async fn a_cut_before_a_request_leaves_it_unexecuted() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    let cut = proxy.cut_before(b"INCR");
    client.command(&["PING"]).await.unwrap();

    client.command(&["INCR", "n"]).await.unwrap_err();

    cut.await;
    assert_eq!(value(&server, "n").await, "");
}

#[tokio::test]
async fn a_request_that_was_announced_is_reported_when_it_passes() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    let claim = proxy.next_request_containing(b"claim");

    client.command(&["SET", "other", "1"]).await.unwrap();
    client.command(&["SET", "claim", "1"]).await.unwrap();

    assert_eq!(
        claim.await,
        b"*3\r\n$3\r\nSET\r\n$5\r\nclaim\r\n$1\r\n1\r\n"
    );
}

#[tokio::test]
async fn a_held_request_reaches_the_server_when_it_is_released() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    let mut hold = proxy.hold_request(b"INCR");

    client.send(&["INCR", "n"]).await.unwrap();
    hold.reached().await;
    assert_eq!(value(&server, "n").await, "");

    hold.release();
    assert_eq!(client.receive().await.unwrap(), Resp::Int(1));
}

#[tokio::test]
async fn a_held_reply_is_that_of_an_executed_request() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    let mut hold = proxy.hold_reply(b"INCR");

    client.send(&["INCR", "n"]).await.unwrap();
    hold.reached().await;
    assert_eq!(value(&server, "n").await, "1");
    assert!(is_silent(client.receive()).await);

    hold.release();
    assert_eq!(client.receive().await.unwrap(), Resp::Int(1));
}

#[tokio::test]
async fn a_cut_ends_a_connection_whose_reply_is_held() {
    let server = need!(RedisServer::start().await);
    let proxy = FaultProxy::start(server.addr()).await;
    let mut client = through(&proxy).await;
    let mut hold = proxy.hold_reply(b"PING");
    client.send(&["PING"]).await.unwrap();
    hold.reached().await;

    proxy.cut().await;

    client.receive().await.unwrap_err();
}

#[tokio::test]
#[should_panic(expected = "healed, or its connection ended, before the LoseReply")]
async fn healing_disarms_what_has_not_happened() {
    let proxy = FaultProxy::start(ports::loopback(ports::free())).await;
    let lost = proxy.lose_next_reply();

    proxy.heal().await;

    lost.await;
}
