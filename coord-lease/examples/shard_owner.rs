//! Shards of which each instance owns some, and takes over those of an instance that is gone.
//!
//! Run it three times at once, and kill one with `kill -9`: within its TTL the others may have its
//! shards. End one with a line on its input (or by closing it): they may have them at once.
//! ```sh
//! COORD_REDIS_URL=redis://127.0.0.1:6379 cargo run -p coord-lease --example shard_owner
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use coord_core::{Env, Name, Result, Ttl};
use coord_lease::{Claim, Lease, Leases, Owner};
use coord_redis::Redis;

const SHARDS: u32 = 12;

/// What one instance takes at most: one of three may fail.
const SHARE: usize = 6;

/// How often an instance looks for shards that nobody has.
const EVERY: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let redis = Redis::from_env(&Env::process()).await?;
    let leases = Leases::new(&redis);
    let owner = Owner::new(Name::new(format!("importer-{}", std::process::id()))?);
    let ttl = Ttl::new(Duration::from_secs(5))?;

    let mut owned = BTreeMap::new();
    let mut line = std::pin::pin!(tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)
    }));
    loop {
        owned.retain(|shard, lease: &mut Lease| {
            let ours = lease.check().is_ok();
            if !ours {
                println!("lost shard {shard}");
            }
            ours
        });
        for shard in 0..SHARDS {
            if owned.len() < SHARE && !owned.contains_key(&shard) {
                let name = Name::new(format!("shard-{shard}"))?;
                if let Claim::Claimed(lease) = leases.claim(&name, &owner, ttl).await? {
                    println!("took shard {shard} under fence {}", lease.fence().get());
                    owned.insert(shard, lease);
                }
            }
        }
        tokio::select! {
            _ = &mut line => break,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
    for (shard, lease) in owned {
        println!("released shard {shard}: {:?}", lease.release().await);
    }
    redis.shutdown(Duration::from_secs(5)).await
}
