//! Shares of a queue: which due tasks a claim takes when they count against different keys.
//!
//! A share is what is ready under one key in one priority. What it was served stands in the
//! database, so that the order holds over all who claim, and over their restarts: the share that
//! was served least for its weight comes first (stride scheduling, Waldspurger and Weihl 1995). A
//! share that had nothing to do meanwhile does not save its turns up beyond a bound.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use super::Claim;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use super::rows::TaskRow;
use crate::committer::locked;
use crate::model::{Namespace, Queue, TaskKind};

/// What a task of weight 1 costs its share, so that one of the largest weight costs a thousandth.
const COST: i64 = 1_000_000;
/// How far a share may be behind the one that was served most: as much as one claim takes, so that
/// claims at the same time take nobody's turns away.
const CREDIT: i64 = 100 * COST;
/// How many shares a claim compares. Where there are more, each claim goes on where the one before
/// it ended: a bound on what it reads.
pub(crate) const COMPARED: i64 = 128;

/// Some of one kind of tasks.
pub(crate) type OfKind<T> = (TaskKind, Vec<T>);
/// Some of each kind that a claim wants.
pub(crate) type OfKinds<T> = Vec<OfKind<T>>;

/// A share that has ready tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    any(feature = "postgres", feature = "mysql", feature = "sqlite"),
    derive(sqlx::FromRow)
)]
pub(crate) struct Share {
    /// Empty for the one of all tasks without a key.
    pub(crate) fairness_key: String,
    pub(crate) priority: i16,
    /// When the first of its tasks is due, or was.
    pub(crate) due: i64,
    /// `None` when nothing of it was claimed for long.
    pub(crate) fairness_weight: Option<i16>,
    pub(crate) served: Option<i64>,
}

/// What a claim takes of a share: at most so many tasks, behind the first ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Portion {
    pub(crate) fairness_key: String,
    pub(crate) priority: i16,
    pub(crate) most: i64,
    pub(crate) beyond: i64,
}

/// What a claim of `limit` tasks takes, in this order, until it has them.
///
/// First those of the best priority by turns. What these do not have is made up from the others, so
/// that a claim is as large as it may be.
pub(crate) fn portions(shares: &[Share], now: i64, limit: u32) -> Vec<Portion> {
    let mut due: Vec<_> = shares.iter().filter(|share| share.due <= now).collect();
    due.sort_by_key(|share| share.priority);
    let mut portions = Vec::new();
    let mut rest = Vec::new();
    for (nth, tier) in due.chunk_by(|a, b| a.priority == b.priority).enumerate() {
        let starts = Starts::of(tier.iter().copied());
        let mut turns: Vec<_> = tier.iter().map(|it| (starts.of_share(it), 0_u32)).collect();
        let taken = if nth == 0 { limit } else { 0 };
        for _ in 0..taken {
            let places = turns.iter_mut().zip(tier);
            // One that was never served goes first, or it might never be.
            let next = places.min_by_key(|((at, count), share)| {
                let is_known = share.served.is_some() || *count > 0;
                (*at, is_known, &share.fairness_key)
            });
            if let Some(((at, count), share)) = next {
                *at += share.cost();
                *count += 1;
            }
        }
        let mut turns: Vec<_> = turns.into_iter().zip(tier).collect();
        turns.sort_by_key(|((at, _), share)| (*at, &share.fairness_key));
        for ((_, count), share) in turns {
            let portion = |most: u32, beyond: u32| Portion {
                fairness_key: share.fairness_key.clone(),
                priority: share.priority,
                most: i64::from(most),
                beyond: i64::from(beyond),
            };
            if count > 0 {
                portions.push(portion(count, 0));
            }
            if count < limit {
                rest.push(portion(limit, count));
            }
        }
    }
    portions.extend(rest);
    portions
}

impl Share {
    fn cost(&self) -> i64 {
        COST / i64::from(self.fairness_weight.unwrap_or(1).max(1))
    }
}

/// Where the shares of a priority stand, by a clock that a task of weight 1 advances by a second.
struct Starts {
    /// At least.
    floor: i64,
    /// Those of which nothing is known: beside the one that was served least.
    least: i64,
}

impl Starts {
    fn of<'a>(tier: impl Iterator<Item = &'a Share>) -> Self {
        let served: Vec<_> = tier.filter_map(|share| share.served).collect();
        let most = served.iter().max().copied().unwrap_or(0);
        let floor = most.saturating_sub(CREDIT).max(0);
        let least = served.iter().min().copied().unwrap_or(0);
        Self {
            floor,
            least: least.max(floor),
        }
    }

    fn of_share(&self, share: &Share) -> i64 {
        let served = share.served.map(|served| served.max(self.floor));
        served.unwrap_or(self.least)
    }
}

/// What is put down to a share.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub(crate) struct Charge {
    pub(crate) fairness_key: String,
    pub(crate) priority: i16,
    pub(crate) fairness_weight: i16,
    /// Where it stood at least.
    pub(crate) start: i64,
    pub(crate) cost: i64,
}

