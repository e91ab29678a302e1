//! Who holds a lease, as the server tells it.

use std::time::{Duration, SystemTime};

use coord_core::{FencingToken, Result};
use coord_redis::Reply;

use crate::Owner;

/// Who holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The number of its grant.
    pub fence: FencingToken,
    /// What was left of its life when the server answered, if it is not renewed.
    pub remaining: Duration,
    /// What it said of itself; nothing when its record was evicted or overwritten.
    pub record: Option<Record>,
}

/// What the holder of a lease said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who it is.
    pub owner: Owner,
    /// When it was granted, on the server's clock.
    pub since: SystemTime,
}

impl Holder {
    /// The holder from what `lease_holder` of the [stored form](crate::format) gave.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn from_reply(reply: Reply) -> Result<Self> {
        let [fence, record, left_ms] = reply.array()?;
        let fence = fence.text()?.parse()?;
        let record = match record.optional() {
            Some(record) => record.text().ok().and_then(|record| parse(&record, fence)),
            None => None,
        };
        // Below zero: the key ended meanwhile, or somebody took its TTL away.
        let left_ms = u64::try_from(left_ms.int()?).unwrap_or(0);
        Ok(Self {
            fence,
            remaining: Duration::from_millis(left_ms),
            record,
        })
    }

    /// The holder's name, if its record is there.
    pub fn owner(&self) -> Option<&Owner> {
        self.record.as_ref().map(|record| &record.owner)
    }
}

/// The record of the grant of `fence`; that of an earlier grant says nothing of this one.
fn parse(record: &str, fence: FencingToken) -> Option<Record> {
    let (stored, rest) = record.split_once(':')?;
    let (since_ms, owner) = rest.split_once(':')?;
    if stored.parse() != Ok(fence.get()) {
        return None;
    }
    let since = Duration::from_millis(since_ms.parse().ok()?);
    Some(Record {
        owner: Owner::decode(owner)?,
        since: SystemTime::UNIX_EPOCH.checked_add(since)?,
    })
}
