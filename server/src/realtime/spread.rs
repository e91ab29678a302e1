//! How news go from the engine to the clients of all nodes.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coord_broadcast::{Broadcast, Received, Subscription, Topic};
use coord_core::{Backoff, Name, Result};
use coord_engine::Engine;
use coord_engine::model::{Namespace, Queue, RunId};
use coord_engine::news::{About, Feed, Heard, News};
use coord_engine::store::Target;
use coord_redis::Redis;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::door::Door;
use super::event::{Bulletin, RunEvent};
use super::hall::Hall;
use crate::signals::{Cause, Signal};

/// How many events wait to be published.
const WAITING: usize = 4096;
/// How many go in one message: with the longest names there are, a tenth of what a message may hold.
const TOGETHER: usize = 64;
/// How many runs are remembered twice over, so that news of them need no look at the database.
const KNOWN: usize = 10_000;
/// How often it is tried to tell what is missing.
const AGAIN: Duration = Duration::from_secs(1);
/// Between tries to subscribe.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// Begins it. `opens` says when clients may come.
pub(super) fn begin(
    tasks: &mut JoinSet<()>,
    (door, hall): (&Door, &Hall),
    redis: Option<&Redis>,
    opens: watch::Sender<bool>,
) {
    let mut teller = Teller {
        hall: hall.clone(),
        desk: Desk::new(door.engine().clone()),
        outbox: None,
    };
    let feed = door.engine().follow_runs();
    match redis {
        None => _ = opens.send_replace(true),
        Some(redis) => {
            let (sender, waiting) = mpsc::channel(WAITING);
            let unpublished = Arc::<AtomicU64>::default();
            teller.outbox = Some((sender, Arc::clone(&unpublished)));
            let broadcast = Broadcast::new(redis);
            tasks.spawn(publish(broadcast.clone(), waiting, unpublished));
            let ear = Ear {
                hall: hall.clone(),
                opens,
                down_since: None,
            };
            tasks.spawn(ear.listen(broadcast, redis.deadline()));
        }
    }
    tasks.spawn(teller.run(feed));
    tasks.spawn(tell_slow(hall.clone()));
}

fn topic() -> Topic<Bulletin> {
    Topic::new(Name::new("server.realtime").expect("neither empty nor long"))
}

/// Tells what the engine of this node commits.
struct Teller {
    hall: Hall,
    desk: Desk,
    /// Where it goes to other nodes, and how much did not go there.
    outbox: Option<(mpsc::Sender<RunEvent>, Arc<AtomicU64>)>,
}

impl Teller {
    async fn run(mut self, mut feed: Feed) {
        while let Some(heard) = feed.next().await {
            match heard {
                Heard::News(news) => match self.desk.about(&news).await {
                    Ok(Some(about)) => self.tell(RunEvent::new(&news, &about)),
                    // It was to be started, and was not.
                    Ok(None) => {}
                    Err(_) => self.missed(1),
                },
                Heard::Missed(missed) => self.missed(missed),
            }
        }
    }

