//! A list of prices that every instance keeps, and keeps true.
//!
//! Run several at once. A line `tea 350` sets a price, and all of them show it. Stop Redis for a
//! while and set prices when it is back: each instance that was cut off learns which messages it
//! missed and gets them from the log of the topic. It ends when its input is closed.
//! ```sh
//! COORD_REDIS_URL=redis://127.0.0.1:6379 cargo run -p coord-broadcast --example price_feed
//! ```

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use coord_broadcast::{Broadcast, Received, Topic};
use coord_core::{Env, Name, Result};
use coord_redis::Redis;
use tokio::sync::mpsc;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let redis = Redis::from_env(&Env::process()).await?;
    let broadcast = Broadcast::new(&redis);
    let kept = NonZeroU32::new(1000).expect("more than none");
    let prices: Topic<(String, u64)> = Topic::new(Name::new("prices")?).replay(kept);
    let mut subscription = broadcast.subscribe(&prices).await?;
    println!("listening");

    let (said, mut lines) = mpsc::channel(1);
    let reading = tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lines().map_while(std::io::Result::ok) {
            if said.blocking_send(line).is_err() {
                break;
            }
        }
    });
    let mut list = BTreeMap::new();
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break };
                let price = line.split_once(' ').and_then(|(name, price)| {
                    Some((name.to_owned(), price.parse().ok()?))
                });
                match price {
                    Some(price) => _ = broadcast.publish(&prices, &price).await?,
                    None => println!("say: NAME PRICE"),
                }
            }
            received = subscription.next() => match received {
                Some(Received::Message(message)) => {
                    let (name, price) = message.body()?;
                    list.insert(name, price);
                    println!("prices: {list:?}");
                }
                // Beyond the log: here one would read the list from where it is kept.
                Some(Received::Gap(gap)) => println!("missed {:?}", gap.missed),
                Some(Received::Lagged(count)) => println!("missed {count}"),
                None => break,
            }
        }
    }
    drop(lines);
    reading.await.expect("it only reads");
    redis.shutdown(Duration::from_secs(5)).await
}
