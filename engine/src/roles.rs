//! What one process at a time does for all: who does it, and whether anybody does.
//!
//! A role is a row with a holder and the end of its term. Whoever has it renews it; the others look
//! when the term ends, and at once when it is given up. That spares them work and nothing else:
//! what is done under a role compares what it changes, so two holders at once do no harm.

use std::sync::Weak;
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;
use tokio::time::Instant;

use crate::engine::Core;
use crate::signals::Signal;
use crate::store::{Role, Roles, Term};

/// After the end of a term the others do not all ask at once.
const SPREAD: Duration = Duration::from_secs(1);

/// The place of this process in a role.
pub(crate) struct Seat {
    role: Role,
    ttl: Duration,
    leads: bool,
}

/// What became of a question for a role.
pub(crate) enum Seated {
    /// The role is this process's.
    Leads(Term),
    /// It is somebody else's: how long to wait before it is asked for again.
    Follows(Duration),
}

impl Seated {
    pub(crate) const fn leads(&self) -> bool {
        matches!(self, Self::Leads(_))
    }
}

impl Seat {
    pub(crate) const fn new(role: Role, ttl: Duration) -> Self {
        Self {
            role,
            ttl,
            leads: false,
        }
    }

    /// Renews the role, or takes it if nobody has it. Whoever does not have it only reads.
    ///
    /// # Errors
    /// Those of the store: then the role is no longer this process's, as far as it knows.
    pub(crate) async fn ask(&mut self, core: &Core) -> Result<Seated> {
        let led = std::mem::take(&mut self.leads);
        if !led {
            let roles = core.store.roles().await?;
            let left = roles.left(self.role).filter(|left| !left.is_zero());
            let owner = core.owner();
            let is_ours = roles
                .term(self.role)
                .is_some_and(|term| term.holder == owner);
            if let (Some(left), false) = (left, is_ours) {
                return Ok(Seated::Follows(left + spread()));
            }
        }
        Ok(match core.elect(self.role, self.ttl).await? {
            Some(term) => {
                self.leads = true;
                Seated::Leads(term)
            }
            // Somebody was faster, or this process has left.
            None => Seated::Follows(spread()),
        })
    }
}

fn spread() -> Duration {
    SPREAD.mul_f64(0.05 + 0.95 * rand::random::<f64>())
}

/// Watches whether roles are held that somebody has to hold, for as long as it is polled. Whoever
/// has none of them sees best that nobody has.
pub(crate) async fn watch(core: Weak<Core>) {
    let mut vacancies = [Vacancy::of(Role::Recovery), Vacancy::of(Role::Scheduler)];
    loop {
        let Some(held) = core.upgrade() else { return };
        let every = held.recovery.ttl;
        match held.store.roles().await {
            Ok(roles) => vacancies.iter_mut().for_each(|vacancy| vacancy.see(&roles)),
            Err(error) => {
                let error = Detail::error(&error);
                Signal::StoreFailed { error }.emit();
            }
        }
        drop(held);
        // Not all at once.
        tokio::time::sleep(every.mul_f64(1.0 - 0.2 * rand::random::<f64>())).await;
    }
}

/// Since when a role has been seen without a holder.
struct Vacancy {
    role: Role,
    since: Option<Instant>,
    shown_s: u64,
}

impl Vacancy {
    const fn of(role: Role) -> Self {
        Self {
            role,
            since: None,
            shown_s: 0,
        }
    }

    fn see(&mut self, roles: &Roles) {
        // Without a schedule there is nothing to fire.
        let is_needed = self.role != Role::Scheduler || roles.has_schedules;
        let is_held = roles.left(self.role).is_some_and(|left| !left.is_zero());
        if is_held || !is_needed {
            self.since = None;
        }
        let since = match (is_held, is_needed) {
            (false, true) => Some(*self.since.get_or_insert_with(Instant::now)),
            _ => None,
        };
        let age_s = since.map_or(0, |since| since.elapsed().as_secs());
        if age_s != self.shown_s {
            let role = self.role;
            Signal::RoleVacant { role, age_s }.emit();
            self.shown_s = age_s;
        }
    }
}
