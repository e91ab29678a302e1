//! What happened in a run, counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::said::{Event, Said, Verdict};

/// What the nodes have said so far.
pub(crate) struct Tally {
    pub(super) expected: usize,
    pub(super) started: Instant,
    pub(super) verdicts: BTreeMap<String, Verdict>,
    /// By node, from 1.
    pub(super) ticks: BTreeMap<u8, usize>,
    /// Archives that each node has read.
    pub(super) read: BTreeMap<u8, usize>,
    pub(super) groups: BTreeSet<String>,
    /// Archives that a node reads now.
    taken: BTreeMap<String, u8>,
    /// How often the lock file was read, by group.
    pub(super) loaded: BTreeMap<String, usize>,
    /// How many records had to wait for their turn.
    pub(super) waited: usize,
    /// How many verdicts each node knows.
    pub(super) known: BTreeMap<u8, usize>,
    pub(super) added: usize,
    pub(super) duplicates: usize,
    pub(super) existing: usize,
    pub(super) kill: Option<Kill>,
    /// Where each node serves the control plane.
    serving: BTreeMap<u8, String>,
    up: BTreeSet<u8>,
    ended: BTreeSet<u8>,
}

/// The node that was killed, and what it left behind.
pub(super) struct Kill {
    pub(super) node: u8,
    pub(super) at: Instant,
    /// How many records were in its hands.
    pub(super) in_hands: usize,
    /// Those of them that have no verdict yet.
    pub(super) left: BTreeSet<String>,
    /// Those of them that another node has begun again.
    pub(super) recovered: BTreeSet<String>,
    /// When the first of it was begun again, counted from the kill.
    pub(super) first: Option<Duration>,
    /// When the last of it had its verdict.
    pub(super) last: Option<Duration>,
}

impl Tally {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            expected,
            started: Instant::now(),
            verdicts: BTreeMap::new(),
            ticks: BTreeMap::new(),
            read: BTreeMap::new(),
            groups: BTreeSet::new(),
            taken: BTreeMap::new(),
            loaded: BTreeMap::new(),
            waited: 0,
            known: BTreeMap::new(),
            added: 0,
            duplicates: 0,
            existing: 0,
            kill: None,
            serving: BTreeMap::new(),
            up: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    /// Every record has a verdict that every living node knows, and a second tick has shown that
    /// nothing is started twice.
    pub(crate) fn is_complete(&self) -> bool {
        let mut living = self.living_known();
        self.done() >= self.expected
            && living.all(|(_, known)| known >= self.expected)
            && self.duplicates >= self.expected
    }

    /// How many verdicts each node knows that was not killed.
    pub(super) fn living_known(&self) -> impl Iterator<Item = (u8, usize)> {
        let living = self.up.iter().filter(|node| Some(**node) != self.killed());
        living.map(|node| (*node, self.known.get(node).copied().unwrap_or(0)))
    }

    pub(crate) fn knows(&self, record: &str) -> bool {
        self.verdicts.contains_key(record)
    }

    pub(crate) fn done(&self) -> usize {
        self.verdicts.len()
    }

    pub(crate) fn killed(&self) -> Option<u8> {
        self.kill.as_ref().map(|kill| kill.node)
    }

    /// Whether the node has taken part.
    pub(crate) fn was_up(&self, node: u8) -> bool {
        self.up.contains(&node)
    }

    /// Whether all that the node ever said is noted.
    pub(crate) fn has_ended(&self, node: u8) -> bool {
        self.ended.contains(&node)
    }

    /// Where the living nodes serve the control plane.
    pub(super) fn living_serving(&self) -> impl Iterator<Item = (u8, &str)> {
        let living = self.serving.iter();
        let living = living.filter(|(node, _)| Some(**node) != self.killed());
        living.map(|(node, address)| (*node, address.as_str()))
    }

    pub(crate) fn ticks(&self) -> &BTreeMap<u8, usize> {
        &self.ticks
    }

    pub(crate) fn read(&self) -> &BTreeMap<u8, usize> {
        &self.read
    }

    /// How many archives a node reads now.
    pub(crate) fn in_hands(&self, node: u8) -> usize {
        let of_node = |holder: &&u8| **holder == node;
        self.taken.values().filter(of_node).count()
    }

