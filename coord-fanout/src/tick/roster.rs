//! Which tenants of which jobs are to be asked for when: a table that does no I/O and reads no
//! clock.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use coord_core::{KeySpace, Name};
use tokio::time::Instant;

use super::clock::Clock;
use super::due::{self, Due};
use super::place::{Answer, Ask, Place};
use super::scan::End;
use super::turn::Claim;
use crate::job::{FirstRun, Job};
use crate::schedule::TickTime;

/// Nobody sleeps longer: a server whose clock was set is noticed within it.
const NAP: Duration = Duration::from_secs(30);

/// While another node has a tick, it is looked at so often within the TTL of its scan lease: one
/// that is given up or lost soon finds somebody else.
const LOOKS_PER_TTL: u32 = 3;

/// Not sooner, also where a lease is about to end: each look is a call.
const SOONEST: Duration = Duration::from_millis(10);

/// Tenants in one script: it holds up the server for well under a millisecond.
const CLAIMS: usize = 64;

/// What is foreign stays foreign until somebody removes it.
const FOREIGN: Duration = Duration::from_mins(1);

/// A job, by its number, and a tenant.
pub(crate) type Id = (usize, Name);

/// What the state of one job and tenant is, as far as this node knows.
pub(crate) struct Seat {
    pub(crate) job: Arc<Job>,
    pub(crate) place: Place,
    pub(crate) shift: Duration,
    /// The last tick that was finished.
    pub(crate) last: Option<TickTime>,
    /// Whether the server was asked for it.
    is_known: bool,
    /// A claim whose outcome is unknown.
    claim: Option<Claim>,
    /// Claims that failed in a row.
    pub(crate) errors: u32,
    /// Scans that failed in a row.
    pub(crate) failures: u32,
    /// When it is looked at next; nothing while it is asked for, or runs.
    wake: Option<Instant>,
}

impl Seat {
    /// The server's time by which this tenant's instants are due.
    pub(crate) fn horizon(&self, now: TickTime) -> TickTime {
        now.minus(self.shift)
    }

    fn due(&self, now: TickTime) -> Option<Due> {
        let timing = &self.job.timing;
        let may_run = self.last.is_some() || timing.first_run == FirstRun::AtOnce;
        let horizon = self.horizon(now);
        (self.is_known && may_run).then(|| due::due(timing, self.last, horizon))?
    }

    /// When the next tick is due after `time`, on the server's clock.
    fn next(&self, time: TickTime) -> Option<TickTime> {
        Some(self.job.timing.schedule.next(time)?.plus(self.shift))
    }
}

/// What is to be asked for a tenant, with the claim of an earlier attempt whose outcome is unknown.
pub(crate) struct Wanted {
    pub(crate) id: Id,
    pub(crate) ask: Ask,
    pub(crate) claim: Option<Claim>,
}

/// All tenants of all jobs.
pub(crate) struct Roster {
    keys: KeySpace,
    jobs: Vec<Arc<Job>>,
    seats: BTreeMap<Id, Seat>,
    wakes: BTreeSet<(Instant, u64, Id)>,
    /// In which order this node takes what is due at once. Each has its own, so that several
    /// seldom ask for the same tenant.
    order: RandomState,
    pub(crate) clock: Clock,
}

impl Roster {
    pub(crate) fn new(keys: KeySpace, jobs: Vec<Arc<Job>>) -> Self {
        Self {
            keys,
            jobs,
            seats: BTreeMap::new(),
            wakes: BTreeSet::new(),
            order: RandomState::new(),
            clock: Clock::default(),
        }
    }

    /// Takes up the tenants that are new and drops those that are gone. What runs ends as it will.
    pub(crate) fn set_orgs(&mut self, orgs: &[Name], now: Instant) {
        let orgs: BTreeSet<_> = orgs.iter().collect();
        self.seats.retain(|(_, org), _| orgs.contains(org));
        self.wakes.retain(|(_, _, (_, org))| orgs.contains(org));
        for (index, job) in self.jobs.iter().enumerate() {
            for &org in &orgs {
                let id = (index, org.clone());
                let seats = &mut self.seats;
                seats.entry(id.clone()).or_insert_with(|| {
                    self.wakes.insert((now, self.order.hash_one(&id), id));
                    Seat {
                        place: Place::new(&self.keys, &job.name, org),
                        shift: due::jitter(&job.name, org, job.timing.spread),
                        job: Arc::clone(job),
                        last: None,
                        is_known: false,
                        claim: None,
                        errors: 0,
                        failures: 0,
                        wake: Some(now),
                    }
                });
            }
        }
    }

    pub(crate) fn seat(&self, id: &Id) -> Option<&Seat> {
        self.seats.get(id)
    }

