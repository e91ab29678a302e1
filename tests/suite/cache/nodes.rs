//! Several processes.

use std::time::Duration;

use coord_tests::need;
use coord_tests::process::{NodeProcess, Program};
use tokio::time::Instant;

use super::{Loads, PLACEHOLDER, SOON, Stage, name, options, text};

impl Stage {
    async fn node(&self) -> NodeProcess {
        let node = Program::at(env!("CARGO_BIN_EXE_cache_node"))
            .args([&self.server.url(), &self.prefix])
            .start();
        let mut node = node.expect("cargo built it");
        node.line_starting("ready", SOON).await;
        node
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_processes_that_miss_together_load_once_a_key() {
    let stage = need!(Stage::new().await);
    let mut nodes = Vec::new();
    for _ in 0..10 {
        nodes.push(stage.node().await);
    }

    for node in &mut nodes {
        node.send("fetch 0..20 value 300").await.unwrap();
    }

    let mut loaded = Vec::new();
    for node in &mut nodes {
        assert_eq!(node.line_starting("got", SOON * 3).await, "got 20");
        loaded.extend(
            node.lines()
                .into_iter()
                .filter(|line| line.starts_with("loading")),
        );
    }
    loaded.sort_unstable();
    let all = loaded.len();
    loaded.dedup();
    assert_eq!((all, loaded.len()), (20, 20), "{loaded:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_of_a_process_that_is_killed_is_taken_over_when_its_placeholder_ends() {
    let stage = need!(Stage::new().await);
    let mut node = stage.node().await;
    let cache = stage.cache(options()).await;
    node.send("fetch 1 never 60000").await.unwrap();
    node.line_starting("loading", SOON).await;
    let loads = Loads::default();
    let waiting = tokio::spawn({
        let (cache, load) = (cache.clone(), loads.at_once("Ada"));
        async move { cache.get_or_fetch(&name("1"), load).await }
    });

    node.kill().await;
    let start = Instant::now();

    assert_eq!(text(waiting.await.unwrap()), "Ada");
    assert!(start.elapsed() < PLACEHOLDER + Duration::from_secs(3));
    assert_eq!(loads.begun(), 1);
    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "Ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_of_a_process_that_was_paused_meanwhile_does_not_replace_a_newer_one() {
    let stage = need!(Stage::new().await);
    let mut node = stage.node().await;
    let cache = stage.cache(options()).await;
    node.send("fetch 1 old 500").await.unwrap();
    node.line_starting("loading", SOON).await;
    node.pause().await;
    // As if its pause had outlasted the placeholder.
    stage.ask(&["DEL", stage.key("1").as_str()]).await;
    let loads = Loads::default();
    assert_eq!(
        text(cache.get_or_fetch(&name("1"), loads.at_once("new")).await),
        "new"
    );

    node.resume().await;

    assert_eq!(node.line_starting("got", SOON).await, "got old");
    assert_eq!(*cache.get(&name("1")).await.unwrap().unwrap(), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_in_one_process_empties_the_near_caches_of_all() {
    let stage = need!(Stage::new().await);
    let mut nodes = [stage.node().await, stage.node().await, stage.node().await];
    let cache = stage.cache(options()).await;
    cache.set(&name("1"), &"Ada".to_owned()).await.unwrap();
    for node in &mut nodes {
        for _ in 0..3 {
            node.send("get 1").await.unwrap();
            assert_eq!(node.line_starting("got", SOON).await, "got Ada");
        }
    }

    nodes[0].send("delete 1").await.unwrap();
    nodes[0].line_starting("deleted", SOON).await;

    for node in &mut nodes {
        let start = Instant::now();
        loop {
            node.send("get 1").await.unwrap();
            if node.next_line(SOON).await.as_deref() == Some("nothing") {
                break;
            }
            assert!(start.elapsed() < SOON, "it is told");
        }
    }
}
