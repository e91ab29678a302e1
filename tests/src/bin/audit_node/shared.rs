//! What the nodes share over Redis, and what each has by itself without it.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use coord_cache::{Cache, CacheOptions, Life};
use coord_core::{Error, Name, Result};
use coord_ratelimit::{Limit, Limiter, Quota, Subject, WithoutRedis};
use coord_redis::Redis;
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::archives::{GROUPS, Recorded};
use crate::said::{Event, say};

/// Archives of one group that all nodes together read in a second, and at once.
const READS_PER_SECOND: u32 = 50;
const READS_AT_ONCE: u32 = 10;

/// How long an archive waits for its turn: many times what a group takes.
const READ_WAIT: Duration = Duration::from_secs(30);

/// How long the lock file's entries are kept: longer than a run.
const ENTRIES_LIFE: Duration = Duration::from_mins(10);

/// What the lock file records, by group.
pub(crate) enum Entries {
    /// Read once for all nodes, and then from the cache.
    Shared(Cache<Recorded>),
    /// Read once by each node.
    Own(Mutex<HashMap<&'static str, Arc<Recorded>>>),
}

impl Entries {
    pub(crate) fn new(redis: Option<&Redis>) -> Result<Self> {
        let Some(redis) = redis else {
            return Ok(Self::Own(Mutex::default()));
        };
        let life = Life::new(ENTRIES_LIFE)?;
        let groups = NonZeroUsize::new(GROUPS.len()).expect("there are groups");
        let options = CacheOptions::default().ttl(life).near(groups, life);
        Ok(Self::Shared(Cache::new(
            redis,
            &Name::new("lock-file")?,
            options,
        )))
    }

    pub(crate) async fn get<R>(
        &self,
        group: &'static str,
        read: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Arc<Recorded>>
    where
        R: Future<Output = Result<Recorded>> + Send + 'static,
    {
        match self {
            Self::Shared(cache) => {
                let recorded = cache.get_or_fetch(&Name::new(group)?, read).await?;
                Ok(recorded.unwrap_or_default())
            }
            Self::Own(read_before) => {
                let mut read_before = read_before.lock().await;
                if let Some(recorded) = read_before.get(group) {
                    return Ok(Arc::clone(recorded));
                }
                let recorded = Arc::new(read().await?);
                read_before.insert(group, Arc::clone(&recorded));
                Ok(recorded)
            }
        }
    }
}

/// The limit of reads.
pub(crate) enum Reads {
    /// One for all nodes, for each group.
    Shared(Limiter),
    /// A node's share of all groups together.
    Own(Mutex<Interval>),
}

impl Reads {
    pub(crate) fn new(redis: Option<&Redis>, nodes: u8) -> Result<Self> {
        let Some(redis) = redis else {
            let groups = u32::try_from(GROUPS.len()).expect("a few");
            let all = Duration::from_secs(1) / (READS_PER_SECOND * groups);
            let mut turns = interval(all * u32::from(nodes));
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            return Ok(Self::Own(Mutex::new(turns)));
        };
        let quota = Quota::per_second(READS_PER_SECOND)?;
        let limit = Limit::gcra(Name::new("reads")?, quota, READS_AT_ONCE)?;
        // An audit does not stop for its limit.
        let limiter = Limiter::new(redis, [limit], WithoutRedis::Allow)?;
        Ok(Self::Shared(limiter))
    }

    /// Waits until an archive of the group may be read.
    pub(crate) async fn turn(&self, group: &str, record: &str) -> Result<()> {
        let limiter = match self {
            Self::Shared(limiter) => limiter,
            Self::Own(turns) => {
                turns.lock().await.tick().await;
                return Ok(());
            }
        };
        let subject = Subject::new(&Name::new(group)?);
        if limiter.try_acquire(&subject, 1).await?.is_allowed() {
            return Ok(());
        }
        say(&Event::Waited);
        if limiter.acquire(&subject, 1, READ_WAIT).await?.is_allowed() {
            return Ok(());
        }
        Err(Error::contended(format!(
            "{record} had no turn under the limit of {group} within {READ_WAIT:?}"
        )))
    }
}
