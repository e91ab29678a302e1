use std::net::{Ipv4Addr, SocketAddr};

use super::*;
use crate::{env, need, resp::Connection, servers::RedisServer, wait::eventually};

const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> NodeProcess {
    Program::at("/bin/sh").args(["-c", script]).start().unwrap()
}

#[tokio::test]
async fn a_process_answers_line_by_line() {
    let mut node = shell("while read -r line; do echo \"got $line\"; done; echo end; exit 3");

    node.send("one").await.unwrap();
    node.send("two").await.unwrap();
    assert_eq!(node.next_line(SOON).await.as_deref(), Some("got one"));
    assert_eq!(node.line_starting("got t", SOON).await, "got two");

    node.close_stdin();
    assert_eq!(node.wait(SOON).await, Some(Exit::Code(3)));
    assert_eq!(node.next_line(SOON).await.as_deref(), Some("end"));
    assert_eq!(node.next_line(SOON).await, None);
}

#[tokio::test]
async fn a_process_that_says_nothing_in_time_has_no_line() {
    let mut node = shell("read -r line");

    assert_eq!(node.next_line(Duration::from_millis(50)).await, None);
    assert_eq!(node.wait(Duration::from_millis(50)).await, None);
}

#[tokio::test]
async fn a_killed_process_runs_no_handler_and_a_terminated_one_does() {
    const SCRIPT: &str =
        "trap 'echo handled; exit 0' TERM; echo ready; while read -r l; do :; done";
    let mut killed = shell(SCRIPT);
    let mut terminated = shell(SCRIPT);
    killed.line_starting("ready", SOON).await;
    terminated.line_starting("ready", SOON).await;

    terminated.terminate();

    assert_eq!(killed.kill().await, Exit::Signal(9));
    assert_eq!(killed.next_line(SOON).await, None);
    // The shell runs its handler once `read` is over.
    terminated.close_stdin();
    assert_eq!(terminated.line_starting("handled", SOON).await, "handled");
    assert_eq!(terminated.wait(SOON).await, Some(Exit::Code(0)));
}

#[tokio::test]
async fn a_paused_process_stands_still() {
    let mut node = shell("while read -r line; do echo \"$line\"; done");
    node.pause().await;

    node.send("hello").await.unwrap();
    assert_eq!(node.next_line(Duration::from_millis(100)).await, None);

    node.resume().await;
    assert_eq!(node.next_line(SOON).await.as_deref(), Some("hello"));
}

#[tokio::test]
async fn what_a_process_complains_about_is_kept() {
    let node = shell("echo oops >&2");

    eventually(SOON, "the complaint is read", || async {
        node.stderr() == ["oops"]
    })
    .await;
}

/// Turns the next test into the parent that is killed.
const PARENT: &str = "COORD_TEST_PARENT";

#[tokio::test]
async fn a_parent_that_only_waits_for_its_end() {
    if env::text(PARENT).is_none() {
        return;
    }
    let server = RedisServer::start().await.expect("the real test has one");
    // A thread that ends must not take the server along.
    println!("\nserver {}", server.port());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_server_dies_with_the_process_that_started_it() {
    drop(need!(RedisServer::start().await));
    let mut parent = Program::at(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("process::tests::a_parent_that_only_waits_for_its_end")
        .env(PARENT, "1")
        .start()
        .unwrap();
    let line = parent.line_starting("server ", SOON).await;
    let port = line["server ".len()..].parse().unwrap();
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Connection::open(addr)
        .await
        .unwrap()
        .command(&["PING"])
        .await
        .unwrap();

    parent.kill().await;

    eventually(SOON, "the server is gone", || async {
        Connection::open(addr).await.is_err()
    })
    .await;
}
