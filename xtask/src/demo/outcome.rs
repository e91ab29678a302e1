//! The end of a run: its table, its JSON and its verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::error::{Failure, Result};

use super::input::Input;
use super::nodes::Verdict;
use super::tally::Tally;

/// The shared report, as it was found on disk.
struct Written {
    records: BTreeSet<String>,
    nodes: BTreeSet<u8>,
    /// Whether the fencing tokens only ever grew, so that no late holder of the lock wrote.
    in_order: bool,
}

#[derive(Deserialize)]
struct Line {
    node: u8,
    fence: u64,
    record: String,
}

impl Written {
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|cause| Failure::file("read", path, &cause))?;
        let mut written = Self {
            records: BTreeSet::new(),
            nodes: BTreeSet::new(),
            in_order: true,
        };
        let mut last = 0;
        for line in text.lines() {
            let line: Line = serde_json::from_str(line).map_err(|cause| {
                Failure::Red(format!("a line of {} is torn: {cause}", path.display()))
            })?;
            written.in_order &= line.fence >= last;
            last = line.fence;
            written.nodes.insert(line.node);
            written.records.insert(line.record);
        }
        Ok(written)
    }
}

/// The end of a run.
pub(crate) struct Outcome {
    tally: Tally,
    took: Duration,
    lost: Vec<String>,
    written: Written,
}

impl Outcome {
    fn count(&self, verdict: Verdict) -> usize {
        self.tally
            .verdicts
            .values()
            .filter(|(found, _)| *found == verdict)
            .count()
    }

    fn named(&self, verdict: Verdict) -> Vec<&str> {
        self.tally
            .verdicts
            .iter()
            .filter(|(_, (found, _))| *found == verdict)
            .map(|(record, _)| record.as_str())
            .collect()
    }

    /// # Errors
    /// `Red` if the report cannot be what the nodes wrote.
    pub(crate) fn of(tally: Tally, input: &Input, folder: &Path) -> Result<Self> {
        let written = Written::read(&folder.join("report.jsonl"))?;
        let is_lost = |record: &&String| {
            !tally.verdicts.contains_key(*record) || !written.records.contains(*record)
        };
        let lost = input.records.iter().filter(is_lost).cloned().collect();
        Ok(Self {
            took: tally.started.elapsed(),
            tally,
            lost,
            written,
        })
    }

    pub(crate) fn table(&self) -> String {
        let mut rows: Vec<(&str, String)> = vec![
            ("archives", self.tally.expected.to_string()),
            ("  intact", self.count(Verdict::Intact).to_string()),
            ("  mismatch", self.count(Verdict::Mismatch).to_string()),
            ("  unlisted", self.count(Verdict::Unlisted).to_string()),
            ("  unreadable", self.count(Verdict::Unreadable).to_string()),
            ("lost", self.lost.len().to_string()),
            ("ticks by node", per_node(&self.tally.ticks)),
            ("groups ticked", self.tally.groups.len().to_string()),
            ("enqueued", self.tally.added.to_string()),
            ("duplicates suppressed", self.tally.duplicates.to_string()),
            ("lock file read", self.lock_file()),
            ("waited for the limit", self.tally.waited.to_string()),
            ("checked by node", per_node(&self.tally.checked)),
            ("checked again", self.tally.again.to_string()),
            (
                "report",
                format!(
                    "{} nodes wrote under one lock, fencing tokens {}",
                    self.written.nodes.len(),
                    if self.written.in_order {
                        "in order"
                    } else {
                        "OUT OF ORDER"
                    }
                ),
            ),
        ];
        let known: BTreeMap<_, _> = self.tally.living_known().map(|(n, k)| (*n, *k)).collect();
        rows.push(("verdicts known by node", per_node(&known)));
        if let Some(kill) = &self.tally.kill {
            let after = |time: Option<Duration>| {
                time.map_or_else(
                    || "-".to_owned(),
                    |time| format!("{:.1} s", time.as_secs_f64()),
                )
            };
            rows.push((
                "killed",
                format!(
                    "node {}, with {} records in its hands",
                    kill.node,
                    kill.recovered + kill.left.len()
                ),
            ));
            rows.push((
                "  its lease ended",
                format!("{} later", after(kill.noticed)),
            ));
            rows.push((
                "  its work done",
                format!(
                    "{} records by others, {} to {} later",
                    kill.recovered,
                    after(kill.first),
                    after(kill.last)
                ),
            ));
        }
        rows.push(("took", format!("{:.1} s", self.took.as_secs_f64())));
        let mut text = String::new();
        for (name, value) in rows {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {name:<24}{value}");
        }
        for (title, records) in [
            ("mismatch", self.named(Verdict::Mismatch)),
            ("unreadable", self.named(Verdict::Unreadable)),
            ("unlisted", self.named(Verdict::Unlisted)),
            ("lost", self.lost.iter().map(String::as_str).collect()),
        ] {
            for record in records {
                let _ = write!(text, "\n  {title}: {record}");
            }
        }
        text
    }

    /// How often the lock file was read: once a group, by one node for all of them.
    fn lock_file(&self) -> String {
        let times: usize = self.tally.loaded.values().sum();
        format!("{times} times for {} groups", self.tally.groups.len())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        json!({
            "archives": self.tally.expected,
            "intact": self.count(Verdict::Intact),
            "mismatch": self.named(Verdict::Mismatch),
            "unlisted": self.named(Verdict::Unlisted),
            "unreadable": self.named(Verdict::Unreadable),
            "lost": self.lost,
            "ticks_by_node": self.tally.ticks,
            "checked_by_node": self.tally.checked,
            "lock_file_read": self.tally.loaded,
            "waited_for_the_limit": self.tally.waited,
            "verdicts_known_by_node": self.tally.known,
            "enqueued": self.tally.added,
            "duplicates_suppressed": self.tally.duplicates,
            "checked_again": self.tally.again,
            "report_in_order": self.written.in_order,
            "killed": self.tally.kill.as_ref().map(|kill| json!({
                "node": kill.node,
                "records_in_hands": kill.recovered + kill.left.len(),
                "recovered": kill.recovered,
                "first_recovered_seconds": seconds(kill.first),
                "last_recovered_seconds": seconds(kill.last),
                "lease_ended_seconds": seconds(kill.noticed),
            })),
            "seconds": self.took.as_secs_f64(),
        })
    }

    /// # Errors
    /// `Red` when an archive is not as recorded, a record was lost, or the lock let a late writer
    /// through.
    pub(crate) fn verdict(&self) -> Result<()> {
        let bad = self.count(Verdict::Mismatch) + self.count(Verdict::Unreadable);
        if !self.lost.is_empty() {
            return Err(Failure::Red(format!(
                "{} records were lost",
                self.lost.len()
            )));
        }
        if !self.written.in_order {
            return Err(Failure::Red(
                "the report was written by a late holder of its lock".into(),
            ));
        }
        if bad > 0 {
            return Err(Failure::Red(format!(
                "{bad} archives are not what the lock file records"
            )));
        }
        Ok(())
    }
}

fn per_node(counts: &BTreeMap<u8, usize>) -> String {
    let texts: Vec<_> = counts
        .iter()
        .map(|(node, count)| format!("{node}: {count}"))
        .collect();
    texts.join(", ")
}
