//! What this process knows of the deliveries in its hands, so that most of them can be settled
//! without asking whose they are.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::queue::Receipt;

/// SQS keeps no message from others for longer, counted from when it was handed out.
const LONGEST: Duration = Duration::from_hours(12);

/// Deliveries of one queue.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<Receipt, Holding>);

#[derive(Debug, Clone, Copy)]
struct Holding {
    received: Instant,
    valid_until: Instant,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    InHands,
    /// SQS was told, and did not answer.
    Told,
    Settled,
}

/// Whose a delivery is, as far as this process knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Ours, until its visibility ends.
    Ours,
    /// Nobody's: it was settled here.
    Settled,
    /// To be asked: its visibility may have ended, or it came another way.
    Unknown,
}

impl Held {
    pub(super) fn insert(&mut self, receipt: Receipt, received: Instant, valid_until: Instant) {
        let holding = Holding {
            received,
            valid_until,
            stage: Stage::InHands,
        };
        self.0.insert(receipt, holding);
    }

    /// Forgets what has come to its end.
    pub(super) fn prune(&mut self, now: Instant) {
        self.0.retain(|_, holding| holding.valid_until > now);
    }

    pub(super) fn whose(&self, receipt: &Receipt, now: Instant) -> Whose {
        match self.0.get(receipt) {
            Some(holding) if holding.stage == Stage::Settled => Whose::Settled,
            Some(holding) if holding.valid_until > now => Whose::Ours,
            _ => Whose::Unknown,
        }
    }

    /// Notes that SQS is being told what came of it.
    pub(super) fn tell(&mut self, receipt: &Receipt) {
        if let Some(holding) = self.0.get_mut(receipt) {
            holding.stage = Stage::Told;
        }
    }

    /// Whether SQS was told before, and may have done it.
    pub(super) fn was_told(&self, receipt: &Receipt) -> bool {
        let holding = self.0.get(receipt);
        holding.is_some_and(|holding| holding.stage == Stage::Told)
    }

    /// Until when a delivery of which SQS was told is valid.
    pub(super) fn told_until(&self, receipt: &Receipt) -> Option<Instant> {
        let holding = self.0.get(receipt)?;
        (holding.stage == Stage::Told).then_some(holding.valid_until)
    }

    pub(super) fn settled(&mut self, receipt: &Receipt) {
        if let Some(holding) = self.0.get_mut(receipt) {
            holding.stage = Stage::Settled;
        }
    }

    pub(super) fn extended(&mut self, receipt: &Receipt, valid_until: Instant) {
        if let Some(holding) = self.0.get_mut(receipt) {
            holding.valid_until = holding.valid_until.max(valid_until);
        }
    }

    /// The whole seconds, at most, for which it can be kept from others from `now` on.
    pub(super) fn at_most(&self, receipt: &Receipt, wanted: Duration, now: Instant) -> i32 {
        let held = self.0.get(receipt);
        let held = held.map_or(Duration::ZERO, |holding| now - holding.received);
        // The second on the way up, since its end is counted at SQS.
        let left = LONGEST.saturating_sub(held + Duration::from_secs(1));
        let wanted = wanted.as_secs() + u64::from(wanted.subsec_nanos() > 0);
        i32::try_from(wanted.min(left.as_secs())).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_delivery_is_ours_until_the_instant_before_its_end() {
        let (now, receipt) = (Instant::now(), Receipt::new("a"));
        let mut held = Held::default();
        held.insert(receipt.clone(), now, now + SECOND);

        let before = now + SECOND - Duration::from_millis(1);
        assert_eq!(held.whose(&receipt, before), Whose::Ours);
        assert_eq!(held.whose(&receipt, now + SECOND), Whose::Unknown);
        held.extended(&receipt, now + SECOND * 2);
        assert_eq!(held.whose(&receipt, now + SECOND), Whose::Ours);
        assert_eq!(held.whose(&Receipt::new("b"), now), Whose::Unknown);
    }

    #[test]
    fn what_is_settled_is_known_until_it_is_pruned() {
        let (now, receipt) = (Instant::now(), Receipt::new("a"));
        let mut held = Held::default();
        held.insert(receipt.clone(), now, now + SECOND);

        held.tell(&receipt);
        assert!(held.was_told(&receipt));
        held.settled(&receipt);
        assert_eq!(held.whose(&receipt, now), Whose::Settled);
        held.prune(now + SECOND);
        assert_eq!(held.whose(&receipt, now), Whose::Unknown);
    }

    #[test]
    fn seconds_round_up_and_end_with_the_longest_visibility() {
        let (now, receipt) = (Instant::now(), Receipt::new("a"));
        let mut held = Held::default();
        held.insert(receipt.clone(), now, now + SECOND);
        let at_most = |wanted, later| held.at_most(&receipt, wanted, now + later);

        assert_eq!(at_most(Duration::ZERO, SECOND), 0);
        assert_eq!(at_most(Duration::from_millis(1), SECOND), 1);
        assert_eq!(at_most(LONGEST, SECOND), 12 * 3600 - 2);
        assert_eq!(at_most(SECOND * 30, Duration::from_secs(12 * 3600 - 2)), 1);
        assert_eq!(at_most(SECOND * 30, LONGEST), 0);
    }
}
