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
    /// Adds a lease that was granted by a request of `sent_at`.
    pub(crate) fn add(&mut self, lease: T, ttl: Ttl, sent_at: Instant) -> Id {
        let id = self.next;
        self.next += 1;
        let valid_until = valid_until(sent_at, ttl);
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
        self.renewed(id, sent_at);
        id
    }

    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(entry) = self.entries.remove(&id) {
            self.alarms.remove(&(entry.alarm, id));
            if let Some(early) = entry.early {
                self.early.remove(&(early, id));
            }
        }
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

    /// The renewal of a request of `sent_at` succeeded.
    pub(crate) fn renewed(&mut self, id: Id, sent_at: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let ttl = entry.ttl.as_duration();
        entry.valid_until = entry.valid_until.max(valid_until(sent_at, entry.ttl));
        entry.failures = 0;
        let due = sent_at + ttl / RENEWALS_PER_TTL;
        self.plan(id, due, Some(due - ttl / EARLY_PER_TTL));
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
