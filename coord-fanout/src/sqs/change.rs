//! Deleting deliveries, and changing for how long others do not get them.

use std::sync::Arc;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use coord_core::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::call::{AGAIN, Answer, Limit, call, together};
use super::error::entry_passes;
use super::{BATCH, Inner, Place};
use crate::queue::Receipt;

/// An extension that hangs leaves time for two more before the visibility ends.
const EXTENSIONS_PER_VISIBILITY: u32 = 3;

/// What SQS is asked to do with one delivery.
#[derive(Debug, Clone)]
pub(super) struct Change {
    handle: String,
    to: To,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Deleted,
    /// Kept from others for so many seconds from now on.
    Kept(i32),
}

impl Change {
    pub(super) fn delete(receipt: &Receipt) -> Self {
        Self::to(To::Deleted, parts(receipt).1)
    }

    pub(super) fn keep(receipt: &Receipt, seconds: i32) -> Self {
        Self::to(To::Kept(seconds), parts(receipt).1)
    }

    /// Lets others have what SQS handed out under `handle`.
    pub(super) fn let_go(handle: &str) -> Self {
        Self::to(To::Kept(0), handle)
    }

    /// Deletes what SQS handed out under `handle`.
    pub(super) fn delete_by(handle: &str) -> Self {
        Self::to(To::Deleted, handle)
    }

    fn to(to: To, handle: &str) -> Self {
        let handle = handle.to_owned();
        Self { handle, to }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    Done,
    /// The handle is not, or no longer, that of a delivery.
    NotOurs,
}

impl Inner {
    /// Makes changes, each call of one sort.
    pub(super) async fn change(
        self: &Arc<Self>,
        place: Place,
        changes: Vec<Change>,
    ) -> Result<Vec<Changed>> {
        self.change_by(&self.client, place, changes, self.limit())
            .await
    }

    /// The same on connections that the caller's runtime does not hold up, in a time that leaves
    /// room for another attempt.
    pub(super) async fn change_apart(
        self: &Arc<Self>,
        changes: Vec<Change>,
    ) -> Result<Vec<Changed>> {
        let limit = self.visibility.as_duration() / EXTENSIONS_PER_VISIBILITY;
        let limit = Limit::within(limit.min(self.options.deadline));
        self.change_by(&self.apart, Place::Open, changes, limit)
            .await
    }

