//! Saying what came of deliveries, and keeping them for longer.

use std::sync::Arc;
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;
use tokio::time::Instant;

use super::change::{Change, Changed, handle, message_id};
use super::held::Whose;
use super::wire::Outgoing;
use super::{Inner, Place};
use crate::queue::{Delivery, MAX_DELAY, Receipt, Settled, Verdict};
use crate::signals::{Burial, Signal};

/// What is to become of a delivery.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    Complete,
    /// Others may have it after this time.
    Back(Duration),
    Dead {
        cause: Burial,
        attempts: u32,
        reason: String,
    },
}

impl Fate {
    pub(super) fn dead(cause: Burial, attempts: u32, reason: &str) -> Self {
        let reason = reason.to_owned();
        Self::Dead {
            cause,
            attempts,
            reason,
        }
    }

    fn of(verdict: &Verdict, attempt: u32, attempts: u32) -> Self {
        match verdict {
            Verdict::Complete => Self::Complete,
            Verdict::Release => Self::Back(Duration::ZERO),
            Verdict::Retry { after, .. } if attempt < attempts => {
                Self::Back((*after).min(MAX_DELAY))
            }
            Verdict::Retry { reason, .. } => Self::dead(Burial::Exhausted, attempt, reason),
            Verdict::DeadLetter { reason } => Self::dead(Burial::Rejected, attempt, reason),
        }
    }

    fn done(&self) -> Settled {
        match self {
            Self::Dead { .. } => Settled::DeadLettered,
            Self::Complete | Self::Back(_) => Settled::Done,
        }
    }
}

/// A delivery on its way out.
struct Order<'a> {
    delivery: &'a Delivery,
    fate: Fate,
    /// A call before this one may have done it.
    was_told: bool,
    outcome: Option<Settled>,
}

impl Inner {
    pub(super) async fn settle(
        self: &Arc<Self>,
        verdicts: &[(&Delivery, Verdict)],
    ) -> Result<Vec<Settled>> {
        let attempts = self.options.attempts.get();
        let orders = verdicts.iter().map(|(delivery, verdict)| {
            let fate = Fate::of(verdict, delivery.attempt, attempts);
            (*delivery, fate)
        });
        self.carry_out(orders.collect()).await
    }