    /// The node with the most records in its hands.
    pub(crate) fn busiest(&self) -> Option<u8> {
        let nodes = self.up.iter().copied();
        nodes.max_by_key(|node| (self.in_hands(*node), self.read.get(node)))
    }

    pub(crate) fn note(&mut self, Said { node, event }: &Said, now: Instant) {
        let node = *node;
        match event {
            Event::Up => _ = self.up.insert(node),
            Event::Serving { address } => _ = self.serving.insert(node, address.clone()),
            Event::Ticked { group } => {
                *self.ticks.entry(node).or_default() += 1;
                self.groups.insert(group.clone());
            }
            Event::Scanned { added, duplicates } => {
                self.added += added;
                self.duplicates += duplicates;
            }
            Event::Existing => self.existing += 1,
            Event::Taken { record } => {
                self.taken.insert(record.clone(), node);
                if let Some(kill) = &mut self.kill
                    && kill.left.contains(record)
                {
                    kill.recovered.insert(record.clone());
                    kill.first.get_or_insert(now.duration_since(kill.at));
                }
            }
            Event::Hashed { record } => {
                self.taken.remove(record);
                *self.read.entry(node).or_default() += 1;
            }
            Event::Known { record, verdict } => {
                *self.known.entry(node).or_default() += 1;
                // One that nobody could read has no end of its reading.
                self.taken.remove(record);
                if let Some(kill) = &mut self.kill
                    && kill.left.remove(record)
                {
                    kill.last = Some(now.duration_since(kill.at));
                }
                let verdict = verdict.clone();
                self.verdicts.entry(record.clone()).or_insert(verdict);
            }
            Event::Loaded { group } => *self.loaded.entry(group.clone()).or_default() += 1,
            Event::Waited => self.waited += 1,
            Event::Ended => _ = self.ended.insert(node),
            Event::Down | Event::Failed { .. } | Event::Recorded { .. } => {}
        }
    }

    /// Notes that `node` was killed, after all that it said.
    pub(crate) fn note_kill(&mut self, node: u8, now: Instant) {
        let of_node = |(record, holder): (&String, &u8)| (*holder == node).then(|| record.clone());
        let left: BTreeSet<_> = self.taken.iter().filter_map(of_node).collect();
        self.kill = Some(Kill {
            node,
            at: now,
            in_hands: left.len(),
            left,
            recovered: BTreeSet::new(),
            first: None,
            last: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::said::Finding;
    use super::*;

    fn note(tally: &mut Tally, node: u8, event: Event) {
        tally.note(
            &Said { node, event },
            tally.started + Duration::from_secs(1),
        );
    }

    fn taken(record: &str) -> Event {
        Event::Taken {
            record: record.into(),
        }
    }

    fn hashed(record: &str) -> Event {
        Event::Hashed {
            record: record.into(),
        }
    }

    fn known(record: &str) -> Event {
        Event::Known {
            record: record.into(),
            verdict: Verdict {
                finding: Finding::Intact,
                by: 1,
                found: "ab".into(),
            },
        }
    }

    #[test]
    fn only_what_a_killed_node_had_not_read_is_recovered() {
        let mut tally = Tally::new(2);
        for event in [Event::Up, taken("a"), taken("b"), hashed("a")] {
            note(&mut tally, 1, event);
        }
        let at = tally.started;
        tally.note_kill(1, at);

        for event in [Event::Up, known("a"), taken("b"), hashed("b"), known("b")] {
            note(&mut tally, 2, event);
        }

        let kill = tally.kill.as_ref().expect("noted");
        assert_eq!(kill.recovered, BTreeSet::from(["b".to_owned()]));
        assert_eq!(kill.last, Some(Duration::from_secs(1)));
        assert!(kill.left.is_empty());
    }

    #[test]
    fn a_run_is_complete_when_every_living_node_knows_all_and_a_second_tick_started_nothing() {
        let mut tally = Tally::new(1);
        note(&mut tally, 1, Event::Up);
        note(&mut tally, 2, Event::Up);
        note(&mut tally, 1, known("a"));
        let second_tick = Event::Scanned {
            added: 0,
            duplicates: 1,
        };
        note(&mut tally, 1, second_tick);
        assert!(!tally.is_complete(), "node 2 does not know it");

        let at = tally.started;
        tally.note_kill(2, at);

        assert!(tally.is_complete());
    }
}
