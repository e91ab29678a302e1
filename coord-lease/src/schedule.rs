//! When which lease is renewed or lost: plain data, told the time.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use coord_core::Ttl;
use tokio::time::Instant;

/// Two renewals may fail in a row before the owner must stop.
const RENEWALS_PER_TTL: u32 = 3;

/// A renewal may come earlier by this part of the TTL, so that it shares the call of another.
/// Leases that were granted at different times then soon share all their calls.
const EARLY_PER_TTL: u32 = 8;

/// Retries come this many times a TTL, so that also the shortest lease has some.
const RETRIES_PER_TTL: u32 = 12;

/// The timer's grain: nothing comes round faster than this.
const GRAIN: Duration = Duration::from_millis(1);

/// Names one lease of a schedule.
pub(crate) type Id = u64;

/// Until when a lease that was granted or renewed by a request of `sent_at` may be trusted.
///
/// The server counts from when it executed the request, which was later. The margin of 1 % and
/// 2 ms is for clocks that run at different speeds, for the server's expiry to the whole
/// millisecond, and for the grain of timers.
pub(crate) fn valid_until(sent_at: Instant, ttl: Ttl) -> Instant {
    let ttl = ttl.as_duration();
    sent_at + ttl - ttl / 100 - Duration::from_millis(2)
}

/// All leases of a client, by what has to happen next to each.
pub(crate) struct Schedule<T> {
    entries: HashMap<Id, Entry<T>>,
    /// What has to happen at the latest: a renewal, its retry, or the end.
    alarms: BTreeSet<(Instant, Id)>,
    /// From when a renewal may go along with others.
    early: BTreeSet<(Instant, Id)>,
    next: Id,
}

struct Entry<T> {
    lease: T,
    ttl: Ttl,
    valid_until: Instant,
    alarm: Instant,
    /// Nothing while its renewal is under way.
    early: Option<Instant>,
    failures: u32,
}

/// What has to happen now.
pub(crate) struct Due<T> {
    pub(crate) renew: Vec<(Id, T)>,
    pub(crate) expired: Vec<T>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            alarms: BTreeSet::new(),
            early: BTreeSet::new(),
            next: 0,
        }
    }
}

impl<T: Clone> Schedule<T> {
    /// Adds a lease that was granted for `life` by a request of `sent_at`, and is renewed for `ttl`.
    pub(crate) fn add(&mut self, lease: T, (life, ttl): (Ttl, Ttl), sent_at: Instant) -> Id {
        let id = self.next;
        self.next += 1;
        let valid_until = valid_until(sent_at, life);
        let entry = Entry {
            lease,
            ttl,
            valid_until,
            alarm: valid_until,
            early: None,
            failures: 0,
        };
        self.alarms.insert((entry.alarm, id));
        self.entries.insert(id, entry);
        self.renew_after(id, sent_at, life);
        id
    }

    /// Removes a lease, and says whether it was still there.
    pub(crate) fn remove(&mut self, id: Id) -> bool {
        let Some(entry) = self.entries.remove(&id) else {
            return false;
        };
        self.alarms.remove(&(entry.alarm, id));
        if let Some(early) = entry.early {
            self.early.remove(&(early, id));
        }
        true
    }

    pub(crate) fn contains(&self, id: Id) -> bool {
        self.entries.contains_key(&id)
    }

