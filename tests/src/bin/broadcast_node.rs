//! A node that subscribes to one topic of numbers, as a process of its own.
//!
//! Arguments: the URL of Redis, the key prefix and the name of the topic. It says `ready`, then
//! `message <sequence> <number>`, `gap <from> <to>`, `gap unknown` or `lagged <count>`. It reads
//! `publish <number>`.

use coord_broadcast::{Broadcast, Received, Topic};
use coord_core::Name;
use coord_redis::{Config, Redis};
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Leaves what it emits for the observability contract.
    coord_tests::recorder::recorder();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [url, prefix, name] = &arguments[..] else {
        return Err("url, prefix and the name of a topic".into());
    };
    let redis = Redis::connect(Config::from_url(url)?.prefix(prefix)?).await?;
    let broadcast = Broadcast::new(&redis);
    let topic: Topic<u64> = Topic::new(Name::new(name)?);
    let mut subscription = broadcast.subscribe(&topic).await?;
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        tokio::select! {
            received = subscription.next() => match received {
                Some(Received::Message(message)) => {
                    println!("message {} {}", message.position.sequence(), message.body()?);
                }
                Some(Received::Gap(gap)) => match gap.missed {
                    Some(missed) => println!("gap {} {}", missed.start(), missed.end()),
                    None => println!("gap unknown"),
                },
                Some(Received::Lagged(count)) => println!("lagged {count}"),
                None => return Ok(()),
            },
            line = lines.next_line() => match line? {
                Some(line) => {
                    let number = line.strip_prefix("publish ").ok_or("publish <number>")?;
                    broadcast.publish(&topic, &number.parse()?).await?;
                }
                None => return Ok(()),
            },
        }
    }
}
