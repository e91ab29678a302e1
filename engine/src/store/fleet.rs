//! Processes: which of them live, and which of them leads.

use std::time::Duration;

use crate::model::{BuildId, Namespace, OwnerId, Timestamp};

/// One life of a process. The next one has another id, whatever its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incarnation {
    /// Its id, and the owner of its leases.
    pub id: OwnerId,
    /// What people call the process; any number of incarnations share it.
    pub node: String,
    /// What it runs.
    pub build: Option<BuildId>,
    /// Its number in its system.
    pub pid: u32,
}

/// An incarnation to register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// Who.
    pub incarnation: Incarnation,
    /// How long it counts as alive without a heartbeat.
    pub ttl: Duration,
    /// Whether it is proved that no other process uses this database: then all other incarnations
    /// are dead at once.
    pub alone: bool,
    /// Whether its node has one process at a time: then all other incarnations of the same `node`
    /// are dead at once. Of two that come at the same time the later one stays.
    pub exclusive: bool,
}

/// What became of a registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registered {
    /// Until when it counts as alive.
    pub expires_at: Timestamp,
    /// How many other incarnations it has declared dead: what they had is free, and so are their
    /// roles.
    pub buried: u64,
}

/// An incarnation that was declared dead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buried {
    /// Who.
    pub id: OwnerId,
    /// How long ago it gave its last sign of life.
    pub silent_for: Duration,
}

/// A sign of life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// Of whom.
    pub id: OwnerId,
    /// How long it counts as alive from now.
    pub ttl: Duration,
    /// Whether it takes no more work: `draining`, which still counts as alive.
    pub draining: bool,
    /// Whether it ends with this: `stopped`, and its leases are free.
    pub stopped: bool,
    /// What it did in the last minute, as others are to read it; `None` leaves what stands there.
    pub figures: Option<String>,
}

/// What one process at a time does for all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Declares incarnations dead and takes back what they had.
    Recovery,
    /// Fires schedules.
    Scheduler,
    /// Deletes what is past its retention.
    Retention,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Recovery, Self::Scheduler, Self::Retention];

    /// As stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recovery => "recovery",
            Self::Scheduler => "scheduler",
            Self::Retention => "retention",
        }
    }

    /// As stored: a namespace that processes keep to has roles of its own. The name of a role has
    /// no colon.
    pub(crate) fn key(self, scope: Option<&Namespace>) -> String {
        match scope {
            Some(namespace) => format!("{}:{namespace}", self.as_str()),
            None => self.as_str().to_owned(),
        }
    }
}

/// What is known of the roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roles {
    /// The database's clock.
    pub now: Timestamp,
    /// The last term of each role that ever had one, also when it has ended.
    pub terms: Vec<Term>,
    /// Whether there are schedules that are to fire.
    pub has_schedules: bool,
}

impl Roles {
    /// The last term of `role`.
    pub fn term(&self, role: Role) -> Option<&Term> {
        self.terms.iter().find(|term| term.role == role)
    }

    /// For how long `role` is held at least: not at all when its last term has ended.
    pub fn left(&self, role: Role) -> Option<Duration> {
        let term = self.term(role)?;
        Some(term.expires_at.since(self.now))
    }
}

/// A time for which a role is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// The role.
    pub role: Role,
    /// Who has it.
    pub holder: OwnerId,
    /// Its number: larger at every change of the holder, and after every gap.
    pub number: u64,
    /// Since when it has been held without a gap.
    pub acquired_at: Timestamp,
    /// When it ends unless it is renewed.
    pub expires_at: Timestamp,
    /// The database's clock at this answer.
    pub now: Timestamp,
}