    fn tell(&self, event: RunEvent) {
        self.hall.tell(&event);
        if let Some((outbox, unpublished)) = &self.outbox
            && outbox.try_send(event).is_err()
        {
            unpublished.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn missed(&self, missed: u64) {
        self.hall.tell_missed(Cause::Overrun, Some(missed));
        if let Some((_, unpublished)) = &self.outbox {
            unpublished.fetch_add(missed, Ordering::Relaxed);
        }
    }
}

/// Publishes what there is to tell other nodes, and says what it could not once it can again.
async fn publish(
    broadcast: Broadcast,
    mut waiting: mpsc::Receiver<RunEvent>,
    unpublished: Arc<AtomicU64>,
) {
    let topic = topic();
    loop {
        let mut events = Vec::new();
        let more = waiting.recv_many(&mut events, TOGETHER);
        // Within a second, if only what is missing is to be told.
        if let Ok(0) = tokio::time::timeout(AGAIN, more).await {
            return;
        }
        let missed = unpublished.swap(0, Ordering::Relaxed);
        if events.is_empty() && missed == 0 {
            continue;
        }
        let bulletin = Bulletin { missed, events };
        if broadcast.publish(&topic, &bulletin).await.is_err() {
            let missed = bulletin.events.len() as u64;
            unpublished.fetch_add(bulletin.missed + missed, Ordering::Relaxed);
            if missed > 0 {
                let cause = Cause::Unpublished;
                Signal::Missed { cause, missed }.emit();
            }
        }
    }
}

/// Hears what other nodes publish.
struct Ear {
    hall: Hall,
    opens: watch::Sender<bool>,
    down_since: Option<Instant>,
}

impl Ear {
    /// Until the client of Redis is shut down.
    async fn listen(mut self, broadcast: Broadcast, patience: Duration) {
        let mut attempt = 0;
        loop {
            match self.subscribe(&broadcast, patience).await {
                Ok(subscription) => return self.hear(subscription.without_echo()).await,
                Err(_) => self.is_down(),
            }
            tokio::time::sleep(BACKOFF.jittered(attempt)).await;
            attempt += 1;
        }
    }

    /// Waits for the server as long as it takes, and longer than `patience` not without saying so.
    async fn subscribe(
        &mut self,
        broadcast: &Broadcast,
        patience: Duration,
    ) -> Result<Subscription<Bulletin>> {
        let topic = topic();
        let mut subscribing = std::pin::pin!(broadcast.subscribe(&topic));
        if let Ok(subscribed) = tokio::time::timeout(patience, subscribing.as_mut()).await {
            return subscribed;
        }
        self.is_down();
        subscribing.await
    }

    async fn hear(&mut self, mut subscription: Subscription<Bulletin>) {
        let mut receiving = subscription.receiving();
        self.is_up();
        loop {
            let heard = tokio::select! {
                heard = subscription.next() => heard,
                Ok(()) = receiving.changed() => {
                    if *receiving.borrow_and_update() {
                        self.is_up();
                    } else {
                        self.is_down();
                    }
                    continue;
                }
            };
            match heard {
                Some(Received::Message(message)) => {
                    // What is none of ours is passed over; the subscription says so.
                    if let Ok(bulletin) = message.body() {
                        self.tell(&bulletin);
                    }
                }
                // It counts messages, each of which may have been of many events.
                Some(Received::Gap(_)) => self.hall.tell_missed(Cause::Interrupted, None),
                Some(Received::Lagged(_)) => self.hall.tell_missed(Cause::Overrun, None),
                None => return,
            }
        }
    }

    fn tell(&self, bulletin: &Bulletin) {
        if bulletin.missed > 0 {
            let count = Some(bulletin.missed);
            self.hall.tell_missed(Cause::Interrupted, count);
        }
        for event in &bulletin.events {
            self.hall.tell(event);
        }
    }

    fn is_down(&mut self) {
        if self.down_since.is_none() {
            self.down_since = Some(Instant::now());
            Signal::Disconnected {}.emit();
        }
        // Who comes is told of what is missed once that is known.
        self.opens.send_replace(true);
    }

    fn is_up(&mut self) {
        if let Some(since) = self.down_since.take() {
            let outage_ms = since.elapsed();
            Signal::Reconnected { outage_ms }.emit();
        }
        self.opens.send_replace(true);
    }
}

/// Tells those who were too slow, also when nothing more happens.
async fn tell_slow(hall: Hall) {
    loop {
        tokio::time::sleep(AGAIN).await;
        hall.tell_slow();
    }
}

/// Knows which run is which.
struct Desk {
    engine: Engine,
    young: HashMap<RunId, Arc<About>>,
    old: HashMap<RunId, Arc<About>>,
}

impl Desk {
    fn new(engine: Engine) -> Self {
        Self {
            engine,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// What run `news` are of; `None` when there is no such run.
    async fn about(&mut self, news: &News) -> Result<Option<Arc<About>>> {
        let run = &news.run;
        if let Some(known) = self.young.get(run) {
            return Ok(Some(Arc::clone(known)));
        }
        let known = match (self.old.remove(run), &news.about) {
            (Some(known), _) => known,
            (None, Some(about)) => Arc::new(about.clone()),
            (None, None) => match self.look(run).await? {
                Some(found) => Arc::new(found),
                None => return Ok(None),
            },
        };
        if self.young.len() >= KNOWN {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(run.clone(), Arc::clone(&known));
        Ok(Some(known))
    }

    async fn look(&self, run: &RunId) -> Result<Option<About>> {
        let client = self.engine.client(Namespace::default(), Queue::default());
        let found = client.untyped().find(&Target::Run(run.clone())).await?;
        Ok(found.map(|run| About {
            namespace: run.namespace,
            workflow: run.workflow,
            name: run.name,
            queue: run.queue,
        }))
    }
}