    async fn change_by(
        self: &Arc<Self>,
        client: &Client,
        place: Place,
        changes: Vec<Change>,
        limit: Limit,
    ) -> Result<Vec<Changed>> {
        let batches = changes.chunks(BATCH).map(|batch| {
            let (inner, client, batch) = (Arc::clone(self), client.clone(), batch.to_vec());
            async move {
                Batch {
                    client,
                    place,
                    limit,
                }
                .run(&inner, batch)
                .await
            }
        });
        let answers = together(batches.collect::<Vec<_>>()).await;
        let earlier = answers.iter().filter(|answer| answer.is_ok()).count();
        let changed = answers.into_iter().collect::<Result<Vec<_>>>();
        let changed = changed.map_err(|error| self.after_earlier("settling", error, earlier))?;
        Ok(changed.concat())
    }
}

/// How one batch is sent.
struct Batch {
    client: Client,
    place: Place,
    limit: Limit,
}

impl Batch {
    async fn run(&self, inner: &Inner, changes: Vec<Change>) -> Result<Vec<Changed>> {
        let mut outcomes = vec![None; changes.len()];
        let (mut attempt, until) = (0, Instant::now() + self.limit.total);
        loop {
            let open = changes.iter().enumerate().zip(&outcomes);
            let open = open.filter(|(_, outcome)| outcome.is_none());
            let open: Vec<_> = open
                .map(|((position, change), _)| (position, change))
                .collect();
            if open.is_empty() {
                // All have one by now.
                return Ok(outcomes.into_iter().flatten().collect());
            }
            let Answer {
                said: failed,
                again,
            } = self.ask(inner, &open).await?;
            let mut passing = None;
            for (position, change) in &open {
                let failure = failed.iter().find(|one| one.id() == position.to_string());
                outcomes[*position] = match failure {
                    None => Some(Changed::Done),
                    Some(one) if entry_passes(one.sender_fault(), one.code()) => {
                        passing = Some(one.code().to_owned());
                        None
                    }
                    // An attempt without an answer let go of it, and so ended the handle.
                    Some(_) if again && change.to == To::Kept(0) => Some(Changed::Done),
                    Some(_) => Some(Changed::NotOurs),
                };
            }
            let Some(code) = passing else { continue };
            let delay = AGAIN.jittered(attempt);
            attempt += 1;
            if Instant::now() + delay >= until {
                let kind = if open.len() < changes.len() || failed.len() < open.len() {
                    ErrorKind::Timeout
                } else {
                    ErrorKind::Unavailable
                };
                let what = format!("changing deliveries of {}: {code}", inner.url(self.place));
                return Err(Error::new(kind, what));
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Asks once for all of `open`, which are of one sort; says what failed.
    async fn ask(
        &self,
        inner: &Inner,
        open: &[(usize, &Change)],
    ) -> Result<Answer<Vec<BatchResultErrorEntry>>> {
        let url = inner.url(self.place);
        if open.iter().any(|(_, change)| change.to == To::Deleted) {
            let entry = |(position, change): &(usize, &Change)| {
                let entry = DeleteMessageBatchRequestEntry::builder();
                let entry = entry.id(position.to_string());
                let entry = entry.receipt_handle(&change.handle).build();
                entry.expect("it has an id and a handle")
            };
            let entries: Vec<_> = open.iter().map(entry).collect();
            let doing = format!("deleting from {url}");
            let answer = call(&doing, self.limit, || {
                let request = self.client.delete_message_batch().queue_url(url);
                request.set_entries(Some(entries.clone())).send()
            });
            let Answer { said, again } = answer.await?;
            return Ok(Answer {
                said: said.failed,
                again,
            });
        }
        let entry = |(position, change): &(usize, &Change)| {
            let seconds = match change.to {
                To::Kept(seconds) => seconds,
                To::Deleted => 0,
            };
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder();
            let entry = entry.id(position.to_string()).visibility_timeout(seconds);
            let entry = entry.receipt_handle(&change.handle).build();
            entry.expect("it has an id and a handle")
        };
        let entries: Vec<_> = open.iter().map(entry).collect();
        let doing = format!("changing visibilities in {url}");
        let answer = call(&doing, self.limit, || {
            let request = self.client.change_message_visibility_batch();
            let request = request.queue_url(url);
            request.set_entries(Some(entries.clone())).send()
        });
        let Answer { said, again } = answer.await?;
        Ok(Answer {
            said: said.failed,
            again,
        })
    }
}

/// The handle by which SQS knows the delivery.
///
/// # Errors
/// `Invalid` when the receipt is another backend's.
pub(super) fn handle(receipt: &Receipt) -> Result<&str> {
    match parts(receipt) {
        (id, handle) if !id.is_empty() && !handle.is_empty() => Ok(handle),
        _ => Err(Error::invalid(format!(
            "{receipt:?} is no receipt of a queue on SQS"
        ))),
    }
}

/// What SQS calls the message.
pub(super) fn message_id(receipt: &Receipt) -> &str {
    parts(receipt).0
}

fn parts(receipt: &Receipt) -> (&str, &str) {
    receipt.as_str().split_once('/').unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_of_another_backend_is_invalid() {
        assert_eq!(
            handle(&Receipt::new("id/AQEB/w==")).expect("ours"),
            "AQEB/w=="
        );
        for foreign in ["", "AQEBw", "/", "id/", "/handle"] {
            assert!(handle(&Receipt::new(foreign)).is_err(), "{foreign}");
        }
    }
}
