//! What operators ask: how much is there, what failed for good, and once more please.

use std::time::Duration;

use coord_core::{Error, Result};
use coord_redis::{Command, Reply};

use super::keys::Lists;
use super::receive::message;
use super::{CONSUMERS, DEPTH, Inner, REPLAY};
use crate::queue::{DeadLetter, Depth};
use crate::signals::Signal;

/// Most dead letters in one reply, which other calls wait behind: 16 MiB at worst.
const PAGE: usize = 64;

/// The keys before those of the groups.
const KEYS_BEFORE: usize = 4;

impl Inner {
    pub(super) async fn depth(&self) -> Result<Depth> {
        let keys = &self.keys;
        let command = DEPTH
            .call(&[&keys.ready, &keys.delayed, &keys.waiting, &keys.dead])
            .arg(CONSUMERS)
            .idempotent();
        let numbers = self.redis.run(&command).await?.array::<6>()?;
        let [ready, waiting, delayed, in_flight, dead, lag] = numbers.map(Reply::int);
        let count = |number: Result<i64>| number.map(|number| number.max(0).unsigned_abs());
        Ok(Depth {
            ready: count(ready)?,
            waiting: count(waiting)?,
            delayed: count(delayed)?,
            in_flight: count(in_flight)?,
            dead: count(dead)?,
            lag: u64::try_from(lag?).ok().map(Duration::from_millis),
        })
    }

    pub(super) async fn dead_letters(&self, max: usize) -> Result<Vec<DeadLetter>> {
        let (mut letters, mut start) = (Vec::new(), "-".to_owned());
        while letters.len() < max {
            let page = self.page(&start, max - letters.len()).await?;
            let Some((last, _)) = page.last() else {
                break;
            };
            start = format!("({last}");
            letters.extend(page.into_iter().map(|(_, letter)| letter));
        }
        Ok(letters)
    }

    pub(super) async fn replay(&self, max: usize) -> Result<u64> {
        let mut replayed = 0;
        while replayed < max as u64 {
            let left = max - replayed as usize;
            let page = self.replay_page(left).await;
            let page =
                page.map_err(|error| self.after_earlier("replaying", error, replayed as usize))?;
            if page == 0 {
                break;
            }
            Signal::QueueReplayed {
                messages: page,
                queue: self.name.clone(),
            }
            .emit();
            replayed += page;
        }
        Ok(replayed)
    }

    async fn replay_page(&self, max: usize) -> Result<u64> {
        let page = self.page("-", max).await?;
        if page.is_empty() {
            return Ok(0);
        }
        let mut lists = Lists::new(&self.keys, KEYS_BEFORE);
        let indices: Vec<_> = page
            .iter()
            .map(|(_, letter)| lists.index(letter.message.group.as_ref()))
            .collect();
        let keys = &self.keys;
        let mut all = vec![&keys.ready, &keys.delayed, &keys.waiting, &keys.dead];
        all.extend(lists.keys());
        let command = REPLAY.call(&all).arg(CONSUMERS).arg(self.options.depth);
        let command = page
            .iter()
            .zip(indices)
            .fold(command, |command, ((entry, _), index)| {
                command.arg(entry).arg(index)
            });
        match self.redis.run(&command).await? {
            Reply::Int(open) => Err(self.full(open)),
            reply => {
                let [count] = reply.array()?;
                Ok(count.int()?.unsigned_abs())
            }
        }
    }

    /// Up to `max` dead letters from `start` on, each with its entry.
    async fn page(&self, start: &str, max: usize) -> Result<Vec<(String, DeadLetter)>> {
        let command = Command::new("XRANGE")
            .key(&self.keys.dead)
            .arg(start)
            .arg("+")
            .arg("COUNT")
            .arg(max.min(PAGE))
            .idempotent();
        let entries = self.redis.run(&command).await?.list()?;
        entries
            .into_iter()
            .map(|entry| self.letter(entry))
            .collect()
    }

    fn letter(&self, entry: Reply) -> Result<(String, DeadLetter)> {
        let [id, fields] = entry.array()?;
        let id = id.text()?;
        let (message, attempts, reason) = message(fields.list()?).ok_or_else(|| {
            Error::corrupt(format!(
                "entry {id} of {} is no dead letter",
                self.keys.dead
            ))
        })?;
        let letter = DeadLetter {
            message,
            attempts,
            reason: reason.unwrap_or_default(),
        };
        Ok((id, letter))
    }
}