    /// The next instant at which something is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.alarms.first().map(|&(alarm, _)| alarm)
    }

    /// What is due at `now`. Expired leases are gone from the schedule; those to renew wait for
    /// [`renewed`](Self::renewed) or [`failed`](Self::failed), and expire meanwhile.
    pub(crate) fn due(&mut self, now: Instant) -> Due<T> {
        let mut due = Due {
            renew: Vec::new(),
            expired: Vec::new(),
        };
        let mut renewal_due = false;
        while let Some(&(alarm, id)) = self.alarms.first()
            && alarm <= now
        {
            let entry = &self.entries[&id];
            if entry.valid_until <= now {
                due.expired.push(entry.lease.clone());
                self.remove(id);
            } else {
                renewal_due = true;
                self.take(id, &mut due.renew);
            }
        }
        while renewal_due
            && let Some(&(early, id)) = self.early.first()
            && early <= now
        {
            self.take(id, &mut due.renew);
        }
        due
    }

    /// The renewal of a request of `sent_at` succeeded; says whether the lease is still there.
    pub(crate) fn renewed(&mut self, id: Id, sent_at: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else {
            return false;
        };
        let ttl = entry.ttl;
        entry.valid_until = entry.valid_until.max(valid_until(sent_at, ttl));
        entry.failures = 0;
        self.renew_after(id, sent_at, ttl);
        true
    }

    /// Plans the renewal of a lease that has lived for `life` since `sent_at`.
    fn renew_after(&mut self, id: Id, sent_at: Instant, life: Ttl) {
        let life = life.as_duration();
        let due = sent_at + life / RENEWALS_PER_TTL;
        self.plan(id, due, Some(due - life / EARLY_PER_TTL));
    }

    /// One call to renew `ids` failed without an answer about them; `backoff` gives the wait after
    /// that many failures. A lease at the end of its life is not tried again.
    pub(crate) fn failed(
        &mut self,
        ids: &[Id],
        now: Instant,
        backoff: impl FnOnce(u32) -> Duration,
    ) {
        let failures = ids
            .iter()
            .filter_map(|id| Some(self.entries.get(id)?.failures));
        let delay = backoff(failures.max().unwrap_or_default());
        for &id in ids {
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            let longest = entry.ttl.as_duration() / RETRIES_PER_TTL;
            entry.failures += 1;
            let due = now + delay.min(longest).max(GRAIN);
            self.plan(id, due, Some(now + GRAIN));
        }
    }

    fn take(&mut self, id: Id, renew: &mut Vec<(Id, T)>) {
        let entry = &self.entries[&id];
        renew.push((id, entry.lease.clone()));
        self.plan(id, entry.valid_until, None);
    }

    fn plan(&mut self, id: Id, alarm: Instant, early: Option<Instant>) {
        let entry = self.entries.get_mut(&id).expect("the caller found it");
        self.alarms.remove(&(entry.alarm, id));
        if let Some(early) = entry.early {
            self.early.remove(&(early, id));
        }
        entry.alarm = alarm.min(entry.valid_until);
        entry.early = early.map(|early| early.min(entry.alarm));
        self.alarms.insert((entry.alarm, id));
        self.early.extend(entry.early.map(|early| (early, id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn ttl(millis: u64) -> Ttl {
        Ttl::from_millis(millis).expect("in range")
    }

    /// Adds a lease whose renewals give it what its grant did.
    fn add(
        schedule: &mut Schedule<&'static str>,
        lease: &'static str,
        ttl: Ttl,
        sent_at: Instant,
    ) -> Id {
        schedule.add(lease, (ttl, ttl), sent_at)
    }

    fn ids(due: &Due<&'static str>) -> Vec<&'static str> {
        due.renew.iter().map(|&(_, lease)| lease).collect()
    }

    #[test]
    fn trust_ends_a_hundredth_and_two_milliseconds_before_the_ttl_counted_from_the_sending() {
        let sent_at = Instant::now();

        assert_eq!(valid_until(sent_at, ttl(1000)), sent_at + 988 * MS);
        assert_eq!(valid_until(sent_at, Ttl::MIN), sent_at + 79 * MS / 10);
    }

    #[test]
    fn a_lease_is_renewed_at_a_third_of_its_ttl_and_not_before() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        add(&mut schedule, "a", ttl(3000), start);

        assert_eq!(ids(&schedule.due(start + 999 * MS)), [""; 0]);
        assert_eq!(schedule.next(), Some(start + 1000 * MS));
        assert_eq!(ids(&schedule.due(start + 1000 * MS)), ["a"]);
        assert_eq!(ids(&schedule.due(start + 1001 * MS)), [""; 0], "under way");
    }

    #[test]
    fn a_lease_goes_along_with_another_up_to_an_eighth_of_its_ttl_early() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        add(&mut schedule, "first", ttl(2400), start);
        add(&mut schedule, "near", ttl(2400), start + 300 * MS);
        add(&mut schedule, "far", ttl(2400), start + 301 * MS);

        assert_eq!(ids(&schedule.due(start + 800 * MS)), ["first", "near"]);
    }

    #[test]
    fn a_lease_whose_renewal_is_under_way_is_lost_when_its_time_is_up() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        add(&mut schedule, "a", ttl(1000), start);
        let under_way = schedule.due(start + 334 * MS).renew;

        assert_eq!(schedule.next(), Some(start + 988 * MS));
        assert!(schedule.due(start + 987 * MS).expired.is_empty());
        assert_eq!(schedule.due(start + 988 * MS).expired, ["a"]);
        schedule.renewed(under_way[0].0, start + 334 * MS);
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn a_renewal_counts_from_its_sending_and_never_backwards() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let id = add(&mut schedule, "a", ttl(3000), start);
        schedule.due(start + 1000 * MS);

        schedule.renewed(id, start + 1000 * MS);
        schedule.renewed(id, start + 500 * MS);
        let under_way = schedule.due(start + 2900 * MS);

        assert_eq!(ids(&under_way), ["a"], "valid until 3968 ms");
        assert!(schedule.due(start + 3967 * MS).expired.is_empty());
        assert_eq!(schedule.due(start + 3968 * MS).expired, ["a"]);
    }

    #[test]
    fn leases_of_one_failed_call_are_retried_in_one_call() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let ids: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|lease| add(&mut schedule, lease, ttl(30_000), start))
            .collect();
        let failed_at = start + 10_000 * MS;
        schedule.due(failed_at);

        schedule.failed(&ids, failed_at, |failures| 100 * MS * (failures + 1));
        assert_eq!(schedule.next(), Some(failed_at + 100 * MS));
        assert_eq!(schedule.due(failed_at + 100 * MS).renew.len(), 3);

        schedule.failed(&ids, failed_at + 100 * MS, |failures| {
            100 * MS * (failures + 1)
        });
        assert_eq!(schedule.next(), Some(failed_at + 300 * MS));
    }

    #[test]
    fn a_retry_never_comes_at_once_nor_later_than_a_twelfth_of_the_ttl() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let id = add(&mut schedule, "a", ttl(1200), start);
        schedule.due(start + 400 * MS);

        schedule.failed(&[id], start + 400 * MS, |_| Duration::ZERO);
        assert_eq!(schedule.next(), Some(start + 401 * MS));
        schedule.due(start + 401 * MS);
        schedule.failed(&[id], start + 500 * MS, |_| Duration::MAX);
        assert_eq!(schedule.next(), Some(start + 600 * MS));
    }

    #[test]
    fn a_short_grant_is_renewed_at_a_third_of_its_own_life_for_the_whole_ttl() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let id = schedule.add("a", (ttl(1000), ttl(30_000)), start);

        assert_eq!(schedule.next(), Some(start + 1000 * MS / 3));
        assert_eq!(ids(&schedule.due(start + 334 * MS)), ["a"]);
        assert_eq!(schedule.next(), Some(start + 988 * MS), "its end");
        schedule.renewed(id, start + 334 * MS);
        assert_eq!(schedule.next(), Some(start + 10_334 * MS));
    }

    #[test]
    fn what_is_removed_is_never_due() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let id = add(&mut schedule, "a", ttl(1000), start);
        let under_way = add(&mut schedule, "b", ttl(1000), start + MS);
        schedule.due(start + 400 * MS);

        schedule.remove(id);
        schedule.remove(under_way);
        schedule.failed(&[id, under_way], start + 500 * MS, |_| MS);

        assert_eq!(schedule.next(), None);
        assert!(schedule.early.is_empty() && schedule.entries.is_empty());
    }

    #[test]
    fn ten_thousand_leases_of_thirty_seconds_take_few_calls_whenever_they_were_granted() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        for number in 0..10_000_u32 {
            // Spread over one TTL, in no order.
            let sent_at = start + MS * (number * 7919 % 30_000);
            add(&mut schedule, "a", ttl(30_000), sent_at);
        }

        let (mut calls, mut renewals) = (0, 0);
        while let Some(now) = schedule.next().filter(|&now| now < start + 90_000 * MS) {
            let due = schedule.due(now);
            assert!(due.expired.is_empty());
            calls += due.renew.len().div_ceil(256);
            renewals += due.renew.len();
            for (id, _) in due.renew {
                schedule.renewed(id, now);
            }
        }

        assert!(renewals >= 60_000, "{renewals}");
        assert!(calls * 20 < 60_000, "{calls} calls");
        assert!(calls < 1000, "{calls} calls");
    }
}
