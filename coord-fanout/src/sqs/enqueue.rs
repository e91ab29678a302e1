//! Adding messages.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use coord_core::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::call::{AGAIN, LANES, call, together};
use super::error::entry_passes;
use super::wire::Outgoing;
use super::{BATCH, Inner, Place};
use crate::queue::{Enqueued, MAX_BODY_BYTES, Message, trace_of_caller};

/// Most bytes of one batch, all its messages with their attributes.
const BATCH_BYTES: usize = 1024 * 1024;

/// What is still to be sent, by groups.
///
/// A round takes the first message of each group only. So no message is on its way before SQS has
/// said that the one before it is in the queue: had two of them shared a batch, the later one
/// could be taken and the earlier one not.
struct Pending {
    groups: VecDeque<VecDeque<Outgoing>>,
}

impl Pending {
    fn new(outgoing: impl IntoIterator<Item = Outgoing>) -> Self {
        let (mut groups, mut places) = (VecDeque::<VecDeque<_>>::new(), HashMap::new());
        for one in outgoing {
            let place = *places.entry(one.group.clone()).or_insert_with(|| {
                groups.push_back(VecDeque::new());
                groups.len() - 1
            });
            groups[place].push_back(one);
        }
        Self { groups }
    }

    /// Takes what may be sent now, cut into batches.
    fn round(&mut self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        while let Some(group) = self.groups.front() {
            let bytes = group.front().map_or(0, |one| one.bytes);
            if batches.last().is_none_or(|batch| !batch.takes(bytes)) {
                if batches.len() == LANES {
                    break;
                }
                batches.push(Batch::default());
            }
            if let (Some(group), Some(batch)) = (self.groups.pop_front(), batches.last_mut()) {
                batch.add(group, bytes);
            }
        }
        batches
    }

    /// Puts back what is not sent yet: the first message of a group in front of its others.
    fn put_back(&mut self, batches: Vec<Batch>) {
        let groups = batches.into_iter().flat_map(|batch| batch.groups);
        self.groups.extend(groups.filter(|group| !group.is_empty()));
    }
}

/// The groups whose first messages are sent together.
#[derive(Default)]
struct Batch {
    groups: Vec<VecDeque<Outgoing>>,
    bytes: usize,
}

impl Batch {
    fn takes(&self, bytes: usize) -> bool {
        self.groups.len() < BATCH && self.bytes + bytes <= BATCH_BYTES
    }

    fn add(&mut self, group: VecDeque<Outgoing>, bytes: usize) {
        self.groups.push(group);
        self.bytes += bytes;
    }
}

/// What became of a batch.
struct Sent {
    /// Without what was taken.
    batch: Batch,
    taken: usize,
    /// Why not all were.
    failure: Option<Error>,
}

impl Inner {
    pub(super) async fn enqueue(self: &Arc<Self>, messages: &[Message]) -> Result<Vec<Enqueued>> {
        let name = &self.name;
        for message in messages {
            let (id, bytes) = (&message.id, message.body.len());
            if bytes > MAX_BODY_BYTES {
                return Err(Error::invalid(format!(
                    "message {id} of queue {name} has {bytes} bytes, more than {MAX_BODY_BYTES}"
                )));
            }
            if message.group.is_some() && !self.options.grouped {
                return Err(Error::invalid(format!(
                    "message {id} has a group, and queue {name} was opened without groups"
                )));
            }
        }
        let caller = trace_of_caller(name);
        let outgoing = messages.iter().map(|message| {
            let of_caller = caller.as_ref().filter(|_| message.trace.is_none());
            Outgoing::new(message).traced(of_caller)
        });
        self.send(Place::Open, outgoing).await?;
        Ok(vec![Enqueued::Added; messages.len()])
    }

