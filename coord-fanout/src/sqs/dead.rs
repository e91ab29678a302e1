//! What operators ask: how much is there, what failed for good, and once more please.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use coord_core::{Error, Result};

use super::call::call;
use super::change::{Change, Changed};
use super::receive::Poll;
use super::wire::{Incoming, Outgoing};
use super::{BATCH, Inner, Place};
use crate::queue::{DeadLetter, Depth};
use crate::signals::Signal;

/// How long dead letters that are looked at stay out of sight, if whoever looks dies: time enough
/// for some thousand of them.
const LOOK: Duration = Duration::from_secs(30);

impl Inner {
    pub(super) async fn depth(&self) -> Result<Depth> {
        let (open, dead) = tokio::join!(self.count(Place::Open), self.count(Place::Dead));
        let ([ready, in_flight, delayed], [dead, looked_at, _]) = (open?, dead?);
        Ok(Depth {
            ready,
            waiting: 0,
            delayed,
            in_flight,
            dead: dead + looked_at,
            lag: None,
        })
    }

    /// The messages that can be had, are in hands, and are delayed.
    async fn count(&self, place: Place) -> Result<[u64; 3]> {
        const NAMES: [QueueAttributeName; 3] = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let url = self.url(place);
        let doing = format!("counting in {url}");
        let answer = call(&doing, self.limit(), || {
            let request = self.client.get_queue_attributes().queue_url(url);
            request.set_attribute_names(Some(NAMES.into())).send()
        });
        let attributes = answer.await?.said.attributes.unwrap_or_default();
        let number = |name| attributes.get(&name).and_then(|text| text.parse().ok());
        let [ready, in_flight, delayed] = NAMES.map(number);
        ready
            .zip(in_flight)
            .zip(delayed)
            .map(|((ready, in_flight), delayed)| [ready, in_flight, delayed])
            .ok_or_else(|| Error::corrupt(format!("{url} does not say how much it holds")))
    }

    pub(super) async fn dead_letters(self: &Arc<Self>, max: usize) -> Result<Vec<DeadLetter>> {
        let (mut letters, mut failure) = (Vec::new(), None);
        while letters.len() < max {
            match self.look(max - letters.len()).await {
                Ok(page) if page.is_empty() => break,
                Ok(page) => letters.extend(page),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        self.put_down(&letters).await;
        if let Some(error) = failure {
            return Err(error);
        }
        letters.sort_by_key(|letter| letter.sent);
        let letter = |one: Incoming| DeadLetter {
            message: one.message,
            attempts: one.attempts,
            reason: one.reason,
        };
        Ok(letters.into_iter().map(letter).collect())
    }

    pub(super) async fn replay(self: &Arc<Self>, max: usize) -> Result<u64> {
        let mut replayed = 0;
        while replayed < max {
            let page = self.replay_page(max - replayed).await;
            let page = page.map_err(|error| self.after_earlier("replaying", error, replayed))?;
            if page == 0 {
                break;
            }
            Signal::QueueReplayed {
                messages: page as u64,
                queue: self.name.clone(),
            }
            .emit();
            replayed += page;
        }
        Ok(replayed as u64)
    }

    /// Sends a page of dead letters to the queue, and then deletes them. One that was sent and not
    /// deleted is sent again by the next call, under the same deduplication id.
    async fn replay_page(self: &Arc<Self>, max: usize) -> Result<usize> {
        let mut letters = self.look(max).await?;
        letters.sort_by_key(|letter| letter.sent);
        let outgoing = letters
            .iter()
            .map(|letter| Outgoing::replayed(&letter.message, &letter.id));
        let outgoing: Vec<_> = outgoing.collect();
        if let Err(error) = self.send(Place::Open, outgoing).await {
            self.put_down(&letters).await;
            return Err(error);
        }
        let sent = letters.len();
        let deletions = letters
            .iter()
            .map(|letter| Change::delete_by(&letter.handle));
        let deleted = self.change(Place::Dead, deletions.collect()).await;
        deleted.map_err(|error| self.after_earlier("replaying", error, sent))?;
        Ok(sent)
    }

    /// Takes up to ten dead letters out of sight. A second of patience asks all servers of SQS,
    /// where none would ask some.
    async fn look(&self, max: usize) -> Result<Vec<Incoming>> {
        let poll = Poll {
            place: Place::Dead,
            max: max.min(BATCH),
            wait: 1,
            hidden: LOOK,
        };
        self.poll(poll).await
    }

    /// Lets others see them again. Those for which that fails come back by themselves.
    async fn put_down(self: &Arc<Self>, letters: &[Incoming]) {
        let changes = letters.iter().map(|letter| Change::let_go(&letter.handle));
        let _: Result<Vec<Changed>> = self.change(Place::Dead, changes.collect()).await;
    }
}
