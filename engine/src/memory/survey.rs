//! Where runs stand and who works.

use std::collections::BTreeMap;
use std::time::Duration;

use super::claim::is_within;
use super::tables::{RunRow, Tables};
use crate::model::{Namespace, Timestamp};
use crate::store::{NodeRecord, Standing, Survey, Tally};

const MINUTE: Duration = Duration::from_mins(1);

impl Tables {
    pub(super) fn survey(&self, scope: Option<&Namespace>) -> Survey {
        let mut survey = Survey {
            now: self.now,
            open: Vec::new(),
            lacking: Tally::default(),
            closed: Vec::new(),
            archived: 0,
            started_last_minute: 0,
            closed_last_minute: Vec::new(),
            nodes: self.nodes(scope),
        };
        let (mut closed, mut ends) = (BTreeMap::new(), BTreeMap::new());
        let rows = self.runs.values();
        for row in rows.filter(|row| is_within(&row.run.namespace, scope)) {
            let is_recent = |at: Timestamp| self.now.since(at) < MINUTE;
            survey.started_last_minute += u64::from(is_recent(row.run.started_at));
            survey.archived += u64::from(self.archives.contains_key(&row.run.run));
            let Some((at, how)) = row.run.closed_at.zip(row.run.closed.as_ref()) else {
                self.note_open(&mut survey, row);
                continue;
            };
            *closed.entry(how.reason().to_owned()).or_default() += 1;
            if is_recent(at) {
                *ends.entry(how.reason().to_owned()).or_default() += 1;
            }
        }
        survey.closed.extend(closed);
        survey.closed_last_minute.extend(ends);
        survey.open.sort_by_key(|standing| standing.status.as_str());
        survey
    }

    fn note_open(&self, survey: &mut Survey, row: &RunRow) {
        if self.lacks_task(row) {
            let lacks = super::census::one(row.updated_at);
            survey.lacking = survey.lacking.and(lacks);
        }
        let is_same = |standing: &&mut Standing| standing.status == row.run.status;
        if let Some(standing) = survey.open.iter_mut().find(is_same) {
            standing.runs += 1;
            standing.started_at = standing.started_at.min(row.run.started_at);
            standing.unchanged_since = standing.unchanged_since.min(row.updated_at);
            return;
        }
        survey.open.push(Standing {
            status: row.run.status,
            runs: 1,
            started_at: row.run.started_at,
            unchanged_since: row.updated_at,
        });
    }

    fn nodes(&self, scope: Option<&Namespace>) -> Vec<NodeRecord> {
        let members = self.fleet.iter().filter(|(_, member)| {
            let of = member.scope.as_ref();
            member.is_live
                && member.expires_at > self.now
                && of.is_none_or(|of| is_within(of, scope))
        });
        let nodes = members.map(|(id, member)| NodeRecord {
            incarnation: member.incarnation(id),
            is_draining: member.is_draining,
            started_at: member.began_at,
            heartbeat_at: member.beat_at,
            expires_at: member.expires_at,
            figures: member.figures.clone(),
        });
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_by(|one, other| {
            let key = |node: &NodeRecord| (node.started_at, node.incarnation.id.clone());
            key(one).cmp(&key(other))
        });
        nodes
    }
}
