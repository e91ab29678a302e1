//! The scripts, and the keys they work on.

use coord_core::{Channel, Key, Name};
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

pub(crate) static ACQUIRE: Script =
    lease_script!("lock.acquire", grant_free, include_str!("lua/acquire.lua"));
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
    /// Where a release is made known to all who wait without a place.
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

    /// Where one client hears of offers to those of its waiters that have a place. The scripts
    /// make the same of the lock's key and channel.
    pub(crate) fn channel_of(&self, client: &Name, redis: &Redis) -> Channel {
        let waiter = self.lock.part_for("waiter", client);
        waiter.channel(redis.database())
    }

    pub(crate) fn all(&self) -> [&Key; 4] {
        [&self.lock, &self.record, &self.queue, &self.places]
    }
}
