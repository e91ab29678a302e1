//! Messages of one group: one at a time, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use coord_core::Name;
use coord_fanout::{Delivery, Message, Queue, Settled, Verdict};

use super::{Backend, NOW, SLOW, Shape};
use crate::fanout_queue::{SOON, enqueue, grouped, ids, message, name, next, receive};

pub(crate) async fn a_group_is_handed_out_one_by_one_in_order_and_holds_up_no_other(
    backend: &impl Backend,
) {
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &grouped("g", &["a", "b", "c"])).await;
    enqueue(&queue, &grouped("h", &["x"])).await;
    enqueue(&queue, &grouped("g", &["d"])).await;

    let mut both = receive(&queue, 10, NOW).await;
    if both.len() < 2 {
        both.extend(receive(&queue, 10, NOW).await);
    }
    assert_eq!(ids(&both), ["a", "x"]);
    assert_eq!(ids(&receive(&queue, 10, NOW).await), [""; 0]);

    let mut head = both.swap_remove(0);
    for following in ["b", "c", "d"] {
        queue.complete(&head).await.expect("it is ours");
        let others = receive(&queue, 10, SOON).await;
        assert_eq!(ids(&others), [following]);
        head = others.into_iter().next().expect("one");
    }
    queue.complete(&head).await.expect("it is ours");
    enqueue(&queue, &grouped("g", &["e"])).await;
    assert_eq!(next(&queue).await.message.id, name("e"));
}

pub(crate) async fn a_retry_holds_up_its_group_and_keeps_its_place(backend: &impl Backend) {
    const DELAY: Duration = Duration::from_secs(1);
    let queue = backend.queue(SLOW).await;
    enqueue(&queue, &grouped("g", &["a", "b"])).await;
    let first = next(&queue).await;

    queue.retry(&first, DELAY, "busy").await.expect("ours");

    assert_eq!(ids(&receive(&queue, 10, NOW).await), [""; 0]);
    let again = next(&queue).await;
    assert_eq!((again.message.id.as_str(), again.attempt), ("a", 2));
    queue.complete(&again).await.expect("it is ours");
    assert_eq!(next(&queue).await.message.id, name("b"));
}

pub(crate) async fn a_dead_letter_lets_its_group_go_on(backend: &impl Backend) {
    let queue = backend
        .queue(Shape {
            attempts: 1,
            ..SLOW
        })
        .await;
    enqueue(&queue, &grouped("g", &["a", "b"])).await;

    let settled = queue.retry(&next(&queue).await, NOW, "broken").await;

    assert_eq!(settled.expect("it is ours"), Settled::DeadLettered);
    assert_eq!(next(&queue).await.message.id, name("b"));
}

pub(crate) async fn any_history_loses_nothing_and_keeps_every_group_in_order(
    backend: &impl Backend,
) {
    const STEPS: usize = 400;
    const GROUPS: usize = 4;
    let queue = backend
        .queue(Shape {
            attempts: 1000,
            ..SLOW
        })
        .await;
    let mut chance = Chance::new();
    let mut history = History::default();

    for _ in 0..STEPS {
        match chance.below(10) {
            0..=2 => {
                let batch: Vec<_> = (0..=chance.below(4))
                    .map(|_| history.fresh(chance.below(GROUPS + 1)))
                    .collect();
                enqueue(&queue, &batch).await;
            }
            3..=5 => history.hold(receive(&queue, 1 + chance.below(4), NOW).await),
            _ if history.held.is_empty() => {}
            verdict => {
                let delivery = history.held.swap_remove(chance.below(history.held.len()));
                let verdict = match verdict {
                    6 | 7 => Verdict::Complete,
                    8 if chance.below(4) == 0 => Verdict::DeadLetter {
                        reason: "by chance".to_owned(),
                    },
                    8 => Verdict::Release,
                    _ => Verdict::Retry {
                        after: NOW,
                        reason: "by chance".to_owned(),
                    },
                };
                history.settle(&queue, &delivery, verdict).await;
            }
        }
    }
    while history.settled.values().map(Vec::len).sum::<usize>() < history.count {
        history.hold(receive(&queue, 10, SOON).await);
        for delivery in std::mem::take(&mut history.held) {
            history.settle(&queue, &delivery, Verdict::Complete).await;
        }
    }

    assert_eq!(queue.depth().await.expect("the queue is there").open(), 0);
    for (group, ids) in &mut history.settled {
        if group.is_none() {
            ids.sort_unstable();
        }
        assert_eq!(ids, &history.enqueued[group], "{group:?} with {chance:?}");
    }
}

/// What was done to a queue, and what must come of it.
#[derive(Default)]
struct History {
    count: usize,
    enqueued: BTreeMap<Option<Name>, Vec<usize>>,
    held: Vec<Delivery>,
    /// What left the queue for good, in this order.
    settled: BTreeMap<Option<Name>, Vec<usize>>,
}

impl History {
    /// A new message in the group of this number, or in none.
    fn fresh(&mut self, group: usize) -> Message {
        let id = self.count;
        self.count += 1;
        let group = (group > 0).then(|| name(format!("group {group}")));
        self.enqueued.entry(group.clone()).or_default().push(id);
        Message {
            group,
            ..message(&id.to_string())
        }
    }

    fn hold(&mut self, deliveries: Vec<Delivery>) {
        self.held.extend(deliveries);
        let mut groups = BTreeSet::new();
        for group in self
            .held
            .iter()
            .filter_map(|one| one.message.group.as_ref())
        {
            assert!(groups.insert(group), "{group} is in two hands");
        }
    }

    async fn settle(&mut self, queue: &impl Queue, delivery: &Delivery, verdict: Verdict) {
        if matches!(verdict, Verdict::Complete | Verdict::DeadLetter { .. }) {
            let message = &delivery.message;
            let id = message.id.as_str().parse().expect("its number");
            let settled = self.settled.entry(message.group.clone()).or_default();
            settled.push(id);
        }
        let settled = queue.settle(&[(delivery, verdict)]).await;
        let settled = settled.expect("the queue is there")[0];
        assert!(matches!(settled, Settled::Done | Settled::DeadLettered));
    }
}

/// Numbers that differ from run to run, and can be had again (xorshift64, Marsaglia 2003).
struct Chance {
    seed: u64,
    state: u64,
}

impl fmt::Debug for Chance {
    /// Shows what a failed test needs to be had again.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Chance(seed {})", self.seed)
    }
}

impl Chance {
    fn new() -> Self {
        let seed = RandomState::new().hash_one("seed") | 1;
        Self { seed, state: seed }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 32) as usize % limit
    }
}