/// What `tasks`, of one kind, cost the shares from which a claim has chosen, in the order of the
/// keys.
pub(crate) fn charges<'a>(
    shares: &[Share],
    tasks: impl Iterator<Item = (&'a str, i16, i16)>,
) -> Vec<Charge> {
    let mut charges: Vec<Charge> = Vec::new();
    for (key, priority, weight) in tasks {
        let cost = COST / i64::from(weight.max(1));
        let is_it = |it: &&mut Charge| it.fairness_key == key && it.priority == priority;
        if let Some(charge) = charges.iter_mut().find(is_it) {
            charge.cost += cost;
            charge.fairness_weight = weight;
            continue;
        }
        let tier = || shares.iter().filter(|share| share.priority == priority);
        let starts = Starts::of(tier());
        let share = tier().find(|share| share.fairness_key == key);
        charges.push(Charge {
            fairness_key: key.to_owned(),
            priority,
            fairness_weight: weight,
            start: share.map_or(starts.floor, |share| starts.of_share(share)),
            cost,
        });
    }
    // All who charge lock in this order.
    charges.sort_by(|a, b| (&a.fairness_key, a.priority).cmp(&(&b.fairness_key, b.priority)));
    charges
}

/// What the claimed of `tasks` that are of `kind` cost.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) fn charges_of(shares: &[Share], kind: TaskKind, tasks: &[TaskRow]) -> Vec<Charge> {
    let of_kind = tasks.iter().filter(|task| task.task_type == kind.as_str());
    let tasks = of_kind.map(|task| {
        (
            task.fairness_key.as_str(),
            task.priority,
            task.fairness_weight,
        )
    });
    charges(shares, tasks)
}

/// How far the claims of a process have come in queues of many shares.
#[derive(Default, Debug)]
pub(crate) struct Tours {
    ends: Mutex<HashMap<(Namespace, Queue, TaskKind), String>>,
}

impl Tours {
    /// A look at the shares of `kind`, from where the last one ended.
    pub(crate) fn begin(&self, claim: &Claim, kind: TaskKind) -> Tour {
        let queue = (claim.namespace.clone(), claim.queue.clone(), kind);
        let start = locked(&self.ends).get(&queue).cloned().unwrap_or_default();
        Tour {
            queue,
            next: Some(start.clone()),
            has_turned: start.is_empty(),
            start,
            compared: 0,
            due: BTreeMap::new(),
        }
    }

    /// What is due, as far as `tour` has seen. The next one goes on from there.
    pub(crate) fn end(&self, tour: Tour) -> Vec<Share> {
        let mut ends = locked(&self.ends);
        match tour.next {
            Some(next) if !next.is_empty() => _ = ends.insert(tour.queue, next),
            _ => _ = ends.remove(&tour.queue),
        }
        tour.due.into_values().collect()
    }
}

/// A look at the shares that have a key, in the order of the keys, a page after the other.
#[derive(Debug)]
pub(crate) struct Tour {
    queue: (Namespace, Queue, TaskKind),
    start: String,
    /// The key after which the next page begins; `None` when all were seen.
    next: Option<String>,
    /// All keys after the start were seen.
    has_turned: bool,
    compared: i64,
    due: BTreeMap<(String, i16), Share>,
}

impl Tour {
    /// The key after which the next page begins; `None` when enough was seen.
    pub(crate) fn after(&self) -> Option<String> {
        let is_enough = !self.due.is_empty() && self.compared >= COMPARED / 2;
        self.next.clone().filter(|_| !is_enough)
    }

    /// Adds shares that are due whatever the page.
    pub(crate) fn seed(&mut self, shares: impl IntoIterator<Item = Share>, now: i64) {
        let due = shares.into_iter().filter(|share| share.due <= now);
        let placed = due.map(|share| ((share.fairness_key.clone(), share.priority), share));
        self.due.extend(placed);
    }

    /// Adds a page of at most [`COMPARED`] shares, in their order.
    pub(crate) fn add(&mut self, mut page: Vec<Share>, now: i64) {
        let is_full = page.len() >= COMPARED as usize;
        if is_full && let Some(last) = page.last().map(|share| share.fairness_key.clone()) {
            // The rest of its priorities may not have come.
            page.retain(|share| share.fairness_key != last);
        }
        let end = page.last().map(|share| share.fairness_key.clone());
        self.next = match end.filter(|_| is_full) {
            Some(end) if self.has_turned && !self.start.is_empty() && end >= self.start => None,
            Some(end) => Some(end),
            None if self.has_turned => None,
            None => {
                self.has_turned = true;
                Some(String::new())
            }
        };
        self.compared += i64::try_from(page.len()).unwrap_or(COMPARED);
        self.seed(page, now);
    }
}

#[cfg(test)]
mod tests;
