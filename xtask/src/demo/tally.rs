//! What happened in a run, counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::nodes::{Event, Verdict};

/// What the nodes have said so far.
pub(crate) struct Tally {
    pub(super) expected: usize,
    pub(super) started: Instant,
    pub(super) verdicts: BTreeMap<String, (Verdict, Option<String>)>,
    /// By node, from 1.
    pub(super) ticks: BTreeMap<u8, usize>,
    pub(super) checked: BTreeMap<u8, usize>,
    pub(super) groups: BTreeSet<String>,
    pub(super) taken: BTreeMap<String, u8>,
    /// How often the lock file was read, by group.
    pub(super) loaded: BTreeMap<String, usize>,
    /// How many records had to wait for their turn.
    pub(super) waited: usize,
    /// How many verdicts each node knows.
    pub(super) known: BTreeMap<u8, usize>,
    pub(super) again: usize,
    pub(super) added: usize,
    pub(super) duplicates: usize,
    pub(super) kill: Option<Kill>,
}

/// The node that was killed, and what it left behind.
pub(super) struct Kill {
    pub(super) node: u8,
    pub(super) at: Instant,
    pub(super) left: BTreeSet<String>,
    pub(super) recovered: usize,
    pub(super) first: Option<Duration>,
    pub(super) last: Option<Duration>,
    pub(super) noticed: Option<Duration>,
}

impl Tally {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            expected,
            started: Instant::now(),
            verdicts: BTreeMap::new(),
            ticks: BTreeMap::new(),
            checked: BTreeMap::new(),
            groups: BTreeSet::new(),
            taken: BTreeMap::new(),
            loaded: BTreeMap::new(),
            waited: 0,
            known: BTreeMap::new(),
            again: 0,
            added: 0,
            duplicates: 0,
            kill: None,
        }
    }

    /// Every record has a verdict that every node knows, a second tick has shown that nothing is
    /// enqueued twice, and a killed node's lease was seen to end.
    pub(crate) fn is_complete(&self, kills: bool) -> bool {
        self.done() >= self.expected
            && self.all_know()
            && self.duplicates >= self.expected
            && (!kills
                || self
                    .kill
                    .as_ref()
                    .is_some_and(|kill| kill.noticed.is_some()))
    }

    /// Whether every node that lives knows every verdict.
    fn all_know(&self) -> bool {
        let mut living = self.living_known();
        living.all(|(_, known)| *known >= self.expected)
    }

    /// How many verdicts each node knows that was not killed.
    pub(super) fn living_known(&self) -> impl Iterator<Item = (&u8, &usize)> {
        let killed = self.killed();
        self.known
            .iter()
            .filter(move |(node, _)| Some(**node) != killed)
    }

    pub(crate) fn done(&self) -> usize {
        self.verdicts.len()
    }

    pub(crate) fn killed(&self) -> Option<u8> {
        self.kill.as_ref().map(|kill| kill.node)
    }

    pub(crate) fn ticks(&self) -> &BTreeMap<u8, usize> {
        &self.ticks
    }

    pub(crate) fn checked(&self) -> &BTreeMap<u8, usize> {
        &self.checked
    }

    /// How many records a node has begun with and not finished.
    pub(crate) fn in_hands(&self, node: u8) -> usize {
        self.taken
            .values()
            .filter(|holder| **holder == node)
            .count()
    }

    /// Whether every record is done or in some node's hands.
    pub(crate) fn all_taken(&self) -> bool {
        let open = self
            .taken
            .keys()
            .filter(|record| !self.verdicts.contains_key(*record));
        self.done() + open.count() >= self.expected
    }

    /// The node with the most records in its hands.
    pub(crate) fn busiest(&self) -> Option<u8> {
        let nodes = self.taken.values().copied();
        nodes.max_by_key(|node| self.in_hands(*node))
    }

    pub(crate) fn note(&mut self, node: u8, event: &Event, now: Instant) {
        match event {
            Event::Ticked { group } => {
                *self.ticks.entry(node).or_default() += 1;
                self.groups.insert(group.clone());
            }
            Event::Scanned { added, duplicates } => {
                self.added += added;
                self.duplicates += duplicates;
            }
            Event::Taken { record } => {
                self.taken.insert(record.clone(), node);
            }
            Event::Checked {
                record,
                verdict,
                attempt,
                found,
            } => {
                self.taken.remove(record);
                *self.checked.entry(node).or_default() += 1;
                self.again += usize::from(*attempt > 1);
                self.verdicts
                    .insert(record.clone(), (*verdict, found.clone()));
                if let Some(kill) = &mut self.kill
                    && kill.left.remove(record)
                {
                    let after = now.duration_since(kill.at);
                    kill.recovered += 1;
                    kill.first.get_or_insert(after);
                    kill.last = Some(after);
                }
            }
            Event::Loaded { group } => *self.loaded.entry(group.clone()).or_default() += 1,
            Event::Waited => self.waited += 1,
            Event::Known { verdicts } => _ = self.known.insert(node, *verdicts),
            Event::Gone { node: gone } => {
                if let Some(kill) = &mut self.kill
                    && kill.node == *gone
                {
                    kill.noticed.get_or_insert(now.duration_since(kill.at));
                }
            }
            Event::Up | Event::Down | Event::Failed { .. } => {}
        }
    }

    pub(crate) fn note_kill(&mut self, node: u8, now: Instant) {
        let of_node = |(record, holder): (&String, &u8)| (*holder == node).then(|| record.clone());
        let left = self.taken.iter().filter_map(of_node).collect();
        self.kill = Some(Kill {
            node,
            at: now,
            left,
            recovered: 0,
            first: None,
            last: None,
            noticed: None,
        });
    }
}
