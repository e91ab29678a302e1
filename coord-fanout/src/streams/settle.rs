//! Saying what came of deliveries, and keeping them for longer.

use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Error, Result};
use coord_redis::{Command, Reply};
use tokio::time::Instant;

use super::keys::Lists;
use super::{BATCH, CONSUMERS, EXTEND, Inner, SETTLE};
use crate::queue::{Delivery, MAX_DELAY, Receipt, Settled, Verdict};
use crate::signals::{Burial, Signal};

/// How long the dead letters live after the last one came: as long as SQS keeps a message at most.
const DEAD_LIFE: Duration = Duration::from_hours(14 * 24);

/// Most bytes of a reason: a message and its causes, not a stack trace.
const REASON_BYTES: usize = 1024;

/// The keys before those of the groups.
const KEYS_BEFORE: usize = 4;

/// What the script is told of one delivery.
enum Order<'a> {
    Complete,
    Retry { after: Duration, reason: &'a str },
    Release,
    Bury { cause: Burial, reason: &'a str },
}

impl<'a> Order<'a> {
    fn of(verdict: &'a Verdict) -> Self {
        match verdict {
            Verdict::Complete => Self::Complete,
            Verdict::Retry { after, reason } => Self::Retry {
                after: *after,
                reason,
            },
            Verdict::Release => Self::Release,
            Verdict::DeadLetter { reason } => Self::Bury {
                cause: Burial::Rejected,
                reason,
            },
        }
    }

    /// The word, the delay in ms and the reason for the script.
    fn words(&self) -> (&'static str, u64, &'a str) {
        match self {
            Self::Complete => ("complete", 0, ""),
            Self::Retry { after, reason } => {
                let after = (*after).min(MAX_DELAY).as_nanos().div_ceil(1_000_000);
                ("retry", after as u64, cut(reason))
            }
            Self::Release => ("release", 0, ""),
            Self::Bury {
                cause: Burial::Rejected,
                reason,
            } => ("dead_letter", 0, cut(reason)),
            Self::Bury { reason, .. } => ("abandon", 0, cut(reason)),
        }
    }

    /// Why the message is among the dead letters, if it came there.
    fn burial(&self) -> (Burial, &'a str) {
        match self {
            Self::Bury { cause, reason } => (*cause, reason),
            Self::Retry { reason, .. } => (Burial::Exhausted, reason),
            Self::Complete | Self::Release => (Burial::Exhausted, ""),
        }
    }
}

impl Inner {
    pub(super) async fn settle(&self, verdicts: &[(&Delivery, Verdict)]) -> Result<Vec<Settled>> {
        let mut settled = Vec::with_capacity(verdicts.len());
        for batch in verdicts.chunks(BATCH) {
            let orders: Vec<_> = batch
                .iter()
                .map(|(delivery, verdict)| (*delivery, Order::of(verdict)))
                .collect();
            match self.settle_batch(&orders).await {
                Ok(batch) => settled.extend(batch),
                Err(error) => return Err(self.after_earlier("settling", error, settled.len())),
            }
        }
        Ok(settled)
    }

    /// Gives up what can be handed to nobody.
    pub(super) async fn bury(&self, hopeless: &[(Delivery, Burial)]) -> Result<()> {
        for batch in hopeless.chunks(BATCH) {
            let orders: Vec<_> = batch
                .iter()
                .map(|(delivery, cause)| {
                    let reason = match cause {
                        Burial::Foreign => "it is no message of this queue",
                        _ => "not settled in time at its last attempt",
                    };
                    let cause = *cause;
                    (delivery, Order::Bury { cause, reason })
                })
                .collect();
            self.settle_batch(&orders).await?;
        }
        Ok(())
    }

    async fn settle_batch(&self, orders: &[(&Delivery, Order<'_>)]) -> Result<Vec<Settled>> {
        let mut codes = self
            .redis
            .run(&self.settle_command(orders)?)
            .await?
            .list()?;
        let dropped = codes.pop().unwrap_or(Reply::Nil).int()?;
        if let dropped @ 1.. = dropped {
            Signal::QueueDeadDropped {
                messages: dropped.unsigned_abs(),
                queue: self.name.clone(),
            }
            .emit();
        }
        let settled = codes.into_iter().map(settled).collect::<Result<Vec<_>>>()?;
        for ((delivery, order), settled) in orders.iter().zip(&settled) {
            if *settled == Settled::DeadLettered {
                self.report(delivery, order);
            }
        }
        Ok(settled)
    }

    fn settle_command(&self, orders: &[(&Delivery, Order<'_>)]) -> Result<Command> {
        let mut lists = Lists::new(&self.keys, KEYS_BEFORE);
        let indices: Vec<_> = orders
            .iter()
            .map(|(delivery, _)| lists.index(delivery.message.group.as_ref()))
            .collect();
        let keys = &self.keys;
        let mut all = vec![&keys.ready, &keys.delayed, &keys.waiting, &keys.dead];
        all.extend(lists.keys());
        let mut command = SETTLE
            .call(&all)
            .arg(CONSUMERS)
            .arg(self.options.attempts.get())
            .arg(self.options.dead_letters.get())
            .arg(DEAD_LIFE.as_millis() as u64);
        for ((delivery, order), index) in orders.iter().zip(indices) {
            let (entry, times) = parts(&delivery.receipt)?;
            let (word, delay_ms, reason) = order.words();
            command = command
                .arg(entry)
                .arg(times)
                .arg(word)
                .arg(delay_ms)
                .arg(reason)
                .arg(index);
        }
        Ok(command)
    }

    fn report(&self, delivery: &Delivery, order: &Order<'_>) {
        let (cause, reason) = order.burial();
        Signal::QueueDeadLettered {
            cause,
            queue: self.name.clone(),
            id: Detail::new(&delivery.message.id),
            reason: Detail::new(reason),
        }
        .emit();
    }

    pub(super) async fn extend(&self, deliveries: &[Receipt]) -> Result<Vec<Option<Instant>>> {
        // Later calls find the deliveries still valid, however long this one hangs.
        let limit = self.options.visibility.as_duration() / 3;
        let limit = limit.min(self.redis.deadline());
        let mut extended = Vec::with_capacity(deliveries.len());
        for batch in deliveries.chunks(BATCH) {
            let mut command = EXTEND
                .call(&[&self.keys.ready])
                .arg(CONSUMERS)
                .arg(CONSUMERS)
                .idempotent();
            for receipt in batch {
                let (entry, times) = parts(receipt)?;
                command = command.arg(entry).arg(times);
            }
            let valid_until = self.valid_until(Instant::now());
            let codes = self.redis.run_apart(&command, limit).await?.list()?;
            for code in codes {
                extended.push((code.int()? == 1).then_some(valid_until));
            }
        }
        Ok(extended)
    }
}

/// The entry and how often it was delivered.
fn parts(receipt: &Receipt) -> Result<(&str, &str)> {
    let (entry, times) = receipt.as_str().split_once('/').unwrap_or_default();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (millis, sequence) = entry.split_once('-').unwrap_or_default();
    if [millis, sequence, times].into_iter().all(is_number) {
        return Ok((entry, times));
    }
    Err(Error::invalid(format!(
        "{receipt:?} is no receipt of a queue on Redis Streams"
    )))
}

fn settled(code: Reply) -> Result<Settled> {
    match code.int()? {
        0 => Ok(Settled::Lost),
        1 => Ok(Settled::Done),
        2 => Ok(Settled::DeadLettered),
        3 => Ok(Settled::Gone),
        code => Err(Error::corrupt(format!(
            "queue_settle answers with {code}, which has no meaning"
        ))),
    }
}

fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_of_another_backend_is_invalid() {
        let is_ours = |text: &str| parts(&Receipt::new(text)).is_ok();

        assert!(is_ours("1700000000000-0/1"));
        for foreign in ["", "AQEBw", "1-1", "1-1/", "1/1", "a-b/c", "1-1/-1"] {
            assert!(!is_ours(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = "ä".repeat(REASON_BYTES);

        assert_eq!(cut(&reason).len(), REASON_BYTES);
        assert_eq!(cut(&format!("x{reason}")).len(), REASON_BYTES - 1);
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn a_delay_rounds_up_and_is_bounded() {
        let millis = |after| {
            let reason = "";
            Order::Retry { after, reason }.words().1
        };

        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::MAX), MAX_DELAY.as_millis() as u64);
    }
}
