//! The stored form of a lease, written once for every service that grants by a script of its own.
//!
//! | key | value | lives |
//! |---|---|---|
//! | the lease's own | `token:fence` | for the TTL |
//! | [`record`] beside it | `fence:since_ms:owner` | 24 h longer, so that the next fence is larger |
//!
//! A script made with [`lease_script!`](crate::lease_script) finds these functions above it:
//!
//! | function | gives |
//! |---|---|
//! | `lease_read(key)` | `{token, fence}`, nothing when free; or nothing and an error to return |
//! | `lease_grant(key, record, token, ttl_ms, owner)` | the fence; or nothing and an error to return |
//! | `lease_extend(key, record, ttl_ms)` | nothing; or an error to return |
//! | `lease_holder(key, record, held)` | what [`Holder::from_reply`](crate::Holder::from_reply) takes |
//! | `lease_refused(reply)` | whether the reply of a `redis.pcall` is an error to return |

use coord_core::{ClaimToken, FencingToken, Key};

pub use crate::list::held;

/// The Lua functions, which [`lease_script!`](crate::lease_script) puts above a script.
#[doc(hidden)]
pub const LUA: &str = include_str!("lua/format.lua");

/// What `grant_free` puts above them.
#[doc(hidden)]
pub const GRANT_FREE: &str = include_str!("lua/grant_free.lua");

/// The key of the record beside a lease.
pub fn record(key: &Key) -> Key {
    key.part("record")
}

/// The value of the key of a lease.
pub(crate) fn value(token: &ClaimToken, fence: FencingToken) -> String {
    format!("{}:{fence}", token.as_str())
}

/// A [`Script`](coord_redis::Script) with the functions of the [stored form](crate::format) above
/// its own source.
///
/// ```
/// use coord_redis::Script;
///
/// static TAKE: Script = coord_lease::lease_script!("queue.take", "return lease_read(KEYS[1])");
/// ```
///
/// A text before the source goes above the functions: for the common case of a script that every
/// request runs, which then does without making them. The word `grant_free` in its place stands
/// for the grant of a key that is free: `KEYS` begin with the key and its record, `ARGV` with
/// token, TTL in ms and owner, and the reply is the fence; the source sees the keys that are not.
#[macro_export]
macro_rules! lease_script {
    ($name:literal, $source:expr) => {
        $crate::lease_script!($name, "", $source)
    };
    ($name:literal, grant_free, $source:expr) => {
        $crate::lease_script!($name, $crate::format::GRANT_FREE, $source)
    };
    ($name:literal, $above:expr, $source:expr) => {{
        const PARTS: [&str; 3] = [$above, $crate::format::LUA, $source];
        const LENGTH: usize = PARTS[0].len() + PARTS[1].len() + PARTS[2].len();
        const JOINED: [u8; LENGTH] = $crate::format::join(PARTS);
        $crate::format::script($name, &JOINED)
    }};
}

#[doc(hidden)]
pub const fn join<const LENGTH: usize>(parts: [&str; 3]) -> [u8; LENGTH] {
    let mut joined = [0; LENGTH];
    let (mut length, mut part) = (0, 0);
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            joined[length] = bytes[index];
            length += 1;
            index += 1;
        }
        part += 1;
    }
    joined
}

#[doc(hidden)]
pub const fn script(name: &'static str, source: &'static [u8]) -> coord_redis::Script {
    match std::str::from_utf8(source) {
        Ok(source) => coord_redis::Script::new(name, source),
        Err(_) => panic!("texts in a row are text"),
    }
}
