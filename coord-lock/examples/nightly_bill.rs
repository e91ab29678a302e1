//! A bill that one instance writes at a time, and no late one.
//!
//! Run several at once: they take turns, in the order in which they came. Kill one that has the
//! lock (`kill -9`): the next one goes on when its TTL is over. Each write carries the fencing
//! token, and the ledger refuses one that is older than what it has seen: that is what protects it
//! from an instance that was paused while it held the lock.
//! ```sh
//! COORD_REDIS_URL=redis://127.0.0.1:6379 cargo run -p coord-lock --example nightly_bill
//! ```

use std::time::Duration;

use coord_core::{Env, Error, Name, Result, Ttl};
use coord_lock::{LockOptions, Locks, Order};
use coord_redis::Redis;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let redis = Redis::from_env(&Env::process()).await?;
    let locks = Locks::new(&redis);
    let options = LockOptions::default()
        .ttl(Ttl::new(Duration::from_secs(5))?)
        .order(Order::Fifo);

    let mut ledger = Ledger::default();
    let (billing, wait) = (Name::new("billing")?, Duration::from_secs(30));
    locks
        .with_lock(&billing, wait, &options, async |lock| {
            for tenant in ["acme", "globex", "initech"] {
                ledger.write(tenant, lock.fence().get())?;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Ok::<_, Error>(())
        })
        .await?;
    redis.shutdown(Duration::from_secs(5)).await
}

/// Stands for a table with a column for the fence.
#[derive(Default)]
struct Ledger {
    newest: u64,
}

impl Ledger {
    /// `UPDATE … SET fence = $1 WHERE fence <= $1`, and an error when that changes nothing.
    fn write(&mut self, tenant: &str, fence: u64) -> Result<()> {
        if fence < self.newest {
            return Err(Error::lost(format!("the bill of {tenant}")));
        }
        self.newest = fence;
        println!("billed {tenant} under fence {fence}");
        Ok(())
    }
}
