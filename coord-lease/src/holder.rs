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

#[cfg(test)]
mod tests {
    use coord_core::{ErrorKind, Name};

    use super::*;

    fn reply(record: Reply, left_ms: i64) -> Reply {
        let fence = Reply::Bytes(b"17".to_vec());
        Reply::List(vec![fence, record, Reply::Int(left_ms)])
    }

    fn holder(record: &str) -> Holder {
        let record = Reply::Bytes(record.as_bytes().to_vec());
        Holder::from_reply(reply(record, 5)).expect("a holder")
    }

    #[test]
    fn a_holder_is_read_with_its_record() {
        let owner = Owner::new(Name::new("a:b").expect("a valid name"));

        let holder = holder(&format!("17:1500:{}", owner.encode()));

        let record = holder.record.expect("the record of this grant");
        assert_eq!(record.owner, owner);
        let since = record.since.duration_since(SystemTime::UNIX_EPOCH);
        assert_eq!(since.expect("after"), Duration::from_millis(1500));
        assert_eq!(holder.remaining, Duration::from_millis(5));
    }

    #[test]
    fn a_record_of_another_grant_or_of_another_form_says_nothing() {
        let owner = r#"{"name":"n"}"#;
        assert!(holder(&format!("17:1:{owner}")).record.is_some());

        for record in [
            format!("16:1:{owner}"),
            format!("17::{owner}"),
            format!("17:x:{owner}"),
            "17:1:".to_owned(),
            "17:1".to_owned(),
            String::new(),
        ] {
            assert_eq!(holder(&record).record, None, "{record}");
        }
    }

    #[test]
    fn a_holder_without_a_record_or_a_ttl_is_still_one() {
        let holder = Holder::from_reply(reply(Reply::Nil, -1)).expect("a holder");

        assert_eq!((holder.record, holder.remaining), (None, Duration::ZERO));
    }

    #[test]
    fn a_reply_of_another_form_is_corrupt() {
        let no_fence = vec![Reply::Bytes(b"0".to_vec()), Reply::Nil, Reply::Int(1)];

        for reply in [Reply::Nil, Reply::Int(1), Reply::List(no_fence)] {
            let error = Holder::from_reply(reply).expect_err("of another form");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }
}
