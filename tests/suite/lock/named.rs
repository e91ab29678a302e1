//! Whom a release names to ask first, of those who wait without order.

use std::time::Duration;

use coord_lock::Order;
use coord_tests::need;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Alone, SOON, Stage, job, ordered, take};

/// The clients that wait without a place, as their marks in the queue name them.
async fn marked(stage: &Stage) -> Vec<String> {
    let queue = stage.key().part("queue");
    let marks = stage.ask(&["ZRANGE", queue.as_str(), "0", "-1"]).await;
    let clients = marks.lines().filter_map(|mark| mark.strip_prefix('*'));
    clients.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_names_one_of_the_clients_that_wait_to_ask_first_and_all_get_the_lock() {
    let stage = need!(Alone::new().await);
    let lock = take(&stage.locks().await, &ordered(Order::Any)).await;
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let locks = stage.locks().await;
        waiting.spawn(async move {
            let lock = locks.acquire(&job(), SOON * 2, &ordered(Order::Any)).await;
            lock.expect("its turn comes").release().await
        });
    }
    stage.waiting_becomes(4).await;
    let clients = marked(&stage).await;
    let monitor = stage.server.monitor().await.unwrap();

    lock.release().await.unwrap();
    for released in waiting.join_all().await {
        released.unwrap();
    }

    let told = monitor.lines_with(" lua] \"PUBLISH\"").await.unwrap();
    assert!(told.len() >= clients.len(), "{told:#?}");
    for message in &told {
        let named = clients
            .iter()
            .filter(|client| message.contains(&format!("\"{client}\"")));
        assert_eq!(named.count(), 1, "{message} of {clients:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_named_and_dead_costs_the_others_a_moment_and_is_named_once() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    let lock = take(&mine, &ordered(Order::Any)).await;
    let waiting =
        tokio::spawn(async move { theirs.acquire(&job(), SOON * 3, &ordered(Order::Any)).await });
    stage.waiting_becomes(1).await;
    let [alive] = marked(&stage).await.try_into().expect("one waits");
    let (queue, dead) = (stage.key().part("queue"), format!("*{}", "d".repeat(32)));
    stage.ask(&["ZADD", queue.as_str(), "+inf", &dead]).await;
    stage
        .ask(&["ZREM", queue.as_str(), &format!("*{alive}")])
        .await;

    let released = Instant::now();
    lock.release().await.unwrap();
    let lock = waiting.await.unwrap().unwrap();

    assert!(released.elapsed() < Duration::from_secs(5));
    assert!(marked(&stage).await.is_empty(), "it is not named again");
    lock.release().await.unwrap();
    stage.is_clean().await;
}
