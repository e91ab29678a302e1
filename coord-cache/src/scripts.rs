//! The scripts, and the commands on the keys of one entry.

use coord_core::{Key, Name};
use coord_redis::{Command, Redis, Script};

use crate::envelope::Head;

static FETCH: Script = Script::new("cache.fetch", include_str!("lua/fetch.lua"));
static READ: Script = Script::new("cache.read", include_str!("lua/read.lua"));
static STORE: Script = Script::new("cache.store", include_str!("lua/store.lua"));
static FORGET: Script = Script::new("cache.forget", include_str!("lua/forget.lua"));
static RENEW: Script = Script::new("cache.renew", include_str!("lua/renew.lua"));
static SET_MANY: Script = Script::new("cache.set_many", include_str!("lua/set_many.lua"));

/// What all keys of caches begin with.
pub(crate) const KIND: &str = "cache";

/// For how long a placeholder stands without a renewal: a process that died while it loaded holds
/// the others up for no longer than this.
pub(crate) const FILL_MS: u64 = 5_000;

/// The key of an entry.
pub(crate) fn key(redis: &Redis, cache: &Name, name: &Name) -> Key {
    redis.keys().key(KIND, &[cache, name])
}

/// Where it is marked who loads an entry anew while its value is still there.
fn mark(key: &Key) -> Key {
    key.part("refresh")
}

/// Reads the entry, or places `placeholder`, in the one command that newer servers have.
pub(crate) fn fetch_plain(key: &Key, placeholder: &Head) -> Command {
    let set = Command::new("SET").key(key).arg(&placeholder[..]);
    set.arg("NX").arg("GET").arg("PX").arg(FILL_MS).idempotent()
}

/// Reads the entry with its PTTL, or places `placeholder`, also in place of `unreadable`.
pub(crate) fn fetch(key: &Key, placeholder: &Head, unreadable: &[u8]) -> Command {
    let call = FETCH.call(&[key]).arg(&placeholder[..]);
    call.arg(FILL_MS).arg(unreadable).idempotent()
}

/// Reads an entry.
pub(crate) fn get(key: &Key) -> Command {
    Command::new("GET").key(key).idempotent()
}

pub(crate) fn get_many(keys: &[&Key]) -> Command {
    let get = Command::new("MGET").idempotent();
    keys.iter().fold(get, |get, key| get.key(key))
}

/// Reads entries, each with its PTTL.
pub(crate) fn read(keys: &[&Key]) -> Command {
    READ.call(keys).idempotent()
}

/// Stores `entry` where `head` still stands, and removes the mark that has the head `marked`.
pub(crate) fn store(
    redis: &Redis,
    key: &Key,
    (head, marked): (&Head, &[u8]),
    (entry, ttl_ms): (&[u8], u64),
) -> Command {
    let call = STORE.call(&[key, &mark(key)]);
    call.arg(&head[..])
        .arg(entry)
        .arg(ttl_ms)
        .arg(key.channel(redis.database()).as_str())
        .arg(redis.publish_verb())
        .arg(marked)
        .idempotent()
}

/// Removes what has the head `head`.
pub(crate) fn forget(redis: &Redis, key: &Key, head: &Head) -> Command {
    let call = FORGET.call(&[key]).arg(&head[..]);
    call.arg(key.channel(redis.database()).as_str())
        .arg(redis.publish_verb())
        .idempotent()
}

pub(crate) fn renew(key: &Key, placeholder: &Head) -> Command {
    let call = RENEW.call(&[key]).arg(&placeholder[..]);
    call.arg(FILL_MS).idempotent()
}

/// Marks the entry as being loaded anew; nil if somebody else has.
pub(crate) fn set_mark(key: &Key, head: &Head, ttl_ms: u64) -> Command {
    let set = Command::new("SET").key(&mark(key)).arg(&head[..]);
    set.arg("NX").arg("PX").arg(ttl_ms)
}

/// Has a mark end soon.
pub(crate) fn shorten_mark(key: &Key, ttl_ms: u64) -> Command {
    let expire = Command::new("PEXPIRE").key(&mark(key));
    expire.arg(ttl_ms).idempotent()
}

pub(crate) fn set(key: &Key, entry: &[u8], ttl_ms: u64) -> Command {
    let set = Command::new("SET").key(key).arg(entry);
    set.arg("PX").arg(ttl_ms).idempotent()
}

pub(crate) fn set_many(keys: &[&Key], entries: &[(Vec<u8>, u64)]) -> Command {
    let call = SET_MANY.call(keys).idempotent();
    entries.iter().fold(call, |call, (entry, ttl_ms)| {
        call.arg(entry.as_slice()).arg(ttl_ms)
    })
}

pub(crate) fn delete(key: &Key) -> Command {
    Command::new("UNLINK").key(key).key(&mark(key)).idempotent()
}
