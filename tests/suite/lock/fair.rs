//! Waiting in order.

use std::sync::Arc;
use std::time::Duration;

use coord_core::{ErrorKind, Name};
use coord_lock::{LockOptions, Order, Owner};
use coord_tests::need;
use coord_tests::wait::eventually;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Alone, Faults, SOON, Stage, is_held, job, ordered, take, ttl_ms};

fn fifo() -> LockOptions {
    ordered(Order::Fifo)
}

/// A waiter that has its place at the end when this returns; it reports when it has the lock, and
/// releases it.
async fn line_up(
    stage: &Stage,
    waiters: &mut JoinSet<()>,
    order: Order,
    number: u32,
    turns: &mpsc::UnboundedSender<u32>,
) {
    let before = stage.waiting().await;
    let (locks, turns) = (stage.locks().await, turns.clone());
    waiters.spawn(async move {
        let lock = locks.acquire(&job(), SOON * 3, &ordered(order)).await;
        turns.send(number).expect("the test listens");
        lock.expect("its turn comes").release().await.unwrap();
    });
    stage.waiting_becomes(before + 1).await;
}

async fn turns(mut reported: mpsc::UnboundedReceiver<u32>) -> Vec<u32> {
    let mut turns = Vec::new();
    while let Some(turn) = reported.recv().await {
        turns.push(turn);
    }
    turns
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_get_the_lock_in_the_order_in_which_they_came() {
    let stage = need!(Stage::new().await);
    let lock = take(&stage.locks().await, &fifo()).await;
    let (report, reported) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    for number in 0..8 {
        line_up(&stage, &mut waiters, Order::Fifo, number, &report).await;
    }
    drop(report);

    lock.release().await.unwrap();

    assert_eq!(turns(reported).await, [0, 1, 2, 3, 4, 5, 6, 7]);
    waiters.join_all().await;
    stage.is_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_waiter_starves() {
    let stage = need!(Stage::new().await);
    let mut contenders = JoinSet::new();
    let end = Instant::now() + Duration::from_secs(3);
    let started = Arc::new(tokio::sync::Barrier::new(8));
    for _ in 0..8 {
        let (locks, started) = (stage.locks().await, Arc::clone(&started));
        contenders.spawn(async move {
            started.wait().await;
            let mut grants = 0_u32;
            while Instant::now() < end {
                let lock = locks.acquire(&job(), SOON, &fifo()).await.unwrap();
                grants += 1;
                lock.release().await.unwrap();
            }
            grants
        });
    }

    let grants = contenders.join_all().await;

    let (least, most) = (*grants.iter().min().unwrap(), *grants.iter().max().unwrap());
    // However few they were on a busy machine.
    assert!(least >= 1, "{grants:?}");
    assert!(most - least <= 1 + least / 5, "{grants:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_does_not_overtake_those_who_wait() {
    let stage = need!(Stage::new().await);
    let (mine, newcomer) = (stage.locks().await, stage.locks().await);
    let lock = take(&mine, &fifo()).await;
    let (report, reported) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    line_up(&stage, &mut waiters, Order::Fifo, 1, &report).await;
    line_up(&stage, &mut waiters, Order::Fifo, 2, &report).await;

    // Free, and nobody has been told.
    stage.ask(&["DEL", stage.key().as_str()]).await;
    let attempt = newcomer.try_acquire(&job(), &fifo()).await.unwrap();

    assert!(is_held(&attempt), "the first in line is offered it instead");
    drop((report, lock));
    assert_eq!(turns(reported).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_carries_a_new_fence_and_the_name_of_who_gets_it() {
    let stage = need!(Stage::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    let lock = take(&mine, &fifo()).await;
    let before = lock.fence();
    let owner = Owner::new(Name::new("next in line").unwrap());
    let waiting = tokio::spawn({
        let (theirs, options) = (theirs.clone(), fifo().owner(&owner));
        async move { theirs.acquire(&job(), SOON, &options).await }
    });
    stage.waiting_becomes(1).await;

    lock.release().await.unwrap();
    let lock = waiting.await.unwrap().unwrap();

    assert!(lock.fence() > before);
    let holder = mine.inspect(&job()).await.unwrap().expect("it is held");
    assert_eq!((holder.fence, holder.owner()), (lock.fence(), Some(&owner)));
    eventually(SOON, "it has the whole TTL", || async {
        stage.pttl().await > 20_000
    })
    .await;
    lock.check().unwrap();
}

/// What a waiter sends to ask, in the log of a monitor: for how long its place is kept.
const ASKS: &str = "\"15000\"";

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_follows_soon_is_taken_without_asking_and_one_that_does_not_is_confirmed() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    // How often the waiter asks once the lock is released.
    let asked = async |late: bool| {
        let lock = take(&mine, &fifo()).await;
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move { theirs.acquire(&job(), SOON, &fifo()).await }
        });
        stage.waiting_becomes(1).await;
        if late {
            // More than half the life of an offer.
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        let monitor = stage.server.monitor().await.unwrap();

        lock.release().await.unwrap();
        let lock = waiting.await.unwrap().unwrap();

        let asked = monitor.lines_with(ASKS).await.unwrap().len();
        lock.check().unwrap();
        lock.release().await.unwrap();
        stage.is_clean().await;
        asked
    };

    assert_eq!(asked(true).await, 1);
    // A busy machine may make any hand-over late, so it may take several rounds.
    eventually(SOON * 6, "an offer that follows soon", || async {
        asked(false).await == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_is_older_than_the_grant_in_the_way_is_not_taken() {
    let stage = need!(Alone::new().await);
    let (mine, theirs) = (stage.locks().await, stage.locks().await);
    let lock = take(&mine, &fifo()).await;
    let waiting = tokio::spawn(async move { theirs.acquire(&job(), SOON, &fifo()).await });
    stage.waiting_becomes(1).await;
    let places = stage.key().part("places");
    let first = "local token = redis.call('HKEYS', KEYS[1])[1] \
        return token .. ':' .. redis.call('HGET', KEYS[1], token)";
    let place = stage.ask(&["EVAL", first, "1", places.as_str()]).await;
    let [token, _until, client, _owner] = place.splitn(4, ':').collect::<Vec<_>>()[..] else {
        panic!("{place} is no place");
    };
    let waiter = stage.key().part_for("waiter", &Name::new(client).unwrap());
    let waiter = waiter.channel(0);
    let monitor = stage.server.monitor().await.unwrap();

    // As one that was on its way while it lapsed.
    let offer = format!("{token}:1");
    eventually(SOON, "the waiter hears of it", || async {
        let words = ["PUBLISH", waiter.as_str(), &offer];
        stage.number(&words).await == 1
    })
    .await;

    eventually(SOON, "it asks", || async {
        !monitor.lines_with(ASKS).await.unwrap().is_empty()
    })
    .await;
    assert!(!waiting.is_finished());
    let fence = lock.fence();
    lock.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().fence() > fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_was_killed_costs_the_others_its_offer_and_not_its_ttl() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let lock = take(&locks, &fifo()).await;
    let mut node = stage.node().await;
    node.send("acquire job fifo 30000 30000").await.unwrap();
    stage.waiting_becomes(1).await;
    let (report, reported) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    line_up(&stage, &mut waiters, Order::Fifo, 1, &report).await;
    line_up(&stage, &mut waiters, Order::Fifo, 2, &report).await;
    drop(report);

    node.kill().await;
    let start = Instant::now();
    lock.release().await.unwrap();

    assert_eq!(turns(reported).await, [1, 2]);
    assert!(
        start.elapsed() >= Duration::from_millis(900),
        "it was offered"
    );
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    waiters.join_all().await;
    stage.is_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_dropped_costs_the_others_nothing() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let lock = take(&locks, &fifo()).await;
    let gone = tokio::spawn({
        let locks = stage.locks().await;
        async move { locks.acquire(&job(), SOON, &fifo()).await }
    });
    stage.waiting_becomes(1).await;
    let (report, reported) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    line_up(&stage, &mut waiters, Order::Fifo, 1, &report).await;
    drop(report);

    gone.abort();
    stage.waiting_becomes(1).await;
    lock.release().await.unwrap();

    assert_eq!(turns(reported).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_time_is_up_leaves_its_place_to_the_next() {
    let stage = need!(Stage::new().await);
    let (locks, others) = (stage.locks().await, stage.locks().await);
    let lock = take(&locks, &fifo()).await;

    let error = others
        .acquire(&job(), Duration::from_millis(100), &fifo())
        .await;

    assert_eq!(error.unwrap_err().kind(), ErrorKind::Contended);
    stage.waiting_becomes(0).await;
    lock.release().await.unwrap();
    stage.is_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_in_order_come_before_those_who_do_not_and_all_get_the_lock() {
    let stage = need!(Stage::new().await);
    let lock = take(&stage.locks().await, &ordered(Order::Any)).await;
    let (report, reported) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    line_up(&stage, &mut waiters, Order::Any, 9, &report).await;
    line_up(&stage, &mut waiters, Order::Fifo, 1, &report).await;
    line_up(&stage, &mut waiters, Order::Fifo, 2, &report).await;
    drop(report);

    let start = Instant::now();
    lock.release().await.unwrap();

    assert_eq!(turns(reported).await, [1, 2, 9]);
    assert!(start.elapsed() < SOON, "nobody waits for a TTL");
    stage.is_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_refreshed_for_as_long_as_its_waiter_lives() {
    let stage = need!(Stage::new().await);
    let (locks, others) = (stage.locks().await, stage.locks().await);
    let lock = take(&locks, &fifo()).await;
    let waiting = tokio::spawn(async move { others.acquire(&job(), SOON * 3, &fifo()).await });
    stage.waiting_becomes(1).await;
    let places = stage.key().part("places");
    let place = async || stage.ask(&["HVALS", places.as_str()]).await;

    let first = place().await;
    eventually(SOON, "it is refreshed", || async { place().await != first }).await;

    lock.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_whose_message_is_lost_is_found_by_the_waiter_itself() {
    let stage = need!(Alone::new().await);
    let locks = stage.locks().await;
    let (proxy, theirs) = stage.proxied().await;
    let lock = take(&locks, &ttl_ms(2000).order(Order::Fifo)).await;
    let waiting = tokio::spawn(async move { theirs.acquire(&job(), SOON, &fifo()).await });
    stage.waiting_becomes(1).await;

    proxy.hole_down();
    lock.release().await.unwrap();
    proxy.swallows().await;
    proxy.heal().await;

    let start = Instant::now();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    stage.is_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_the_first_in_line_and_the_next_and_nobody_else() {
    let stage = need!(Alone::new().await);
    let lock = take(&stage.locks().await, &fifo()).await;
    let (report, reported) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    for number in 0..5 {
        line_up(&stage, &mut waiters, Order::Fifo, number, &report).await;
    }
    drop(report);
    let monitor = stage.server.monitor().await.unwrap();

    lock.release().await.unwrap();
    assert_eq!(turns(reported).await, [0, 1, 2, 3, 4]);
    waiters.join_all().await;

    let told = monitor.lines_with(" lua] \"PUBLISH\"").await.unwrap();
    // Five offers, and to all but the last one belongs somebody who comes next.
    assert_eq!(told.len(), 9, "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_two_processes_that_were_killed_cost_the_others_less_than_a_place_lasts() {
    let stage = need!(Stage::new().await);
    let locks = stage.locks().await;
    let lock = take(&locks, &fifo()).await;
    let mut nodes = [stage.node().await, stage.node().await];
    for (node, place) in nodes.iter_mut().zip(1..) {
        node.send("acquire job fifo 30000 30000").await.unwrap();
        stage.waiting_becomes(place).await;
    }
    let (report, reported) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    line_up(&stage, &mut waiters, Order::Fifo, 1, &report).await;
    drop(report);

    for node in &mut nodes {
        node.kill().await;
    }
    let start = Instant::now();
    lock.release().await.unwrap();

    assert_eq!(turns(reported).await, [1]);
    assert!(
        start.elapsed() < Duration::from_secs(12),
        "{:?}",
        start.elapsed()
    );
    waiters.join_all().await;
    stage.is_clean().await;
}
