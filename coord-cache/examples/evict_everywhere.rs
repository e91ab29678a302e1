//! A cache in the process, for sixty seconds, whose entries leave all processes when one deletes.
//!
//! A tree of organizations is walked on every request: up from a node to its root. The path is kept
//! decoded in each process, so that a request pays a map lookup, and a node that is moved must be
//! gone from all of them at once. No channel and no listener is needed: the near cache hears of the
//! deletion from Redis, as it hears of one by `redis-cli`.
//!
//! Run it twice, with a Redis at hand, and move a node in one of them:
//! ```sh
//! COORD_REDIS_URL=redis://127.0.0.1:6379 cargo run -p coord-cache --example evict_everywhere
//! ```
//! Each line `7` shows the ancestors of node 7; `move 7` deletes them everywhere.

use std::convert::Infallible;
use std::io::BufRead as _;
use std::num::NonZeroUsize;
use std::time::Duration;

use coord_cache::{Cache, CacheOptions, Life};
use coord_core::{Env, Name, Result};
use coord_redis::Redis;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let redis = Redis::from_env(&Env::process()).await?;
    let minute = Life::new(Duration::from_mins(1))?;
    let entries = NonZeroUsize::new(10_000).expect("more than none");
    let options = CacheOptions::default().ttl(minute).near(entries, minute);
    let ancestry: Cache<Vec<u64>> = Cache::new(&redis, &Name::new("ancestry")?, options);

    for line in std::io::stdin().lock().lines() {
        let line = line.expect("the terminal speaks UTF-8");
        let (moved, node) = match line.strip_prefix("move ") {
            Some(node) => (true, node),
            None => (false, line.as_str()),
        };
        let Ok(number) = node.parse() else {
            println!("a node is a number");
            continue;
        };
        let name = Name::new(node)?;
        if moved {
            // Once the transaction that moves it is committed. An error says that the others may
            // show the old path for up to a minute.
            ancestry.delete(&name).await?;
            println!("moved {node}");
        } else {
            let path = ancestry.get_or_fetch(&name, move || walk(number)).await?;
            println!("{node}: {path:?}");
        }
    }
    redis.shutdown(Duration::from_secs(5)).await
}

/// What would be a recursive query: each node's parent is its half.
async fn walk(node: u64) -> Result<Vec<u64>, Infallible> {
    println!("loading {node}");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let parents = std::iter::successors(Some(node), |node| (*node > 1).then_some(node / 2));
    Ok(parents.collect())
}
