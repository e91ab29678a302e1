//! The list of verdicts that each node keeps, and keeps true.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU32;
use std::time::Duration;

use coord_broadcast::{Broadcast, Received, Subscription, Topic};
use coord_core::signals::Detail;
use coord_core::{Name, Result};
use coord_engine::client::Client;
use coord_engine::model::{Closed, Failure};
use coord_engine::store::{Filter, Listing};
use coord_redis::Redis;
use tokio::time::{MissedTickBehavior, interval};

use crate::audit::{AUDIT, Verdict};
use crate::said::{Event, say};

/// How many verdicts the log keeps for a node that was cut off: whoever missed more reads the
/// database.
const KEPT: u32 = 1000;
/// How often a node that is told looks into the database all the same: what was not told is late,
/// never missing.
const LOOK: Duration = Duration::from_secs(5);
/// How often a node looks that nobody tells.
const LOOK_ALONE: Duration = Duration::from_millis(500);
/// Runs in one page of a look.
const PAGE: u32 = 500;

/// A record and its verdict.
type Told = (String, Verdict);

/// What this node knows of all verdicts, and tells all nodes of those that it waited for.
#[derive(Clone)]
pub(crate) struct Verdicts {
    client: Client,
    told: Option<(Broadcast, Topic<Told>)>,
}

impl Verdicts {
    pub(crate) fn new(client: &Client, redis: Option<&Redis>) -> Result<Self> {
        let told = match redis {
            None => None,
            Some(redis) => {
                let kept = NonZeroU32::new(KEPT).expect("it is not zero");
                let topic = Topic::new(Name::new("verdicts")?).replay(kept);
                Some((Broadcast::new(redis), topic))
            }
        };
        Ok(Self {
            client: client.clone(),
            told,
        })
    }

    /// Tells all nodes what the database holds now; to be told twice does no harm.
    pub(crate) async fn tell(&self, record: &str, verdict: Verdict) -> Result<()> {
        let Some((broadcast, topic)) = &self.told else {
            return Ok(());
        };
        let told = (record.to_owned(), verdict);
        broadcast.publish(topic, &told).await.map(drop)
    }

    /// Keeps the list until `ended`: subscribed first and looked up then, so that nothing falls in
    /// between; looked up again after a gap, and now and then.
    pub(crate) async fn keep(&self, ended: impl Future<Output = ()>) -> Result<()> {
        let mut subscription = match &self.told {
            Some((broadcast, topic)) => Some(broadcast.subscribe(topic).await?),
            None => None,
        };
        let mut looks = interval(if subscription.is_some() {
            LOOK
        } else {
            LOOK_ALONE
        });
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = BTreeMap::new();
        let mut ended = std::pin::pin!(ended);
        loop {
            tokio::select! {
                () = &mut ended => return Ok(()),
                _ = looks.tick() => self.look(&mut known).await,
                received = next(&mut subscription) => match received {
                    Some(Received::Message(message)) => learn(&mut known, message.body()?),
                    Some(Received::Gap(_) | Received::Lagged(_)) => self.look(&mut known).await,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Learns what the database holds. What does not answer now is asked again soon.
    async fn look(&self, known: &mut BTreeMap<String, Verdict>) {
        match self.recorded().await {
            Ok(recorded) => recorded
                .into_iter()
                .filter_map(|(record, verdict)| Some((record, verdict?)))
                .for_each(|told| learn(known, told)),
            Err(error) => {
                let message = Detail::error(&error).to_string();
                say(&Event::Failed { message: &message });
            }
        }
    }

    /// Every record whose workflow was started, and its verdict if it has one.
    pub(crate) async fn recorded(&self) -> Result<Vec<(String, Option<Verdict>)>> {
        let mut listing = Listing {
            filter: Filter {
                name: Some(AUDIT.name()),
                ..Filter::all(self.client.namespace().clone())
            },
            limit: PAGE,
            after: None,
        };
        let mut recorded = Vec::new();
        loop {
            let page = self.client.list(&listing).await?;
            for run in page.runs {
                let verdict = run.closed.map(verdict).transpose()?;
                recorded.push((run.workflow.to_string(), verdict));
            }
            listing.after = page.next;
            if listing.after.is_none() {
                return Ok(recorded);
            }
        }
    }
}

/// What a run that has ended says of its archive.
fn verdict(closed: Closed) -> Result<Verdict> {
    match closed {
        Closed::Completed(output) => output.read(),
        Closed::Failed(failure)
        | Closed::Cancelled(failure)
        | Closed::Terminated(failure)
        | Closed::TimedOut(failure) => Ok(Verdict::unreadable(&failure)),
        Closed::ContinuedAsNew(run) => Ok(Verdict::unreadable(&Failure::new(format!(
            "it goes on as {run}"
        )))),
    }
}

fn learn(known: &mut BTreeMap<String, Verdict>, (record, verdict): Told) {
    if let Entry::Vacant(place) = known.entry(record) {
        let record = place.key();
        say(&Event::Known {
            record,
            verdict: &verdict,
        });
        place.insert(verdict);
    }
}

/// The next thing that is told; never, where nobody tells.
async fn next(subscription: &mut Option<Subscription<Told>>) -> Option<Received<Told>> {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}
