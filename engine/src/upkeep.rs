//! What one process at a time does for all: it takes back what was left, ends what took too long,
//! and mends what was lost.
//!
//! Who does it is a matter of economy. Each step looks again, under the locks of what it changes,
//! whether it is still to be done, so two at once do nothing twice.

mod overdue;
mod pass;
mod walk;

use std::sync::{Arc, Weak};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Result};
use tokio::time::Instant;

use crate::engine::Core;
use crate::roles::{Seat, Seated};
use crate::signals::{Signal, TakenBack};
use crate::store::{BlockedReason, Role, Sweep, Term};
use crate::wake::Channel;
use walk::Walk;

pub use pass::Repaired;

/// How many tasks at a time.
pub(crate) const LIMIT: u32 = 100;
/// Between portions of what was left: two thousand tasks a second at most, so that what lives is not
/// slowed down by what died.
const PAUSE: Duration = Duration::from_millis(50);
/// A task that was taken back so often took its process down each time.
pub(crate) const POISON_AFTER: u32 = 5;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));

/// Looks after the others in every term that this process gets, for as long as it is polled.
///
/// One whose predecessor is known to be gone (`has_succeeded`) takes over from it at once, whoever
/// leads.
pub(crate) async fn run(core: Weak<Core>, has_succeeded: bool) {
    let mut upkeep = Upkeep {
        seat: None,
        has_succeeded,
        failures: 0,
        walk: Walk::default(),
    };
    loop {
        // Only for the look, so that an engine that nobody uses any more goes.
        let Some(held) = core.upgrade() else { return };
        // Before the look, so that a role that is given up during it is not missed.
        let heard = held.wake.snapshot(&[Channel::role(Role::Recovery)]);
        let wait = upkeep.look(&held).await;
        drop(held);
        heard.wait(Instant::now() + wait).await;
    }
}

struct Upkeep {
    seat: Option<Seat>,
    /// What was left by a predecessor is still to be taken over.
    has_succeeded: bool,
    failures: u32,
    walk: Walk,
}

impl Upkeep {
    /// Looks once, if it is this process's business. How long to wait for the next look.
    async fn look(&mut self, core: &Arc<Core>) -> Duration {
        match self.keep_up(core).await {
            Ok(wait) => {
                self.failures = 0;
                wait
            }
            Err(error) => {
                let error = Detail::error(&error);
                Signal::StoreFailed { error }.emit();
                self.failures += 1;
                BACKOFF.jittered(self.failures)
            }
        }
    }

    async fn keep_up(&mut self, core: &Arc<Core>) -> Result<Duration> {
        if self.has_succeeded {
            while take_back(core).await?.may_be_more {
                tokio::time::sleep(PAUSE).await;
            }
            self.has_succeeded = false;
        }
        let term = core.recovery.term;
        let seat = self
            .seat
            .get_or_insert_with(|| Seat::new(Role::Recovery, term));
        let held = match seat.ask(core).await? {
            Seated::Leads(term) => term,
            Seated::Follows(wait) => return Ok(wait),
        };
        let wait = bury(core, &held).await?;
        // A portion that is not full was the last one.
        while take_back(core).await?.may_be_more {
            tokio::time::sleep(PAUSE).await;
            if !seat.ask(core).await?.leads() {
                return Ok(wait);
            }
        }
        while overdue::end_all(core).await?.may_be_more {
            tokio::time::sleep(PAUSE).await;
            if !seat.ask(core).await?.leads() {
                return Ok(wait);
            }
        }
        self.walk.go_on(core).await?;
        Ok(wait)
    }
}

/// Declares dead those whose heartbeat is overdue, under a term that is old enough for it: after an
/// outage every heartbeat looks old, but only for as long as it takes to beat again. How long to
/// wait for the next look.
async fn bury(core: &Core, term: &Term) -> Result<Duration> {
    let (age, ttl) = (term.now.since(term.acquired_at), core.recovery.ttl);
    // A short lease is meant to be noticed soon.
    let every = core.recovery.every.min(core.shortest_lease());
    if age < ttl {
        return Ok(every.min(ttl.saturating_sub(age)));
    }
    for dead in core.store.bury(term).await? {
        let (process, silent_ms) = (Detail::new(dead.id), dead.silent_for);
        Signal::DeathFound { silent_ms, process }.emit();
    }
    Ok(every)
}

/// What became of a portion.
struct Portion {
    /// How many were seen to.
    done: u64,
    may_be_more: bool,
}

/// Takes back a portion of what nobody works on.
async fn take_back(core: &Core) -> Result<Portion> {
    let sweep = Sweep {
        limit: LIMIT,
        poison_after: POISON_AFTER,
    };
    let swept = core.store.sweep(&sweep).await?;
    let gone = swept.ready.saturating_sub(swept.of_living);
    for (reason, tasks) in [
        (TakenBack::OwnerGone, gone),
        (TakenBack::LeaseEnded, swept.of_living),
    ] {
        if tasks > 0 {
            Signal::TasksRecovered { reason, tasks }.emit();
        }
    }
    core.meter.recovered(swept.ready);
    let queues = swept.queues.iter();
    let queues = queues.map(|(namespace, queue, kind)| Channel::tasks(*kind, namespace, queue));
    core.wake.signal(&queues.collect::<Vec<_>>());
    let taken = swept.ready + swept.poisoned.len() as u64;
    for task in swept.poisoned {
        let reason = BlockedReason::Poison;
        let error = Detail::new("its owner was gone each time that it was claimed");
        Signal::RunBlocked {
            reason,
            run: Detail::new(task),
            error,
        }
        .emit();
    }
    Ok(Portion {
        done: taken,
        may_be_more: taken >= u64::from(LIMIT),
    })
}
