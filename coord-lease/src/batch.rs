//! Scripts over many leases: which of them may share a call.

use std::collections::HashMap;

use coord_core::Key;
use coord_redis::Redis;

/// A call for this many leases holds the server up for about a millisecond: a `GET` and two
/// `PEXPIRE` each, and the script around them.
const LEASES_PER_CALL: usize = 256;

/// Groups `leases` by call: those of one slot of a cluster, and all of them elsewhere.
pub(crate) fn by_call<T>(
    redis: &Redis,
    leases: Vec<T>,
    key: impl Fn(&T) -> &Key,
) -> impl Iterator<Item = Vec<T>> {
    let mut by_slot: HashMap<Option<u16>, Vec<T>> = HashMap::new();
    for lease in leases {
        by_slot
            .entry(redis.slot(key(&lease)))
            .or_default()
            .push(lease);
    }
    by_slot.into_values().flat_map(|mut group| {
        let mut calls = Vec::new();
        while group.len() > LEASES_PER_CALL {
            calls.push(group.split_off(group.len() - LEASES_PER_CALL));
        }
        calls.push(group);
        calls
    })
}
