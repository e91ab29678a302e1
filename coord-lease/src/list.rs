//! Who holds what, many at a time.

use coord_core::{Key, Name, Result};
use coord_redis::{Redis, Reply, Script};

use crate::Holder;
use crate::batch::by_call;
use crate::format;

/// Tells who holds leases.
static INSPECT: Script = crate::lease_script!("lease.inspect", include_str!("lua/inspect.lua"));

/// All that somebody holds of `kind`, in the [stored form](crate::format), whose names start with
/// `start`, by their names. It walks over the whole key space in small steps; what is claimed or
/// released meanwhile may be missing or there, and what is stored in another form is left out.
///
/// # Errors
/// `Unavailable` and `Timeout`.
///
/// # Cancel safety
/// Safe: it only reads.
pub async fn held(redis: &Redis, kind: &'static str, start: &str) -> Result<Vec<(Name, Holder)>> {
    let keys = redis.keys();
    let found = redis.scan(&keys.pattern(kind, start)).await?;
    let named = found.iter().filter_map(|key| {
        let [name] = keys.names(kind, key)?.try_into().ok()?;
        Some((keys.key(kind, &[&name]), name))
    });
    let mut held = Vec::new();
    for group in by_call(redis, named.collect(), |(key, _)| key) {
        let keys: Vec<_> = group.iter().map(|(key, _)| key).collect();
        let replies = read(redis, &keys).await?.list()?;
        for ((_, name), reply) in group.iter().zip(replies) {
            if let Reply::List(_) = reply {
                held.push((name.clone(), Holder::from_reply(reply)?));
            }
        }
    }
    held.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(held)
}

/// The holder of each of `leases`, which share a call.
pub(crate) async fn read(redis: &Redis, leases: &[&Key]) -> Result<Reply> {
    let records: Vec<_> = leases.iter().map(|key| format::record(key)).collect();
    let keys: Vec<_> = leases
        .iter()
        .zip(&records)
        .flat_map(|(key, record)| [*key, record])
        .collect();
    redis.run(&INSPECT.call(&keys).idempotent()).await
}
