//! Handing messages out.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::MessageSystemAttributeName;
use coord_core::{ClaimToken, Result};
use tokio::time::Instant;

use super::call::{LANES, Limit, call, together};
use super::settle::Fate;
use super::wire::Incoming;
use super::{BATCH, Inner, Place};
use crate::queue::{Delivery, Receipt};
use crate::signals::Burial;

/// Most messages of one receive: more would have aged before the last of them is there.
const MOST: usize = 128;

/// The longest wait of one receive, so that every duration may be asked for.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// The longest wait of one request that SQS takes.
const LONGEST_POLL: u64 = 20;

/// One request for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Poll {
    pub(super) place: Place,
    pub(super) max: usize,
    /// Whole seconds.
    pub(super) wait: u64,
    /// For how long others do not get them.
    pub(super) hidden: Duration,
}

impl Inner {
    pub(super) async fn receive(
        self: &Arc<Self>,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>> {
        let (max, until) = (max.clamp(1, MOST), Instant::now() + wait.min(LONGEST_WAIT));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let first = self.take(self.most().min(max), self.wait(left)).await?;
            let mut deliveries = self.handable(first).await?;
            if !deliveries.is_empty() {
                self.fill(&mut deliveries, max).await;
                return Ok(deliveries);
            }
            if Instant::now() >= until {
                return Ok(deliveries);
            }
        }
    }

    /// Messages of one request. Of a group that has several, SQS hands out several at once, and
    /// counts an attempt at each of them.
    fn most(&self) -> usize {
        if self.options.grouped { 1 } else { BATCH }
    }

    /// The seconds for which one request waits. Validity is counted from its sending, so it must
    /// not wait for most of that away.
    fn wait(&self, left: Duration) -> u64 {
        let whole = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let quarter = self.visibility.as_duration().as_secs() / 4;
        whole.min(quarter.clamp(1, LONGEST_POLL))
    }

    /// Asks on while there is more, twice as much each time. What fails now is had later.
    async fn fill(self: &Arc<Self>, deliveries: &mut Vec<Delivery>, max: usize) {
        let mut requests = 1;
        while deliveries.len() < max {
            let left = max - deliveries.len();
            let most = self.most();
            let calls = (0..requests.min(left.div_ceil(most))).map(|number| {
                let (inner, size) = (Arc::clone(self), most.min(left - number * most));
                async move {
                    let taken = inner.take(size, 0).await?;
                    inner.handable(taken).await
                }
            });
            let before = deliveries.len();
            let mut whole = true;
            for taken in together(calls).await {
                let taken = taken.unwrap_or_default();
                whole &= !taken.is_empty();
                deliveries.extend(taken);
            }
            if !whole || deliveries.len() == before {
                return;
            }
            requests = (requests * 2).min(LANES);
        }
    }

    async fn take(&self, max: usize, wait: u64) -> Result<(Vec<Incoming>, Instant)> {
        let poll = Poll {
            place: Place::Open,
            max,
            wait,
            hidden: self.visibility.as_duration(),
        };
        let sent = Instant::now();
        self.held().prune(sent);
        Ok((self.poll(poll).await?, sent))
    }

    /// Asks for messages. An answer that was lost is asked for again under the same attempt id, to
    /// which SQS hands out the same messages again, without counting an attempt.
    pub(super) async fn poll(&self, poll: Poll) -> Result<Vec<Incoming>> {
        let attempt = ClaimToken::random();
        let wait = Duration::from_secs(poll.wait);
        // What is asked for again must still be ours when it comes.
        let limit = Limit::within(self.options.deadline.min(poll.hidden / 2)).after(wait);
        let doing = format!("receiving from {}", self.url(poll.place));
        let answer = call(&doing, limit, || {
            let request = self.client.receive_message();
            request
                .queue_url(self.url(poll.place))
                .max_number_of_messages(i32::try_from(poll.max).unwrap_or(1))
                .wait_time_seconds(i32::try_from(poll.wait).unwrap_or(0))
                .visibility_timeout(i32::try_from(poll.hidden.as_secs()).unwrap_or(i32::MAX))
                .receive_request_attempt_id(attempt.as_str())
                .message_attribute_names("All")
                .message_system_attribute_names(MessageSystemAttributeName::All)
                .send()
        });
        let said = answer.await?.said;
        said.messages().iter().map(Incoming::read).collect()
    }

    /// Sorts out what can be handed to nobody, and gives that up.
    async fn handable(
        self: &Arc<Self>,
        (incoming, sent): (Vec<Incoming>, Instant),
    ) -> Result<Vec<Delivery>> {
        let valid_until = Self::valid_until(sent, self.visibility.as_duration());
        let (mut deliveries, mut hopeless) = (Vec::new(), Vec::new());
        for one in incoming {
            let receipt = Receipt::new(format!("{}/{}", one.id, one.handle));
            self.held().insert(receipt.clone(), sent, valid_until);
            let delivery = Delivery {
                message: one.message,
                attempt: one.count,
                receipt,
                valid_until,
            };
            if !one.is_ours {
                let reason = "it is no message of this queue";
                hopeless.push((delivery, Fate::dead(Burial::Foreign, 0, reason)));
            } else if one.count > self.options.attempts.get() {
                let reason = "not settled in time at its last attempt";
                let fate = Fate::dead(Burial::Abandoned, one.count - 1, reason);
                hopeless.push((delivery, fate));
            } else {
                deliveries.push(delivery);
            }
        }
        let orders = hopeless
            .iter()
            .map(|(delivery, fate)| (delivery, fate.clone()));
        match self.carry_out(orders.collect()).await {
            // What could not be given up now comes back; what can be handed out is.
            Err(error) if deliveries.is_empty() => Err(error),
            _ => Ok(deliveries),
        }
    }
}