    /// When there is something to look at next.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.wakes.first().map(|(wake, ..)| *wake)
    }

    /// What is to be asked at `now`, for up to so many tenants with a tick that may be granted.
    pub(crate) fn take(&mut self, now: Instant, mut grants: usize) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let server_now = self.clock.now(now);
        while wanted.len() < CLAIMS
            && let Some((wake, _, id)) = self.wakes.first()
            && *wake <= now
        {
            let seat = self.seats.get(id).expect("who wakes has a seat");
            let due = server_now.and_then(|now| seat.due(now));
            if due.is_some() {
                if grants == 0 {
                    break;
                }
                grants -= 1;
            }
            let (_, _, id) = self.wakes.pop_first().expect("there is a first one");
            let seat = self.seats.get_mut(&id).expect("it was found");
            seat.wake = None;
            // Somebody may remove a last tick that lies in the future.
            let is_ahead = server_now.is_some_and(|now| seat.last > Some(now));
            let is_sure = seat.is_known && !is_ahead && self.clock.is_fresh(now, NAP);
            if due.is_none() && is_sure {
                self.rest(&id, now);
                continue;
            }
            wanted.push(Wanted {
                ask: Ask {
                    place: seat.place.clone(),
                    ttl: seat.job.lease,
                    last: seat.last,
                    first_run: seat.job.timing.first_run,
                    shift: seat.shift,
                    due,
                },
                claim: seat.claim.take(),
                id,
            });
        }
        wanted
    }

    /// Takes note of an answer to what `due` asked for, and when to look again.
    pub(crate) fn answered(&mut self, id: &Id, answer: &Answer, due: Option<&Due>, now: Instant) {
        let Some(seat) = self.seats.get_mut(id) else {
            return;
        };
        seat.errors = 0;
        // The script has taken what we knew into account.
        match answer {
            Answer::Idle(last) | Answer::Busy { last, .. } | Answer::Granted { last, .. } => {
                seat.is_known = true;
                seat.last = *last;
            }
            Answer::Passed(_) => seat.last = due.map(|due| due.upto),
            Answer::Foreign => {}
        }
        match answer {
            Answer::Idle(_) | Answer::Passed(_) => self.rest(id, now),
            Answer::Busy { left, is_pause, .. } => {
                let left = (*left).max(SOONEST);
                let look = seat.job.lease.as_duration() / LOOKS_PER_TTL;
                let look = left.min(if *is_pause { NAP } else { look });
                // Whoever has this tick may be done with it before the next one is due.
                let next = self.clock.now(now).and_then(|now| {
                    let seat = self.seats.get(id)?;
                    seat.next(seat.horizon(now))
                });
                let next = next.and_then(|next| self.clock.instant_of(next, now));
                let look = now + look;
                self.wake(id, next.map_or(look, |next| next.min(look)));
            }
            Answer::Foreign => self.wake(id, now + FOREIGN),
            Answer::Granted { .. } => {}
        }
    }

    /// Takes note that a claim failed; it is repeated at `again`, as the same one.
    pub(crate) fn failed(&mut self, id: &Id, claim: Claim, again: Instant) {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.claim = Some(claim);
            seat.errors = seat.errors.saturating_add(1);
            self.wake(id, again);
        }
    }

    /// Takes note how a tick ended.
    pub(crate) fn ended(&mut self, id: &Id, end: End, now: Instant) {
        let Some(seat) = self.seats.get_mut(id) else {
            return;
        };
        match end {
            End::Finished(upto) => {
                seat.failures = 0;
                seat.last = seat.last.max(Some(upto));
                self.rest(id, now);
            }
            End::Lost => self.wake(id, now + SOONEST),
            End::Failed(pause) => {
                seat.failures = seat.failures.saturating_add(1);
                self.wake(id, now + pause);
            }
            End::Stopped => {}
        }
    }

    /// Sleeps until the next tick is due, as far as is known.
    fn rest(&mut self, id: &Id, now: Instant) {
        let next = self.seats.get(id).and_then(|seat| match seat.last {
            Some(last) => seat.next(last),
            // Its first run may be due at once.
            None => self.clock.now(now).filter(|now| seat.due(*now).is_some()),
        });
        let wake = next.and_then(|next| self.clock.instant_of(next, now));
        let nap = now + NAP;
        self.wake(id, wake.map_or(nap, |wake| wake.min(nap)));
    }

    fn wake(&mut self, id: &Id, at: Instant) {
        if let Some(seat) = self.seats.get_mut(id) {
            let order = self.order.hash_one(id);
            if let Some(before) = seat.wake.replace(at) {
                self.wakes.remove(&(before, order, id.clone()));
            }
            self.wakes.insert((at, order, id.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
