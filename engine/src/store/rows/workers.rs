//! Workers and builds.

use coord_core::{Error, Result};

use super::super::answers;
use super::super::builds::{Builds, Ending, OpenRuns};
use super::super::workers::{Backlog, Backlogs, Enlistment, Paid, UnderWay, WorkerRecord};
use super::{read, some, unsigned};
use crate::compatibility::Supported;
use crate::model::{BuildId, Timestamp};

/// Stands for runs without a mark alone.
const NONE: &str = "";
/// Stands for the runs of every build.
const ALL: &str = "*";

impl Enlistment {
    /// What it knows, as it is stored.
    pub(in super::super) fn types(&self) -> Result<Option<String>> {
        let text = self.types.as_ref().map(serde_json::to_string).transpose();
        text.map_err(|error| Error::invalid("writing the types of a worker").with_source(error))
    }

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
    types: Option<String>,
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
                // What does not read says nothing.
                types: self.types.and_then(|text| serde_json::from_str(&text).ok()),
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

/// Counts tasks that may be claimed. `$now` is the clock, `$scope` which namespaces are meant.
macro_rules! backlogs_of_tasks {
    ($now:literal, $scope:literal) => {
        concat!(
            "SELECT namespace, queue, task_type, name, compatibility, fingerprint, COUNT(*) AS tasks,
                COUNT(DISTINCT run_id) AS runs, MIN(available_at) AS since
             FROM (SELECT namespace, queue, task_type, name, compatibility, run_id, available_at,
                    CASE WHEN task_type = 'workflow' THEN (SELECT began.fingerprint
                        FROM workflow_runs began WHERE began.run_id = workflow_tasks.run_id) END
                        AS fingerprint
                FROM workflow_tasks WHERE status = 'ready' AND available_at <= ",
            $now,
            " AND ",
            $scope,
            " LIMIT 100000) t
             GROUP BY namespace, queue, task_type, name, compatibility, fingerprint
             ORDER BY namespace, queue, task_type, name, compatibility, fingerprint"
        )
    };
}
pub(in super::super) use backlogs_of_tasks;

/// Counts tasks that are under way.
macro_rules! backlogs_under_way {
    ($now:literal, $scope:literal) => {
        concat!(
            "SELECT namespace, queue, task_type, COUNT(*) AS number FROM workflow_tasks
             WHERE status = 'leased' AND lease_expires_at > ",
            $now,
            " AND ",
            $scope,
            " GROUP BY namespace, queue, task_type ORDER BY namespace, queue, task_type"
        )
    };
}
pub(in super::super) use backlogs_under_way;

/// Until when claims are paid.
macro_rules! backlogs_paid {
    ($scope:literal) => {
        concat!(
            "SELECT namespace, queue, task_type, paid_until AS number FROM engine_quotas WHERE ",
            $scope,
            " ORDER BY namespace, queue, task_type"
        )
    };
}
pub(in super::super) use backlogs_paid;

/// Tasks of a type and a build that are due in a queue.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct BacklogRow {
    namespace: String,
    queue: String,
    task_type: String,
    name: String,
    compatibility: Option<String>,
    fingerprint: Option<String>,
    tasks: i64,
    runs: i64,
    since: i64,
}

/// A number of one kind in a queue.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct OfKindRow {
    namespace: String,
    queue: String,
    task_type: String,
    number: i64,
}

/// What was read of a database: what waits, what is under way, and what is paid.
pub(in super::super) struct BacklogRows {
    pub(in super::super) now: i64,
    pub(in super::super) tasks: Vec<BacklogRow>,
    pub(in super::super) under_way: Vec<OfKindRow>,
    pub(in super::super) paid: Vec<OfKindRow>,
}

impl BacklogRows {
    pub(in super::super) fn backlogs(self) -> Result<Backlogs> {
        let tasks = self.tasks.into_iter().map(BacklogRow::backlog);
        let under_way = self.under_way.into_iter().map(OfKindRow::under_way);
        let paid = self.paid.into_iter().map(OfKindRow::paid);
        Ok(Backlogs {
            now: Timestamp::from_micros(self.now),
            backlogs: tasks.collect::<Result<_>>()?,
            under_way: under_way.collect::<Result<_>>()?,
            paid: paid.collect::<Result<_>>()?,
        })
    }
}

impl BacklogRow {
    fn backlog(self) -> Result<Backlog> {
        Ok(Backlog {
            namespace: read(self.namespace, "namespace")?,
            queue: read(self.queue, "queue")?,
            kind: answers::kind_of(&self.task_type),
            name: read(self.name, "name")?,
            build: some(self.compatibility, "build id")?,
            fingerprint: some(self.fingerprint, "fingerprint")?,
            tasks: unsigned(self.tasks)?,
            runs: unsigned(self.runs)?,
            since: Timestamp::from_micros(self.since),
        })
    }
}

impl OfKindRow {
    fn under_way(self) -> Result<UnderWay> {
        Ok(UnderWay {
            namespace: read(self.namespace, "namespace")?,
            queue: read(self.queue, "queue")?,
            kind: answers::kind_of(&self.task_type),
            tasks: unsigned(self.number)?,
        })
    }

    fn paid(self) -> Result<Paid> {
        Ok(Paid {
            namespace: read(self.namespace, "namespace")?,
            queue: self.queue,
            kind: answers::kind_of(&self.task_type),
            until: Timestamp::from_micros(self.number),
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
