//! What is wrong with what an engine stands on, before it costs anything: a finding with a remedy
//! each.
//!
//! [`health`](crate::health) says what stands still now and is asked every few seconds.
//! [`Engine::doctor`] looks at the database as whoever set it up would: its version and settings, its
//! indexes and plans, what stands in between, who holds it up.

mod judge;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coord_core::Result;
use coord_core::signals::Detail;

use crate::engine::Engine;
use crate::health::{Category, Status};
use crate::model::Timestamp;

/// From when on a transaction is long. Those of the engine last milliseconds.
const LONG: Duration = Duration::from_mins(1);

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Its stable name, such as `missing_indexes`.
    pub name: &'static str,
    /// Whether it is about work being done right or about how soon.
    pub category: Category,
    /// How bad it is.
    pub status: Status,
    /// What was found, for people.
    pub found: String,
    /// What to do about it; empty when there is nothing to do.
    pub remedy: &'static str,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// What was looked at, in a fixed order. When the database does not answer, that alone.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// The worst of all.
    pub fn status(&self) -> Status {
        let statuses = self.findings.iter().map(|finding| finding.status);
        statuses.max().unwrap_or(Status::Ok)
    }

    /// The finding of this name.
    pub fn finding(&self, name: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.name == name)
    }
}

impl Engine {
    /// Looks for what is wrong with what this engine stands on. Never an error, since that is what
    /// it tells of.
    ///
    /// It takes some tens of milliseconds and a few connections, and changes nothing. What this user
    /// of the database may not see is said to be hidden.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn doctor(&self) -> Diagnosis {
        let examined = self.core.store.examine(LONG).await;
        let mut findings = match &examined {
            Ok(examination) => judge::examined(examination),
            Err(error) => {
                let why = Detail::error(error).to_string();
                return Diagnosis {
                    findings: vec![judge::unanswered(&why)],
                };
            }
        };
        findings.push(match self.clock_offset().await {
            Ok(offset) => judge::clock(offset),
            Err(error) => judge::unanswered(&Detail::error(&error).to_string()),
        });
        findings.push(judge::hints(self.wake_health()));
        Diagnosis { findings }
    }

    /// By how much the clock of the database is ahead of the one of this machine, and by how much
    /// that may be wrong.
    async fn clock_offset(&self) -> Result<Offset> {
        let before = wall_clock();
        let there = self.core.store.load(&[]).await?.now;
        let after = wall_clock();
        Ok(Offset {
            ahead_us: there.as_micros() - i64::midpoint(before.as_micros(), after.as_micros()),
            unsure_us: (after.as_micros() - before.as_micros()).abs() / 2,
        })
    }
}

/// A difference of two clocks, in microseconds.
#[derive(Clone, Copy)]
struct Offset {
    ahead_us: i64,
    unsure_us: i64,
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is compared with that of the database, and decides nothing"
)]
fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::default().plus(since.unwrap_or_default())
}