    /// Sends all of `outgoing`; those of one group in their order, none before the one ahead of it
    /// is in the queue.
    pub(super) async fn send(
        self: &Arc<Self>,
        place: Place,
        outgoing: impl IntoIterator<Item = Outgoing>,
    ) -> Result<()> {
        let mut pending = Pending::new(outgoing);
        let (mut taken, mut idle, mut unknown) = (0, 0, false);
        let mut until = Instant::now() + self.options.deadline;
        loop {
            let round = pending.round();
            if round.is_empty() {
                return Ok(());
            }
            let batches = round.into_iter().map(|batch| {
                let inner = Arc::clone(self);
                async move { inner.send_batch(place, batch).await }
            });
            let sent = together(batches).await;
            let now: usize = sent.iter().map(|one| one.taken).sum();
            let (batches, failures): (Vec<_>, Vec<_>) =
                sent.into_iter().map(|one| (one.batch, one.failure)).unzip();
            pending.put_back(batches);
            taken += now;
            if now > 0 {
                (idle, until) = (0, Instant::now() + self.options.deadline);
            }
            let Some(error) = worst(failures) else {
                continue;
            };
            unknown |= error.kind() == ErrorKind::Timeout;
            let passes = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
            let delay = AGAIN.jittered(idle);
            idle += 1;
            if !passes || Instant::now() + delay >= until {
                let earlier = taken + usize::from(unknown);
                return Err(self.after_earlier("sending", error, earlier));
            }
            tokio::time::sleep(delay).await;
        }
    }

    async fn send_batch(&self, place: Place, mut batch: Batch) -> Sent {
        let heads = batch.groups.iter().filter_map(VecDeque::front);
        let entries: Vec<_> = heads
            .enumerate()
            .map(|(position, one)| one.entry(position))
            .collect();
        let doing = format!("sending to {}", self.url(place));
        let answer = call(&doing, self.limit(), || {
            let request = self.client.send_message_batch();
            let request = request.queue_url(self.url(place));
            request.set_entries(Some(entries.clone())).send()
        });
        let said = match answer.await {
            Ok(answer) => answer.said,
            Err(error) => {
                return Sent {
                    batch,
                    taken: 0,
                    failure: Some(error),
                };
            }
        };
        let mut taken = 0;
        for entry in said.successful() {
            let group = entry.id().parse().ok();
            let group = group.and_then(|position: usize| batch.groups.get_mut(position));
            taken += usize::from(group.and_then(VecDeque::pop_front).is_some());
        }
        let failures = said.failed().iter().map(|entry| {
            let (id, code) = (entry.id(), entry.code());
            let what = format!("{doing}: entry {id} of the batch failed with {code}");
            Some(if entry_passes(entry.sender_fault(), code) {
                Error::unavailable(what)
            } else {
                Error::invalid(what)
            })
        });
        let failure = worst(failures);
        Sent {
            batch,
            taken,
            failure,
        }
    }
}

/// The failure that says most: what never passes before what may have happened before the rest.
fn worst(failures: impl IntoIterator<Item = Option<Error>>) -> Option<Error> {
    failures
        .into_iter()
        .flatten()
        .max_by_key(|error| match error.kind() {
            ErrorKind::Unavailable => 0,
            ErrorKind::Timeout => 1,
            _ => 2,
        })
}

#[cfg(test)]
mod tests {
    use coord_core::Name;

    use super::*;

    fn outgoing(id: &str, group: &str, bytes: usize) -> Outgoing {
        let name = |text| Name::new(text).expect("a valid name");
        let message = Message::new(name(id), vec![b'x'; bytes]);
        Outgoing::new(&message.group(name(group)))
    }

    fn lengths(batches: &[Batch]) -> Vec<usize> {
        batches.iter().map(|batch| batch.groups.len()).collect()
    }

    #[test]
    fn a_round_has_one_message_of_each_group_and_so_many_batches() {
        let many = (0..200).map(|number| outgoing("a", &number.to_string(), 1));
        assert_eq!(lengths(&Pending::new(many).round()), [BATCH; LANES]);

        let one = (0..200).map(|number| outgoing(&number.to_string(), "g", 1));
        assert_eq!(lengths(&Pending::new(one).round()), [1]);
        assert!(Pending::new([]).round().is_empty());
    }

    #[test]
    fn what_failed_goes_again_before_the_rest_of_its_group() {
        let mut pending = Pending::new(["a", "b"].map(|id| outgoing(id, "g", 1)));
        let first = pending.round();
        assert!(pending.round().is_empty(), "its group waits for it");

        pending.put_back(first);

        let [batch] = &pending.round()[..] else {
            panic!("one batch");
        };
        assert_eq!(batch.groups[0].len(), 2);
    }

    #[test]
    fn a_batch_is_bounded_by_bytes() {
        let groups = ["a", "b", "c", "d", "e"].map(|group| outgoing("id", group, MAX_BODY_BYTES));

        assert_eq!(lengths(&Pending::new(groups).round()), [3, 2]);
    }
}
