//! How much of a queue or a namespace may be under way at a time, and how much may begin in a
//! minute, in all processes together.

use super::{Claim, Claimed};
use crate::model::{TaskKind, Timestamp};

/// A minute in microseconds.
const MINUTE: i64 = 60_000_000;

/// What one quota is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QuotaOf {
    /// The queue of the claim.
    Queue,
    /// All queues of its namespace together.
    Namespace,
}

/// A bound that a claim keeps. It is kept in the database, so it holds over all processes that name
/// it in their claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Of which tasks.
    pub kind: TaskKind,
    /// Of which queues.
    pub of: QuotaOf,
    /// How many may be leased at a time; `None` for any number.
    pub active: Option<u32>,
    /// How many may be claimed in a minute, in whatever minute; `None` for any number.
    pub per_minute: Option<u32>,
}

/// What a quota leaves to be claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// How many.
    pub(crate) tasks: u32,
    /// When there will be some again, where time is what is missing.
    pub(crate) again: Option<Timestamp>,
}

impl Quota {
    /// What it leaves when `active` are leased and claims are paid until `paid_until`.
    ///
    /// Claims come evenly, but for as many at once as a second's worth; with that many fewer in
    /// between, so that no minute has more than its number.
    pub(crate) fn room(&self, active: u64, paid_until: i64, now: i64) -> Room {
        let by_count = self.active.map_or(u32::MAX, |most| {
            u32::try_from(u64::from(most).saturating_sub(active)).unwrap_or(0)
        });
        let Some((burst, interval)) = self.pace() else {
            let (tasks, again) = (by_count, None);
            return Room { tasks, again };
        };
        let paid = paid_until.max(now);
        let left = now.saturating_add(burst * interval).saturating_sub(paid);
        let by_time = u32::try_from((left / interval).max(0)).unwrap_or(u32::MAX);
        let again = paid - (burst - 1) * interval;
        Room {
            tasks: by_count.min(by_time),
            again: (by_time == 0).then(|| Timestamp::from_micros(again)),
        }
    }

    /// Until when claims are paid after `taken` more.
    pub(crate) fn paid_until(&self, taken: u32, paid_until: i64, now: i64) -> i64 {
        match self.pace() {
            Some((_, interval)) if taken > 0 => paid_until
                .max(now)
                .saturating_add(i64::from(taken) * interval),
            _ => paid_until,
        }
    }

    /// How many at once, and what each costs in microseconds.
    fn pace(&self) -> Option<(i64, i64)> {
        // None at all is a matter of `active`.
        let most = i64::from(self.per_minute?).max(1);
        let burst = (most / 60).max(1);
        let spread = most - burst + 1;
        Some((burst, (MINUTE + spread - 1) / spread))
    }
}

/// A quota whose row is locked, and what it has to count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    pub(crate) quota: Quota,
    /// How many of its tasks are leased.
    pub(crate) active: u64,
    pub(crate) paid_until: i64,
}

impl Entered {
    /// Until when it is paid with what was claimed.
    pub(crate) fn paid(&self, claimed: &Claimed) -> i64 {
        let of_kind = claimed.tasks.iter();
        let taken = of_kind.filter(|it| it.task.kind == self.quota.kind).count();
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        self.quota
            .paid_until(taken, self.paid_until, claimed.now.as_micros())
    }
}

impl QuotaOf {
    /// The queue of its row: none is called so.
    pub(crate) fn queue(self, claim: &Claim) -> &str {
        match self {
            Self::Queue => claim.queue.as_str(),
            Self::Namespace => "",
        }
    }
}

/// What is left of a claim within its quotas.
pub(crate) struct Bounded {
    pub(crate) claim: Claim,
    /// When there will be more, where time is what is missing.
    again: Option<Timestamp>,
    held_back: Vec<TaskKind>,
}

impl Claim {
    /// What `entered` leaves of this claim.
    pub(crate) fn within(&self, entered: &[Entered], now: i64) -> Bounded {
        let (mut bounded, mut again, mut held_back) = (self.clone(), None, Vec::new());
        for wanted in &mut bounded.wanted {
            for it in entered.iter().filter(|it| it.quota.kind == wanted.kind) {
                let room = it.quota.room(it.active, it.paid_until, now);
                wanted.limit = wanted.limit.min(room.tasks);
                again = [again, room.again].into_iter().flatten().min();
                if room.tasks == 0 && it.quota.of == QuotaOf::Namespace {
                    held_back.push(wanted.kind);
                }
            }
        }
        bounded.wanted.retain(|wanted| wanted.limit > 0);
        Bounded {
            claim: bounded,
            again,
            held_back,
        }
    }
}

impl Claimed {
    /// Says what the quotas of its claim left out.
    pub(crate) fn within(mut self, bounded: Bounded) -> Self {
        self.next_due = [self.next_due, bounded.again].into_iter().flatten().min();
        self.held_back = bounded.held_back;
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quota(active: Option<u32>, per_minute: Option<u32>) -> Quota {
        Quota {
            kind: TaskKind::Activity,
            of: QuotaOf::Queue,
            active,
            per_minute,
        }
    }

    #[test]
    fn both_sides_of_a_count_hold() {
        let of_three = quota(Some(3), None);

        assert_eq!(of_three.room(2, 0, 7).tasks, 1);
        assert_eq!(of_three.room(3, 0, 7).tasks, 0);
        assert_eq!(of_three.room(9, 0, 7).tasks, 0);
        assert_eq!(quota(None, None).room(9, 0, 7).tasks, u32::MAX);
    }

    #[test]
    fn the_next_one_may_begin_exactly_when_it_is_said() {
        let of_two = quota(None, Some(2));
        let first = 1_000_000;
        let paid = of_two.paid_until(1, 0, first);

        let Room { tasks, again } = of_two.room(0, paid, first + 1);

        let again = again.expect("an instant").as_micros();
        assert_eq!((tasks, again), (0, first + MINUTE / 2));
        assert_eq!(of_two.room(0, paid, again - 1).tasks, 0);
        assert_eq!(of_two.room(0, paid, again).tasks, 1);
    }

    proptest! {
        #[test]
        fn no_minute_has_more_than_its_number(
            most in 1_u32..2000,
            steps in prop::collection::vec((0_i64..3_000_000, 1_u32..200), 1..400),
        ) {
            let quota = quota(None, Some(most));
            let (mut now, mut paid, mut taken) = (5_000_000, 0, Vec::new());
            for (wait, wanted) in steps {
                now += wait;
                let count = quota.room(0, paid, now).tasks.min(wanted);
                paid = quota.paid_until(count, paid, now);
                taken.push((now, u64::from(count)));
            }
            for (index, (from, _)) in taken.iter().enumerate() {
                let within = taken[index..].iter().take_while(|(at, _)| at - from < MINUTE);
                let sum: u64 = within.map(|(_, count)| count).sum();
                prop_assert!(sum <= u64::from(most), "{sum} of {most}");
            }
        }
    }
}
