//! Rows of a survey, and the statements that count them: the same text on every dialect, but for
//! how a parameter is written and which index is named.

use coord_core::{Error, Result};

use super::super::survey::{NodeRecord, Standing, Survey};
use super::super::{Incarnation, Tally};
use super::{read, some, unsigned};
use crate::model::{RunStatus, Timestamp};

/// The namespaces that have runs, each by one look at the index, so that what follows finds the runs
/// of each by an index as well.
macro_rules! survey_namespaces {
    () => {
        "WITH RECURSIVE n (namespace) AS (
            SELECT min(namespace) FROM workflow_instances
            UNION ALL
            SELECT (SELECT min(i.namespace) FROM workflow_instances i
                WHERE i.namespace > n.namespace)
            FROM n WHERE n.namespace IS NOT NULL)
         "
    };
}
pub(in super::super) use survey_namespaces;

/// Counts open runs. `$runs` joins the runs of a namespace, `$turn` is the id of a run's workflow
/// task, `$scope` says which namespaces are meant.
macro_rules! survey_of_open {
    ($runs:literal, $turn:literal, $scope:literal) => {
        concat!(
            survey_namespaces!(),
            "SELECT o.status, COUNT(*) AS runs, MIN(o.started_at) AS started_at,
                MIN(o.updated_at) AS updated_at,
                COUNT(CASE WHEN o.lacks = 1 THEN 1 END) AS lacking,
                MIN(CASE WHEN o.lacks = 1 THEN o.updated_at END) AS lacking_since
             FROM (SELECT r.status, r.started_at, r.updated_at, CASE
                    WHEN r.status NOT IN ('pending', 'running')
                        AND COALESCE(r.wait_reason, '') <> 'timer'
                        AND r.inbox_seq <= r.inbox_drained THEN 0
                    WHEN EXISTS (SELECT 1 FROM workflow_tasks t WHERE t.task_id = ",
            $turn,
            ") THEN 0 ELSE 1 END AS lacks
                FROM n ",
            $runs,
            " ON r.namespace = n.namespace AND r.closed_at IS NULL
                WHERE ",
            $scope,
            " LIMIT 100000) o
             GROUP BY o.status ORDER BY o.status"
        )
    };
}
pub(in super::super) use survey_of_open;

/// Counts closed runs by the reason.
macro_rules! survey_of_closed {
    ($runs:literal, $scope:literal) => {
        concat!(
            survey_namespaces!(),
            "SELECT c.reason, COUNT(*) AS runs
             FROM (SELECT COALESCE(r.closed_reason, '') AS reason FROM n ",
            $runs,
            " ON r.namespace = n.namespace AND r.closed_at IS NOT NULL
                WHERE ",
            $scope,
            " LIMIT 100000) c
             GROUP BY c.reason ORDER BY c.reason"
        )
    };
}
pub(in super::super) use survey_of_closed;

/// Counts what was closed since `$since`, by the reason.
macro_rules! survey_of_ends {
    ($runs:literal, $since:literal, $scope:literal) => {
        concat!(
            survey_namespaces!(),
            "SELECT COALESCE(r.closed_reason, '') AS reason, COUNT(*) AS runs FROM n ",
            $runs,
            " ON r.namespace = n.namespace AND r.closed_at > ",
            $since,
            " WHERE ",
            $scope,
            " GROUP BY COALESCE(r.closed_reason, '') ORDER BY 1"
        )
    };
}
pub(in super::super) use survey_of_ends;

/// Counts what was started since `$since`.
macro_rules! survey_of_starts {
    ($runs:literal, $since:literal, $scope:literal) => {
        concat!(
            survey_namespaces!(),
            "SELECT COUNT(*) AS runs FROM n ",
            $runs,
            " ON r.namespace = n.namespace AND r.started_at > ",
            $since,
            " WHERE ",
            $scope
        )
    };
}
pub(in super::super) use survey_of_starts;

/// Counts runs whose history was handed over.
macro_rules! survey_of_archives {
    ($scope:literal) => {
        concat!(
            "SELECT COUNT(*) AS runs FROM (SELECT 1 AS one FROM workflow_archives n WHERE ",
            $scope,
            " LIMIT 100000) a"
        )
    };
}
pub(in super::super) use survey_of_archives;

/// The processes that count as alive.
macro_rules! survey_of_nodes {
    ($now:literal, $scope:literal, $limit:literal) => {
        concat!(
            "SELECT instance_id, node_name, build_id, pid, status, started_at, heartbeat_at,
                expires_at, figures
             FROM engine_instances n
             WHERE status IN ('live', 'draining') AND expires_at > ",
            $now,
            " AND (namespace IS NULL OR ",
            $scope,
            ") ORDER BY started_at, instance_id LIMIT ",
            $limit
        )
    };
}
pub(in super::super) use survey_of_nodes;

/// A minute.
pub(in super::super) const MINUTE_US: i64 = 60_000_000;

#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct StandingRow {
    status: String,
    runs: i64,
    started_at: i64,
    updated_at: i64,
    lacking: i64,
    lacking_since: Option<i64>,
}

#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct NodeRow {
    instance_id: String,
    node_name: String,
    build_id: Option<String>,
    pid: i64,
    status: String,
    started_at: i64,
    heartbeat_at: i64,
    expires_at: i64,
    figures: Option<String>,
}

/// What was read of a database.
pub(in super::super) struct SurveyRows {
    pub(in super::super) now: i64,
    pub(in super::super) open: Vec<StandingRow>,
    pub(in super::super) closed: Vec<(String, i64)>,
    pub(in super::super) archived: i64,
    pub(in super::super) starts: i64,
    pub(in super::super) ends: Vec<(String, i64)>,
    pub(in super::super) nodes: Vec<NodeRow>,
}

impl SurveyRows {
    pub(in super::super) fn survey(self) -> Result<Survey> {
        let mut lacking = Tally::default();
        let mut open = Vec::new();
        for row in self.open {
            lacking = lacking.and(Tally {
                count: unsigned(row.lacking)?,
                since: row.lacking_since.map(Timestamp::from_micros),
            });
            open.push(Standing {
                status: RunStatus::from_word(&row.status).ok_or_else(|| {
                    Error::corrupt(format!(
                        "counting runs: the status of one is {}",
                        row.status
                    ))
                })?,
                runs: unsigned(row.runs)?,
                started_at: Timestamp::from_micros(row.started_at),
                unchanged_since: Timestamp::from_micros(row.updated_at),
            });
        }
        Ok(Survey {
            now: Timestamp::from_micros(self.now),
            open,
            lacking,
            closed: counts(self.closed)?,
            archived: unsigned(self.archived)?,
            started_last_minute: unsigned(self.starts)?,
            closed_last_minute: counts(self.ends)?,
            nodes: self
                .nodes
                .into_iter()
                .map(NodeRow::node)
                .collect::<Result<_>>()?,
        })
    }
}

fn counts(rows: Vec<(String, i64)>) -> Result<Vec<(String, u64)>> {
    let counts = rows.into_iter();
    let counts = counts.map(|(reason, runs)| Ok((reason, unsigned(runs)?)));
    counts.collect()
}

impl NodeRow {
    fn node(self) -> Result<NodeRecord> {
        Ok(NodeRecord {
            incarnation: Incarnation {
                id: read(self.instance_id, "owner id")?,
                node: self.node_name,
                build: some(self.build_id, "build id")?,
                pid: unsigned(self.pid)?,
            },
            is_draining: self.status == "draining",
            started_at: Timestamp::from_micros(self.started_at),
            heartbeat_at: Timestamp::from_micros(self.heartbeat_at),
            expires_at: Timestamp::from_micros(self.expires_at),
            figures: self.figures,
        })
    }
}
