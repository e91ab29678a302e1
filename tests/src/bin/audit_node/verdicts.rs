//! The list of verdicts that each node keeps, and keeps true.

use std::num::NonZeroU32;
use std::sync::Arc;

use coord_broadcast::{Broadcast, Received, Topic};
use coord_core::{Name, Result};
use coord_redis::Redis;

use crate::archives::{Report, Verdict};
use crate::said::{Event, say};

/// How many verdicts the log keeps for a node that was cut off: whoever missed more reads the
/// report.
const KEPT: u32 = 1000;

/// A record and its verdict.
pub(crate) type Told = (String, Verdict);

/// What this node knows of all verdicts, and tells all nodes of its own.
#[derive(Clone)]
pub(crate) struct Verdicts {
    broadcast: Broadcast,
    topic: Topic<Told>,
    report: Arc<Report>,
}

impl Verdicts {
    pub(crate) fn new(redis: &Redis, report: &Arc<Report>) -> Result<Self> {
        let kept = NonZeroU32::new(KEPT).expect("it is not zero");
        Ok(Self {
            broadcast: Broadcast::new(redis),
            topic: Topic::new(Name::new("verdicts")?).replay(kept),
            report: Arc::clone(report),
        })
    }

    /// Tells all nodes; to be told twice does no harm.
    pub(crate) async fn tell(&self, record: &str, verdict: Verdict) -> Result<()> {
        let told = (record.to_owned(), verdict);
        self.broadcast.publish(&self.topic, &told).await.map(drop)
    }

    /// Keeps the list until `ended`.
    ///
    /// It subscribes first and reads the report then, since what was told before is there: the
    /// same as after a gap, when the log no longer has what was missed.
    pub(crate) async fn keep(&self, ended: impl Future<Output = ()>) -> Result<()> {
        let mut subscription = self.broadcast.subscribe(&self.topic).await?;
        let mut known = self.report.read()?;
        let mut ended = std::pin::pin!(ended);
        loop {
            let verdicts = known.len();
            say(&Event::Known { verdicts });
            let received = tokio::select! {
                () = &mut ended => return Ok(()),
                received = subscription.next() => received,
            };
            match received {
                Some(Received::Message(message)) => known.extend([message.body()?]),
                Some(Received::Gap(_) | Received::Lagged(_)) => known.extend(self.report.read()?),
                None => return Ok(()),
            }
        }
    }
}
