//! Adding messages.

use coord_core::signals::Detail;
use coord_core::{ClaimToken, Error, Result, TraceContext};
use coord_redis::{Command, Reply};

use super::keys::Lists;
use super::{BATCH, CONSUMERS, ENQUEUE, Inner};
use crate::queue::{Enqueued, MAX_BODY_BYTES, Message, trace_of_caller};
use crate::signals::Signal;

/// Most bytes of bodies in one script, unless one message alone has more: what a connection
/// carries in a few milliseconds, since other calls wait behind it.
const BATCH_BYTES: usize = 1024 * 1024;

/// The keys before those of the messages.
const KEYS_BEFORE: usize = 3;

impl Inner {
    pub(super) async fn enqueue(&self, messages: &[Message]) -> Result<Vec<Enqueued>> {
        if let Some(message) = messages.iter().find(|one| one.body.len() > MAX_BODY_BYTES) {
            return Err(Error::invalid(format!(
                "message {} of queue {} has {} bytes, more than {MAX_BODY_BYTES}",
                message.id,
                self.name,
                message.body.len()
            )));
        }
        let mut outcomes = Vec::with_capacity(messages.len());
        for batch in batches(messages) {
            match self.enqueue_batch(batch).await {
                Ok(batch) => outcomes.extend(batch),
                Err(error) => return Err(self.after_earlier("enqueuing", error, outcomes.len())),
            }
        }
        let duplicates = outcomes.iter().filter(|one| **one == Enqueued::Duplicate);
        let duplicates = duplicates.count() as u64;
        if duplicates > 0 {
            Signal::QueueDuplicate {
                messages: duplicates,
                queue: self.name.clone(),
            }
            .emit();
        }
        Ok(outcomes)
    }

    async fn enqueue_batch(&self, messages: &[Message]) -> Result<Vec<Enqueued>> {
        match self.redis.run(&self.enqueue_command(messages)).await? {
            Reply::Int(open) => Err(self.full(open)),
            reply => reply
                .list()?
                .into_iter()
                .map(|outcome| match outcome.int()? {
                    0 => Ok(Enqueued::Duplicate),
                    _ => Ok(Enqueued::Added),
                })
                .collect(),
        }
    }

    fn enqueue_command(&self, messages: &[Message]) -> Command {
        let mut lists = Lists::new(&self.keys, KEYS_BEFORE + messages.len());
        let indices: Vec<_> = messages
            .iter()
            .map(|message| lists.index(message.group.as_ref()))
            .collect();
        let memories: Vec<_> = messages
            .iter()
            .map(|message| self.keys.memory(&message.id))
            .collect();
        let caller = trace_of_caller(&self.name);
        let mut keys = vec![&self.keys.ready, &self.keys.delayed, &self.keys.waiting];
        keys.extend(&memories);
        keys.extend(lists.keys());
        let window = self.options.window.as_nanos().div_ceil(1_000_000) as u64;
        let command = ENQUEUE
            .call(&keys)
            .arg(CONSUMERS)
            .arg(window)
            .arg(self.options.depth)
            .arg(ClaimToken::random().as_str())
            .arg(messages.len());
        messages
            .iter()
            .zip(indices)
            .fold(command, |command, (message, index)| {
                let group = message.group.as_ref().map_or("", |group| group.as_str());
                let trace = message.trace.as_ref().or(caller.as_ref());
                let trace = trace.map(TraceContext::to_string).unwrap_or_default();
                command
                    .arg(message.id.as_str())
                    .arg(group)
                    .arg(message.body.as_slice())
                    .arg(trace)
                    .arg(index)
            })
            // Sent again it finds its own token, and says what it said before.
            .idempotent()
    }

    /// The refusal of a queue that has `open` messages.
    pub(super) fn full(&self, open: i64) -> Error {
        Signal::QueueFull {
            queue: self.name.clone(),
            open: Detail::new(open),
        }
        .emit();
        Error::unavailable(format!(
            "queue {} is full: {open} messages are open, of at most {}",
            self.name, self.options.depth
        ))
    }
}

/// Cuts `messages` into batches that are bounded by number and by bytes.
fn batches(messages: &[Message]) -> impl Iterator<Item = &[Message]> {
    let mut rest = messages;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = rest.iter().take(BATCH).take_while(|message| {
            bytes += message.body.len();
            bytes <= BATCH_BYTES
        });
        let (batch, later) = rest.split_at(fitting.count());
        rest = later;
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use coord_core::Name;

    use super::*;

    fn lengths(bodies: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let messages: Vec<_> = bodies
            .into_iter()
            .map(|bytes| Message::new(Name::new("id").expect("a valid name"), vec![0; bytes]))
            .collect();
        batches(&messages).map(<[_]>::len).collect()
    }

    #[test]
    fn a_batch_is_bounded_by_number() {
        assert_eq!(lengths([0; BATCH]), [BATCH]);
        assert_eq!(lengths([0; BATCH + 1]), [BATCH, 1]);
        assert!(lengths([]).is_empty());
    }

    #[test]
    fn a_batch_is_bounded_by_bytes() {
        assert_eq!(lengths([MAX_BODY_BYTES; 4]), [4]);
        assert_eq!(lengths([MAX_BODY_BYTES; 5]), [4, 1]);
        assert_eq!(lengths([MAX_BODY_BYTES - 1, 1, 0, MAX_BODY_BYTES]), [4]);
    }

    #[test]
    fn the_largest_body_fits_a_batch() {
        const { assert!(MAX_BODY_BYTES <= BATCH_BYTES) };
    }
}
