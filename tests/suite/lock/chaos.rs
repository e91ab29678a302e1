//! One owner at a time, whatever breaks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::FencingToken;
use coord_lock::{Locks, Order};
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::wait::eventually;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Alone, Faults, SOON, job, ttl_ms};

/// How long things break.
const CHAOS: Duration = Duration::from_secs(8);

/// Shorter than many of the faults, so that locks are lost as well.
const TTL_MS: u64 = 300;

/// How long a place in the queue is kept without a refresh.
const PLACE: Duration = Duration::from_secs(15);

/// For how long an owner trusted its lock.
#[derive(Clone, Copy, Debug)]
struct Tenure {
    fence: FencingToken,
    from: Instant,
    until: Instant,
}

/// A small generator, so that the tasks do not move in step.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Takes the lock again and again until `end`.
async fn contend(locks: Locks, seed: u64, end: Instant, tenures: Arc<Mutex<Vec<Tenure>>>) {
    let mut dice = Dice(seed);
    while Instant::now() < end {
        let order = if dice.roll(4) == 0 {
            Order::Fifo
        } else {
            Order::Any
        };
        let wait = Duration::from_millis(50 + dice.roll(1500));
        let options = ttl_ms(TTL_MS).order(order);
        let Ok(lock) = locks.acquire(&job(), wait, &options).await else {
            continue;
        };
        let from = Instant::now();
        let mut until = from;
        for _ in 0..dice.roll(6) {
            let now = Instant::now();
            if lock.check().is_err() {
                break;
            }
            until = now;
            tokio::time::sleep(Duration::from_millis(dice.roll(20))).await;
        }
        let fence = lock.fence();
        tenures.lock().unwrap().push(Tenure { fence, from, until });
        if dice.roll(3) == 0 {
            drop(lock);
        } else {
            _ = lock.release().await;
        }
    }
}

/// Breaks the connections of one client until `end`.
async fn disturb(proxy: Arc<FaultProxy>, seed: u64, end: Instant) {
    let mut dice = Dice(seed);
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(dice.roll(900))).await;
        match dice.roll(4) {
            0 => proxy.cut().await,
            1 => drop(proxy.lose_next_reply()),
            2 => proxy.hole(),
            _ => proxy.delay(Duration::from_millis(dice.roll(100))),
        }
        tokio::time::sleep(Duration::from_millis(dice.roll(600))).await;
        proxy.heal().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_owners_trust_their_lock_at_once_whatever_breaks() {
    let stage = need!(Alone::new().await);
    let tenures = Arc::new(Mutex::new(Vec::new()));
    let (mut tasks, mut proxies) = (JoinSet::new(), Vec::new());
    let end = Instant::now() + CHAOS;
    for client in 0..2 {
        let (proxy, locks) = stage.proxied().await;
        for task in 0..8 {
            tasks.spawn(contend(
                locks.clone(),
                client * 8 + task,
                end,
                Arc::clone(&tenures),
            ));
        }
        let proxy = Arc::new(proxy);
        tasks.spawn(disturb(Arc::clone(&proxy), 100 + client, end));
        // What is undone in the background goes this way, too.
        proxies.push(proxy);
    }
    while Instant::now() + Duration::from_secs(1) < end {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        stage.server.pause().await;
        tokio::time::sleep(Duration::from_millis(250)).await;
        stage.server.resume().await;
    }
    tasks.join_all().await;

    let mut tenures = std::mem::take(&mut *tenures.lock().unwrap());
    tenures.sort_by_key(|tenure| tenure.from);
    assert!(
        tenures.len() > 10,
        "the lock was granted {} times",
        tenures.len()
    );
    for pair in tenures.windows(2) {
        assert!(pair[0].until <= pair[1].from, "{pair:?}");
        assert!(pair[0].fence < pair[1].fence, "{pair:?}");
    }
    eventually(SOON, "the lock is free", || async {
        stage.value().await.is_empty()
    })
    .await;
    // A mark that the last one to wait without a place has left ends with the queue.
    eventually(PLACE + SOON, "nobody is in the queue", || async {
        stage.waiting().await == 0
    })
    .await;
}
