//! What a limiter says.

use std::time::Duration;

use coord_core::Name;
use coord_core::signals::Detail;

use crate::signals::{Outcome, Signal};

/// Whether the permits were granted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "whoever ignores it is not limited"]
pub enum Decision {
    /// They were.
    Allowed(Standing),
    /// They were not, and nothing was taken.
    Denied {
        /// After this time they fit if nobody else takes any: one retry succeeds. Rounded up, and
        /// never zero.
        retry_after: Duration,
        /// Where the limit stands that denied.
        standing: Standing,
    },
    /// They never will be: more were asked for than fit at once. Redis was not asked.
    NeverAllowed {
        /// The most that may be asked for.
        capacity: u32,
        /// The limit that has this capacity.
        limit: Name,
    },
}

/// Where a limit stands after a decision: of several, the tightest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub limit: Name,
    /// Permits that could be taken now; 0 where a policy decided, since nobody counted.
    pub remaining: u32,
    /// The time until it is as if nothing had been taken.
    pub reset_after: Duration,
    /// Who decided.
    pub by: By,
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// Redis.
    Redis,
    /// An earlier denial by Redis that still holds: 0 round trips.
    Memory,
    /// A block of permits drawn earlier: 0 round trips.
    Block,
    /// The end of the caller's wait: its turn did not come, or no answer did.
    Line,
    /// This process alone, by its share of the quota, without Redis.
    Share,
    /// [`WithoutRedis::Allow`](crate::WithoutRedis::Allow) or `Deny`, without Redis.
    Policy,
}
coord_core::labels! { By {
    Redis => "redis", Memory => "memory", Block => "block", Line => "line", Share => "share",
    Policy => "policy",
} }

impl Decision {
    /// Whether the permits were granted.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Whether it was made without Redis, since that could not be asked.
    pub fn is_degraded(&self) -> bool {
        matches!(self.by(), Some(By::Share | By::Policy))
    }

    /// Who decided; nobody where there was nothing to decide.
    pub fn by(&self) -> Option<By> {
        self.standing().map(|standing| standing.by)
    }

    /// Where the limit stands.
    pub fn standing(&self) -> Option<&Standing> {
        match self {
            Self::Allowed(standing) | Self::Denied { standing, .. } => Some(standing),
            Self::NeverAllowed { .. } => None,
        }
    }

    /// After which time a retry succeeds if nobody else takes any; nothing where it was allowed,
    /// or never will be.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Denied { retry_after, .. } => Some(*retry_after),
            Self::Allowed(_) | Self::NeverAllowed { .. } => None,
        }
    }
    /// Counts it, and hands it on.
    pub(crate) fn counted(self) -> Self {
        let outcome = if self.is_allowed() {
            Outcome::Allowed
        } else {
            Outcome::Denied
        };
        if let Some(by) = self.by() {
            Signal::Decided { outcome, by }.emit();
        }
        if let Self::NeverAllowed { limit, capacity } = &self {
            let (limit, capacity) = (limit.clone(), Detail::new(capacity));
            Signal::NeverAllowed { limit, capacity }.emit();
        }
        self
    }
}
