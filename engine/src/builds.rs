//! What new runs are marked with, what waits for a worker that supports its mark, and where builds
//! stand.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use coord_core::{Error, Result};
use tokio::time::Instant;

use crate::committer::locked;
use crate::compatibility::{Compatibility, FleetValidation};
use crate::engine::{Core, Engine};
use crate::model::{BuildId, Namespace, Timestamp};
use crate::store::{
    Backlog, Backlogs, Builds, Ending, OpenRuns, Start, Store, WorkerFilter, WorkerRecord,
};

/// For how long it is not asked again which build is promoted: so long after a promotion, runs may
/// still begin with the build before.
const FRESH: Duration = Duration::from_secs(1);

/// Where a build stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BuildStatus {
    /// It has runs, and no worker yet or any more.
    Pending,
    /// Workers support it.
    Active,
    /// New runs are marked with it.
    Promoted,
    /// It is to end, and has open runs.
    Draining,
    /// It is to end, and has none any more: its workers may go.
    Drained,
    /// It was a mistake.
    RolledBack,
}

impl BuildStatus {
    /// As shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Promoted => "promoted",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// A build of a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildRecord {
    /// It.
    pub build: BuildId,
    /// Where it stands.
    pub status: BuildStatus,
    /// Since when it is to end.
    pub ending_since: Option<Timestamp>,
    /// How many of its runs are open.
    pub open_runs: u64,
    /// When the first of these was started.
    pub oldest_open: Option<Timestamp>,
    /// How many live workers name it. One that supports every build names none.
    pub workers: u64,
}

/// Marked runs that have something to do, and no live worker that could do it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// The database's clock.
    pub now: Timestamp,
    /// By namespace, queue, kind, type and build.
    pub backlogs: Vec<Backlog>,
}

impl Blocked {
    /// What of `backlogs` none of `workers` could claim.
    pub(crate) fn of(backlogs: Backlogs, workers: &[WorkerRecord]) -> Self {
        let could = |worker: &WorkerRecord, backlog: &Backlog| {
            worker.serves(&backlog.namespace, &backlog.queue)
                && worker.supports(backlog.build.as_ref())
        };
        let mut blocked = backlogs.backlogs;
        blocked.retain(|backlog| {
            backlog.build.is_some() && !workers.iter().any(|worker| could(worker, backlog))
        });
        Self {
            now: backlogs.now,
            backlogs: blocked,
        }
    }

    /// How many runs. One that waits in two queues, or with tasks of two types, counts in each.
    pub fn runs(&self) -> u64 {
        self.backlogs.iter().map(|backlog| backlog.runs).sum()
    }

    /// Since when the first of them has waited.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.backlogs.iter().map(|backlog| backlog.since).min()
    }

    /// For how long the first of them has waited; nothing when none does.
    pub fn age(&self) -> Duration {
        let age = |since| self.now.since(since);
        self.oldest().map_or(Duration::ZERO, age)
    }
}

/// The builds of a namespace by name, from what is stored and from who lives.
pub(crate) fn records(seen: &Builds, workers: &[WorkerRecord]) -> Vec<BuildRecord> {
    let named = workers.iter().flat_map(|worker| worker.enlistment.named());
    let mut all: Vec<_> = named.clone().cloned().collect();
    all.extend(seen.promoted.clone());
    all.extend(seen.endings.iter().map(|(build, ..)| build.clone()));
    all.extend(seen.open.iter().map(|open| open.build.clone()));
    all.sort();
    all.dedup();
    let record = |build: BuildId| {
        let open = seen.open.iter().find(|open| open.build == build);
        let ending = seen.endings.iter().find(|(of, ..)| *of == build);
        let workers = named.clone().filter(|of| **of == build).count() as u64;
        BuildRecord {
            status: status(
                seen.promoted.as_ref() == Some(&build),
                ending.map(|(_, ending, _)| *ending),
                (open, workers),
            ),
            ending_since: ending.map(|(_, _, since)| *since),
            open_runs: open.map_or(0, |open| open.runs),
            oldest_open: open.map(|open| open.since),
            workers,
            build,
        }
    };
    all.into_iter().map(record).collect()
}

fn status(
    is_promoted: bool,
    ending: Option<Ending>,
    (open, workers): (Option<&OpenRuns>, u64),
) -> BuildStatus {
    match ending {
        _ if is_promoted => BuildStatus::Promoted,
        Some(Ending::RolledBack) => BuildStatus::RolledBack,
        Some(Ending::Draining) if open.is_some() => BuildStatus::Draining,
        Some(Ending::Draining) => BuildStatus::Drained,
        None if workers > 0 => BuildStatus::Active,
        None => BuildStatus::Pending,
    }
}

