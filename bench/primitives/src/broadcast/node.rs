//! A process of subscribers: it says `ready`, and `got` when each has a batch more.

use std::io::Write as _;

use coord_broadcast::{Broadcast, Received, Topic};
use coord_core::Name;
use coord_redis::{Config, Redis};
use fred::prelude::{Builder, ClientLike, Config as FredConfig, EventInterface, PubsubInterface};
use futures::StreamExt;
use tokio::sync::mpsc;

use super::{BATCH, SUBSCRIBERS, Side};
use crate::Result;

/// The first argument of such a process.
pub(crate) const NODE: &str = "broadcast-node";

/// Runs a node: `arguments` are the side, the URL of the server and the channel.
pub(crate) async fn run(arguments: &[String]) -> Result<()> {
    let [side, url, channel] = arguments else {
        return Err("side, url and channel".into());
    };
    let (batch, mut batches) = mpsc::unbounded_channel();
    match Side::called(side).ok_or("no such side")? {
        Side::Ours => ours(url, channel, &batch).await?,
        Side::Redis => bare(url, channel, &batch).await?,
        Side::Fred => with_fred(url, channel, &batch).await?,
    }
    say("ready")?;
    loop {
        for _ in 0..SUBSCRIBERS {
            batches.recv().await.ok_or("no subscriber is left")?;
        }
        say("got")?;
    }
}

fn say(word: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}")?;
    Ok(out.flush()?)
}

/// What a subscriber of ours may be behind.
const BUFFERED: usize = 256;

/// Counts the messages of one subscriber, and tells of each batch.
struct Count {
    messages: usize,
    batch: mpsc::UnboundedSender<()>,
}

impl Count {
    fn new(batch: &mpsc::UnboundedSender<()>) -> Self {
        Self {
            messages: 0,
            batch: batch.clone(),
        }
    }

    fn one(&mut self) {
        self.messages += 1;
        if self.messages.is_multiple_of(BATCH) {
            _ = self.batch.send(());
        }
    }
}

async fn ours(url: &str, channel: &str, batch: &mpsc::UnboundedSender<()>) -> Result<()> {
    let redis = Redis::connect(Config::from_url(url)?.prefix("bench")?).await?;
    let broadcast = Broadcast::new(&redis);
    let topic: Topic<String> = Topic::new(Name::new(channel)?);
    for _ in 0..SUBSCRIBERS {
        let mut subscription = broadcast.subscribe(&topic).await?;
        let (mut count, redis) = (Count::new(batch), redis.clone());
        tokio::spawn(async move {
            // A gap is no delivery: the batch never ends.
            while let Some(received) = subscription.next().await {
                if let Received::Message(message) = received {
                    std::hint::black_box(&message);
                    count.one();
                }
            }
            drop(redis);
        });
    }
    Ok(())
}

async fn bare(url: &str, channel: &str, batch: &mpsc::UnboundedSender<()>) -> Result<()> {
    let client = redis::Client::open(url)?;
    for _ in 0..SUBSCRIBERS {
        let mut subscription = client.get_async_pubsub().await?;
        subscription.subscribe(channel).await?;
        let mut count = Count::new(batch);
        tokio::spawn(async move {
            let mut messages = subscription.on_message();
            while let Some(message) = messages.next().await {
                std::hint::black_box(message.get_payload_bytes());
                count.one();
            }
        });
    }
    Ok(())
}

async fn with_fred(url: &str, channel: &str, batch: &mpsc::UnboundedSender<()>) -> Result<()> {
    let client = Builder::from_config(FredConfig::from_url(url)?)
        // By default it drops what is more than 32 messages ahead of a receiver.
        .with_performance_config(|performance| performance.broadcast_channel_capacity = BUFFERED)
        .build_subscriber_client()?;
    client.init().await?;
    for _ in 0..SUBSCRIBERS {
        let mut messages = client.message_rx();
        let (mut count, client) = (Count::new(batch), client.clone());
        tokio::spawn(async move {
            // What was dropped is no delivery: the batch never ends.
            while let Ok(message) = messages.recv().await {
                std::hint::black_box(message.value.as_bytes());
                count.one();
            }
            drop(client);
        });
    }
    client.subscribe(channel).await?;
    Ok(())
}
