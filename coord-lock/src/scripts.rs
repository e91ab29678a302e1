//! The scripts, and the keys they work on.

use coord_core::{Channel, Key};
use coord_lease::format;
use coord_lease::lease_script;
use coord_redis::{Redis, Script};

macro_rules! queue_script {
    ($name:literal, $file:literal) => {
        lease_script!(
            $name,
            concat!(include_str!("lua/queue.lua"), include_str!($file))
        )
    };
}

pub(crate) static ACQUIRE: Script = lease_script!("lock.acquire", include_str!("lua/acquire.lua"));
pub(crate) static INSPECT: Script = lease_script!("lock.inspect", include_str!("lua/inspect.lua"));
pub(crate) static LINE_UP: Script = queue_script!("lock.line_up", "lua/line_up.lua");
pub(crate) static RELEASE: Script = lease_script!(
    "lock.release",
    include_str!("lua/release_unawaited.lua"),
    concat!(
        include_str!("lua/queue.lua"),
        include_str!("lua/release.lua")
    )
);

/// The keys of one lock.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// Who has it: `token:fence`.
    pub(crate) lock: Key,
    /// The last grant.
    pub(crate) record: Key,
    /// Who waits, in their order.
    pub(crate) queue: Key,
    /// Until when their places are kept.
    pub(crate) places: Key,
    /// Where a release is made known.
    pub(crate) channel: Channel,
}

impl Keys {
    pub(crate) fn new(lock: Key, redis: &Redis) -> Self {
        Self {
            record: format::record(&lock),
            queue: lock.part("queue"),
            places: lock.part("places"),
            channel: lock.channel(redis.database()),
            lock,
        }
    }

    pub(crate) fn all(&self) -> [&Key; 4] {
        [&self.lock, &self.record, &self.queue, &self.places]
    }
}
