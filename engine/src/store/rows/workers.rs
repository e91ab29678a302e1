//! Workers and builds.

use coord_core::{Error, Result};

use super::super::builds::{Builds, Ending, OpenRuns};
use super::super::workers::{Backlog, Backlogs, Enlistment, WorkerRecord};
use super::{read, some, unsigned};
use crate::compatibility::Supported;
use crate::model::{BuildId, Timestamp};

/// Stands for runs without a mark alone.
const NONE: &str = "";
/// Stands for the runs of every build.
const ALL: &str = "*";

impl Enlistment {
    /// Its rows, by what stands for the builds that it can go on with.
    pub(in super::super) fn builds(&self) -> Vec<&str> {
        match &self.supported {
            Supported::All => vec![ALL],
            Supported::Only(builds) if builds.is_empty() => vec![NONE],
            Supported::Only(builds) => builds.iter().map(BuildId::as_str).collect(),
        }
    }
}

/// A row of `engine_workers`, with its process.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct WorkerRow {
    worker_id: String,
    build_id: String,
    instance_id: String,
    namespace: String,
    queue: String,
    current_build: Option<String>,
    host: Option<String>,
    started_at: i64,
    node_name: String,
    pid: i64,
    status: String,
    heartbeat_at: i64,
    expires_at: i64,
}

impl WorkerRow {
    /// The workers of `rows`, which are in the order of their ids.
    pub(in super::super) fn workers(rows: Vec<Self>) -> Result<Vec<WorkerRecord>> {
        let mut workers: Vec<WorkerRecord> = Vec::new();
        for row in rows {
            let build = row.build_id.clone();
            if workers
                .last()
                .is_none_or(|last| last.enlistment.worker != row.worker_id)
            {
                workers.push(row.worker()?);
            }
            let supported = workers
                .last_mut()
                .map(|last| &mut last.enlistment.supported);
            match (supported, build.as_str()) {
                (Some(supported), ALL) => *supported = Supported::All,
                (Some(Supported::Only(builds)), name) if name != NONE => {
                    builds.push(read(build, "build id")?);
                }
                _ => {}
            }
        }
        Ok(workers)
    }

    /// The worker, with nothing that it supports yet.
    fn worker(self) -> Result<WorkerRecord> {
        Ok(WorkerRecord {
            enlistment: Enlistment {
                worker: self.worker_id,
                owner: read(self.instance_id, "owner id")?,
                namespace: read(self.namespace, "namespace")?,
                queue: read(self.queue, "queue")?,
                current: some(self.current_build, "build id")?,
                supported: Supported::Only(Vec::new()),
                host: self.host,
            },
            node: self.node_name,
            pid: unsigned(self.pid)?,
            is_draining: self.status == "draining",
            started_at: Timestamp::from_micros(self.started_at),
            recorded_at: Timestamp::from_micros(self.heartbeat_at),
            expires_at: Timestamp::from_micros(self.expires_at),
        })
    }
}

/// Marked runs of a queue that have a due task.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct BacklogRow {
    namespace: String,
    queue: String,
    compatibility: String,
    runs: i64,
    since: i64,
}

impl BacklogRow {
    pub(in super::super) fn backlogs(now: i64, rows: Vec<Self>) -> Result<Backlogs> {
        let backlogs = rows.into_iter().map(|row| {
            Ok(Backlog {
                namespace: read(row.namespace, "namespace")?,
                queue: read(row.queue, "queue")?,
                build: read(row.compatibility, "build id")?,
                runs: unsigned(row.runs)?,
                since: Timestamp::from_micros(row.since),
            })
        });
        Ok(Backlogs {
            now: Timestamp::from_micros(now),
            backlogs: backlogs.collect::<Result<_>>()?,
        })
    }
}

/// A row of `workflow_builds`.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct EndingRow {
    build_id: String,
    status: String,
    changed_at: i64,
}

impl EndingRow {
    pub(in super::super) fn ending(self) -> Result<(BuildId, Ending, Timestamp)> {
        let known = [Ending::Draining, Ending::RolledBack];
        let ending = known.into_iter().find(|it| it.as_str() == self.status);
        let ending =
            ending.ok_or_else(|| Error::corrupt("reading a build: its status is none of ours"))?;
        let since = Timestamp::from_micros(self.changed_at);
        Ok((read(self.build_id, "build id")?, ending, since))
    }
}

/// Open runs of a build.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct OpenRunsRow {
    compatibility: String,
    runs: i64,
    since: i64,
}

impl OpenRunsRow {
    pub(in super::super) fn open(self) -> Result<OpenRuns> {
        Ok(OpenRuns {
            build: read(self.compatibility, "build id")?,
            runs: unsigned(self.runs)?,
            since: Timestamp::from_micros(self.since),
        })
    }
}

impl Builds {
    pub(in super::super) fn promoted_of(build: Option<String>) -> Result<Option<BuildId>> {
        some(build, "build id")
    }

    pub(in super::super) fn of(
        promoted: Option<String>,
        endings: Vec<EndingRow>,
        open: Vec<OpenRunsRow>,
    ) -> Result<Self> {
        Ok(Self {
            promoted: Self::promoted_of(promoted)?,
            endings: endings
                .into_iter()
                .map(EndingRow::ending)
                .collect::<Result<_>>()?,
            open: open
                .into_iter()
                .map(OpenRunsRow::open)
                .collect::<Result<_>>()?,
        })
    }
}