/// Which build is promoted in each namespace, as this process knows.
#[derive(Default)]
pub(crate) struct Promoted(Mutex<HashMap<Namespace, (Option<BuildId>, Instant)>>);

impl Promoted {
    async fn of(&self, store: &dyn Store, namespace: &Namespace) -> Result<Option<BuildId>> {
        if let Some((build, since)) = locked(&self.0).get(namespace)
            && since.elapsed() < FRESH
        {
            return Ok(build.clone());
        }
        let build = store.promoted(namespace).await?;
        let seen = (build.clone(), Instant::now());
        locked(&self.0).insert(namespace.clone(), seen);
        Ok(build)
    }
}

impl Engine {
    /// The live workers that are meant, of all processes: what each can go on with, and until when
    /// it counts as alive. One that was dropped without a shutdown is shown for seconds more.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn workers(&self, filter: &WorkerFilter) -> Result<Vec<WorkerRecord>> {
        self.core.store.workers(filter).await
    }

    /// Runs that have something to do and wait for a worker that supports their build: how many,
    /// and since when. The cost grows with the number of ready tasks.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn blocked_runs(&self) -> Result<Blocked> {
        self.core.blocked().await
    }
}

impl Core {
    /// What a run is marked with that starts in `namespace` and that nobody said otherwise of. A
    /// process without a mark of its own marks nothing, and asks nothing.
    pub(crate) async fn mark(&self, namespace: &Namespace) -> Result<Option<BuildId>> {
        let Some(current) = self.compatibility.current() else {
            return Ok(None);
        };
        let promoted = self.promoted.of(&*self.store, namespace).await?;
        Ok(promoted.or_else(|| Some(current.clone())))
    }

    /// Whether `start` may take place, as far as there are workers for it.
    ///
    /// # Errors
    /// `Unavailable` when live workers of its queue are there and none supports its build, and this
    /// process was told to refuse that; or when the database does not answer.
    pub(crate) async fn admit(&self, start: &Start) -> Result<()> {
        let (FleetValidation::Fail, Some(build)) = (self.compatibility.validation(), &start.build)
        else {
            return Ok(());
        };
        let filter = WorkerFilter {
            namespace: Some(start.namespace.clone()),
            queue: Some(start.queue.clone()),
        };
        let workers = self.store.workers(&filter).await?;
        let supports = |worker: &WorkerRecord| worker.enlistment.supported.holds(Some(build));
        if workers.is_empty() || workers.iter().any(supports) {
            return Ok(());
        }
        let (workflow, queue) = (&start.workflow, &start.queue);
        Err(Error::unavailable(format!(
            "starting {workflow}: none of the {} workers of queue {queue} supports build {build}; \
             deploy one that does",
            workers.len()
        )))
    }

    /// Marked runs that no live worker could go on with.
    pub(crate) async fn blocked(&self) -> Result<Blocked> {
        let backlogs = self.store.backlogs().await?;
        if backlogs.backlogs.iter().all(|it| it.build.is_none()) {
            return Ok(Blocked::of(backlogs, &[]));
        }
        let workers = self.store.workers(&WorkerFilter::default()).await?;
        Ok(Blocked::of(backlogs, &workers))
    }

    /// The builds that this process marks with and supports.
    pub(crate) const fn compatibility(&self) -> &Compatibility {
        &self.compatibility
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_build_stands_follows_from_its_runs_and_workers() {
        let build = |name: &str| BuildId::new(name).expect("a build");
        let at = Timestamp::from_micros(7);
        let open = |name: &str| OpenRuns {
            build: build(name),
            runs: 2,
            since: at,
        };
        let ending = |name: &str, how| (build(name), how, at);
        let seen = Builds {
            promoted: Some(build("new")),
            endings: vec![
                ending("busy", Ending::Draining),
                ending("done", Ending::Draining),
                ending("wrong", Ending::RolledBack),
            ],
            open: vec![open("busy"), open("left"), open("new"), open("wrong")],
        };

        let records = records(&seen, &[]);

        let stands: Vec<_> = records
            .iter()
            .map(|record| {
                (
                    record.build.as_str(),
                    record.status.as_str(),
                    record.open_runs,
                )
            })
            .collect();
        let expected = [
            ("busy", "draining", 2),
            ("done", "drained", 0),
            ("left", "pending", 2),
            ("new", "promoted", 2),
            ("wrong", "rolled_back", 2),
        ];
        assert_eq!(stands, expected);
    }
}
