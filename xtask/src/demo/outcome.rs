//! The end of a run: its table, its JSON and its verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Failure, Result};

use super::input::Input;
use super::said::{Event, Finding, Verdict};
use super::tally::{Kill, Tally};

/// The end of a run: what the nodes said, held against what the database holds.
pub(crate) struct Outcome<'run> {
    tally: &'run Tally,
    took: Duration,
    database: String,
    /// Whether the nodes had Redis.
    has_redis: bool,
    recorded: BTreeMap<String, Verdict>,
    /// Without a verdict in the database.
    lost: Vec<String>,
    /// With more than one result in its history, or a verdict that a node was told otherwise.
    torn: Vec<String>,
}

impl<'run> Outcome<'run> {
    pub(crate) fn of(
        tally: &'run Tally,
        input: &Input,
        events: Vec<Event>,
        database: String,
        has_redis: bool,
    ) -> Self {
        let took = tally.started.elapsed();
        let (mut recorded, mut torn) = (BTreeMap::new(), BTreeSet::new());
        for event in events {
            let Event::Recorded {
                record,
                results,
                verdict: Some(verdict),
            } = event
            else {
                continue;
            };
            let told = tally.verdicts.get(&record);
            if results > 1 || told.is_some_and(|told| *told != verdict) {
                torn.insert(record.clone());
            }
            if recorded.insert(record.clone(), verdict).is_some() {
                torn.insert(record);
            }
        }
        let is_lost = |record: &&String| !recorded.contains_key(*record);
        Self {
            took,
            lost: input.records.iter().filter(is_lost).cloned().collect(),
            torn: torn.into_iter().collect(),
            tally,
            database,
            has_redis,
            recorded,
        }
    }

    fn named(&self, finding: Finding) -> Vec<String> {
        let found = self.recorded.iter();
        let found = found.filter(|(_, verdict)| verdict.finding == finding);
        found
            .map(|(record, verdict)| match finding {
                Finding::Unreadable => format!("{record}: {}", verdict.found),
                _ => record.clone(),
            })
            .collect()
    }

    fn count(&self, finding: Finding) -> usize {
        self.named(finding).len()
    }

    pub(crate) fn table(&self) -> String {
        let tally = self.tally;
        let living: BTreeMap<_, _> = tally.living_known().collect();
        let mut rows: Vec<(&str, String)> = vec![
            ("archives", tally.expected.to_string()),
            ("  intact", self.count(Finding::Intact).to_string()),
            ("  mismatch", self.count(Finding::Mismatch).to_string()),
            ("  unlisted", self.count(Finding::Unlisted).to_string()),
            ("  unreadable", self.count(Finding::Unreadable).to_string()),
            ("lost", self.lost.len().to_string()),
            ("recorded", self.recorded()),
            ("ticks by node", per_node(&tally.ticks)),
            ("started", tally.added.to_string()),
            ("duplicates suppressed", self.duplicates()),
            ("read by node", per_node(&tally.read)),
            ("lock file read", self.lock_file()),
        ];
        if self.has_redis {
            rows.push(("waited for the limit", tally.waited.to_string()));
        }
        rows.push(("verdicts known by node", per_node(&living)));
        if let Some(kill) = &tally.kill {
            rows.extend(recovery(kill));
        }
        rows.push(("took", format!("{:.1} s", self.took.as_secs_f64())));
        let mut text = String::new();
        for (name, value) in rows {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {name:<24}{value}");
        }
        for (title, records) in [
            ("mismatch", self.named(Finding::Mismatch)),
            ("unreadable", self.named(Finding::Unreadable)),
            ("unlisted", self.named(Finding::Unlisted)),
            ("lost", self.lost.clone()),
            ("torn", self.torn.clone()),
        ] {
            for record in records {
                let _ = write!(text, "\n  {title}: {record}");
            }
        }
        text
    }

    fn recorded(&self) -> String {
        let count = self.recorded.len();
        let how = if self.torn.is_empty() {
            "each once"
        } else {
            "NOT EACH ONCE"
        };
        format!("{count} verdicts, {how}, in {}", self.database)
    }

    /// What was enqueued or started again, and who noticed.
    fn duplicates(&self) -> String {
        let Tally {
            duplicates,
            existing,
            ..
        } = self.tally;
        if self.has_redis {
            format!("{duplicates} by the queue, {existing} by the engine")
        } else {
            format!("{duplicates} by the engine")
        }
    }

    /// How often the lock file was read: once a group, by one node for all where they share a
    /// cache.
    fn lock_file(&self) -> String {
        let times: usize = self.tally.loaded.values().sum();
        format!("{times} times for {} groups", self.tally.groups.len())
    }

    pub(crate) fn json(&self) -> Value {
        let tally = self.tally;
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        json!({
            "archives": tally.expected,
            "intact": self.count(Finding::Intact),
            "mismatch": self.named(Finding::Mismatch),
            "unlisted": self.named(Finding::Unlisted),
            "unreadable": self.named(Finding::Unreadable),
            "lost": self.lost,
            "recorded": self.recorded.len(),
            "recorded_more_than_once": self.torn,
            "database": self.database,
            "redis": self.has_redis,
            "ticks_by_node": tally.ticks,
            "started": tally.added,
            "duplicates_suppressed": tally.duplicates + tally.existing,
            "read_by_node": tally.read,
            "lock_file_read": tally.loaded,
            "waited_for_the_limit": tally.waited,
            "verdicts_known_by_node": tally.living_known().collect::<BTreeMap<_, _>>(),
            "killed": tally.kill.as_ref().map(|kill| json!({
                "node": kill.node,
                "records_in_hands": kill.in_hands,
                "recovered": kill.recovered.len(),
                "first_begun_again_seconds": seconds(kill.first),
                "last_verdict_seconds": seconds(kill.last),
            })),
            "seconds": self.took.as_secs_f64(),
        })
    }

    /// # Errors
    /// `Red` when an archive is not as recorded, a record was lost, or a verdict was not recorded
    /// once.
    pub(crate) fn verdict(&self) -> Result<()> {
        if !self.lost.is_empty() {
            return Err(Failure::Red(format!(
                "{} records were lost",
                self.lost.len()
            )));
        }
        if !self.torn.is_empty() {
            return Err(Failure::Red(format!(
                "{} records have more than one verdict",
                self.torn.len()
            )));
        }
        let bad = self.count(Finding::Mismatch) + self.count(Finding::Unreadable);
        if bad > 0 {
            let are = if bad == 1 {
                "archive is"
            } else {
                "archives are"
            };
            return Err(Failure::Red(format!(
                "{bad} {are} not what the lock file records: named above"
            )));
        }
        Ok(())
    }
}

/// What became of the work of the killed node.
fn recovery(kill: &Kill) -> Vec<(&'static str, String)> {
    let mut rows = vec![(
        "killed",
        format!(
            "node {}, with {} in its hands",
            kill.node,
            records(kill.in_hands)
        ),
    )];
    let later = |time: Duration| format!("{:.1} s later", time.as_secs_f64());
    if let Some(first) = kill.first {
        let count = kill.recovered.len();
        let begun = format!("{count} by others, the first {}", later(first));
        rows.push(("  work recovered", begun));
    }
    if let Some(last) = kill.last {
        rows.push(("  all of it done", later(last)));
    }
    rows
}

/// So many records, in words.
pub(super) fn records(count: usize) -> String {
    match count {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    }
}

fn per_node(counts: &BTreeMap<u8, usize>) -> String {
    let texts: Vec<_> = counts
        .iter()
        .map(|(node, count)| format!("{node}: {count}"))
        .collect();
    texts.join(", ")
}