    /// Gives each delivery its fate.
    ///
    /// SQS deletes nothing by the handle of a delivery that has passed to somebody else, but does
    /// not always say so. So a delivery that may have passed on is asked for first.
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        orders: Vec<(&Delivery, Fate)>,
    ) -> Result<Vec<Settled>> {
        let mut orders = self.sorted(orders)?;
        self.ask_whose(&mut orders).await?;
        self.bury(&orders).await?;
        let deleted = self.tell(&mut orders, |fate| !matches!(fate, Fate::Back(_)));
        let deleted = deleted.await;
        let before = usize::from(deleted.as_ref().is_ok_and(|count| *count > 0));
        let returned = self.give_back(&mut orders).await;
        let after = usize::from(returned.as_ref().is_ok_and(|count| *count > 0));
        deleted.map_err(|error| self.after_earlier("settling", error, after))?;
        returned.map_err(|error| self.after_earlier("settling", error, before))?;
        // What has no outcome was asked for, and somebody else has it.
        let outcomes = orders.into_iter().map(|order| order.outcome);
        Ok(outcomes.map(|one| one.unwrap_or(Settled::Lost)).collect())
    }

    fn sorted<'a>(&self, orders: Vec<(&'a Delivery, Fate)>) -> Result<Vec<Order<'a>>> {
        let (held, now) = (self.held(), Instant::now());
        let order = |(delivery, fate): (&'a Delivery, Fate)| {
            handle(&delivery.receipt)?;
            let settled = held.whose(&delivery.receipt, now) == Whose::Settled;
            Ok(Order {
                delivery,
                fate,
                was_told: held.was_told(&delivery.receipt),
                outcome: settled.then_some(Settled::Gone),
            })
        };
        orders.into_iter().map(order).collect()
    }

    /// Extends what may not be ours any more, which only succeeds while it is.
    async fn ask_whose(self: &Arc<Self>, orders: &mut [Order<'_>]) -> Result<()> {
        let now = Instant::now();
        let mut unknown: Vec<_> = {
            let held = self.held();
            let unknown = |order: &&mut Order<'_>| {
                order.outcome.is_none()
                    && held.whose(&order.delivery.receipt, now) == Whose::Unknown
            };
            orders.iter_mut().filter(unknown).collect()
        };
        let visibility = self.visibility.as_duration();
        let changes = unknown.iter().map(|order| {
            let receipt = &order.delivery.receipt;
            let seconds = self.held().at_most(receipt, visibility, now);
            Change::keep(receipt, seconds)
        });
        let changed = self.change(Place::Open, changes.collect()).await?;
        for (order, changed) in unknown.iter_mut().zip(changed) {
            if changed == Changed::NotOurs {
                order.outcome = Some(not_ours(order.was_told));
            }
        }
        Ok(())
    }

    /// Puts what is given up among the dead letters, from where a repetition adds nothing.
    async fn bury(self: &Arc<Self>, orders: &[Order<'_>]) -> Result<()> {
        let letters = orders.iter().filter(|order| order.outcome.is_none());
        let letters = letters.filter_map(|order| match &order.fate {
            Fate::Dead {
                attempts, reason, ..
            } => {
                let delivery = order.delivery;
                let id = message_id(&delivery.receipt);
                Some(Outgoing::dead(&delivery.message, id, *attempts, reason))
            }
            Fate::Complete | Fate::Back(_) => None,
        });
        let letters: Vec<_> = letters.collect();
        self.send(Place::Dead, letters).await
    }

    /// Tells SQS of those orders that have no outcome yet; says how many.
    async fn tell(
        self: &Arc<Self>,
        orders: &mut [Order<'_>],
        concerned: impl Fn(&Fate) -> bool,
    ) -> Result<usize> {
        let open = |order: &&mut Order<'_>| order.outcome.is_none() && concerned(&order.fate);
        let mut open: Vec<_> = orders.iter_mut().filter(open).collect();
        let now = Instant::now();
        let changes = open.iter().map(|order| {
            let receipt = &order.delivery.receipt;
            let mut held = self.held();
            held.tell(receipt);
            match order.fate {
                Fate::Back(after) => Change::keep(receipt, held.at_most(receipt, after, now)),
                Fate::Complete | Fate::Dead { .. } => Change::delete(receipt),
            }
        });
        let changed = self.change(Place::Open, changes.collect()).await?;
        for (order, changed) in open.iter_mut().zip(&changed) {
            let outcome = match changed {
                Changed::NotOurs => not_ours(order.was_told),
                Changed::Done => order.fate.done(),
            };
            self.held().settled(&order.delivery.receipt);
            order.outcome = Some(outcome);
            if outcome == Settled::DeadLettered {
                self.report(order);
            }
        }
        Ok(changed.len())
    }

    async fn give_back(self: &Arc<Self>, orders: &mut [Order<'_>]) -> Result<usize> {
        let concerned = |fate: &Fate| matches!(fate, Fate::Back(_));
        if !orders.iter().any(|order| concerned(&order.fate)) {
            return Ok(0);
        }
        // An extension that is under way would make the delay longer or shorter.
        let _alone = self.changing.lock().await;
        self.tell(orders, concerned).await
    }

    fn report(&self, order: &Order<'_>) {
        let Fate::Dead { cause, reason, .. } = &order.fate else {
            return;
        };
        Signal::QueueDeadLettered {
            cause: *cause,
            queue: self.name.clone(),
            id: Detail::new(&order.delivery.message.id),
            reason: Detail::new(reason),
        }
        .emit();
    }

    pub(super) async fn extend(
        self: &Arc<Self>,
        receipts: &[Receipt],
    ) -> Result<Vec<Option<Instant>>> {
        receipts.iter().try_for_each(|one| handle(one).map(drop))?;
        let _alone = self.changing.lock().await;
        let (now, visibility) = (Instant::now(), self.visibility.as_duration());
        let (mut ends, mut asked) = (vec![None; receipts.len()], Vec::new());
        {
            let held = self.held();
            for (position, receipt) in receipts.iter().enumerate() {
                match held.told_until(receipt) {
                    // It would undo the delay that SQS was just asked for.
                    Some(valid_until) => ends[position] = Some(valid_until),
                    None if held.whose(receipt, now) == Whose::Settled => {}
                    None => {
                        let seconds = held.at_most(receipt, visibility, now);
                        asked.push((position, receipt, seconds));
                    }
                }
            }
        }
        let changes = asked
            .iter()
            .map(|(_, receipt, seconds)| Change::keep(receipt, *seconds));
        let changed = self.change_apart(changes.collect()).await?;
        for ((position, receipt, seconds), changed) in asked.into_iter().zip(changed) {
            if changed == Changed::Done && seconds > 0 {
                let seconds = Duration::from_secs(u64::from(seconds.unsigned_abs()));
                let valid_until = Self::valid_until(now, seconds);
                self.held().extended(receipt, valid_until);
                ends[position] = Some(valid_until);
            }
        }
        Ok(ends)
    }
}

/// Told before, it may be that call that settled it.
fn not_ours(was_told: bool) -> Settled {
    if was_told {
        Settled::Gone
    } else {
        Settled::Lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_is_the_last() {
        let retry = Verdict::Retry {
            after: Duration::MAX,
            reason: "busy".to_owned(),
        };

        assert!(matches!(Fate::of(&retry, 4, 5), Fate::Back(MAX_DELAY)));
        assert!(matches!(
            Fate::of(&retry, 5, 5),
            Fate::Dead {
                cause: Burial::Exhausted,
                attempts: 5,
                ..
            }
        ));
    }
}
