//! Which keys have changed: one supervised connection to each master that carries nothing else.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coord_core::Pattern;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::config::{Address, Config};
use crate::dial::Target;
use crate::lane::Lane;

mod node;

use node::{Heard, Node};

/// What is told of the tracked keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// From now on every change is told; what was known before may have changed unheard.
    Begun,
    /// Changes may be missed until the next [`Begun`](Self::Begun).
    Ended,
    /// This key was written, deleted, expired or evicted.
    Key(&'a str),
    /// Any key may have changed: the server was flushed.
    Everything,
}

type Changed = Box<dyn Fn(Change<'_>) + Send>;

/// Dropping it ends the tracking of its pattern.
pub struct Tracking {
    id: u64,
    orders: mpsc::UnboundedSender<Order>,
}

impl fmt::Debug for Tracking {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tracking").finish_non_exhaustive()
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        _ = self.orders.send(Order::Leave(self.id));
    }
}

enum Order {
    Track {
        id: u64,
        start: Arc<str>,
        changed: Changed,
    },
    Leave(u64),
    Close,
}

/// The handle to the task that owns everything tracked.
pub(crate) struct Tracker {
    orders: mpsc::UnboundedSender<Order>,
}

impl Tracker {
    pub(crate) fn start(config: &Arc<Config>, lane: &Lane, runtime: &Handle) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        let (heard, hearing) = mpsc::unbounded_channel();
        let desk = Desk {
            config: Arc::clone(config),
            lane: lane.clone(),
            runtime: runtime.clone(),
            wanted: watch::Sender::new(Arc::from([])),
            heard,
            entries: Vec::new(),
            nodes: HashMap::new(),
            complete: false,
        };
        runtime.spawn(desk.run(received, hearing));
        Self { orders }
    }

    pub(crate) fn track(&self, pattern: &Pattern, changed: Changed) -> Tracking {
        let id = next();
        let start = pattern.start().into();
        // A client that is shut down never begins.
        _ = self.orders.send(Order::Track { id, start, changed });
        Tracking {
            id,
            orders: self.orders.clone(),
        }
    }

    pub(crate) fn close(&self) {
        _ = self.orders.send(Order::Close);
    }
}

/// Those of `starts` that no other one covers, since the server refuses what overlaps.
fn widest(mut starts: Vec<Arc<str>>) -> Wanted {
    starts.sort_unstable();
    starts.dedup_by(|later, earlier| later.starts_with(&**earlier));
    starts.into()
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// One pattern, and who is told.
struct Entry {
    id: u64,
    start: Arc<str>,
    changed: Changed,
}

/// One master's connection. `None` is the only server there is.
type Place = Option<Address>;

struct Worker {
    /// Tells what this one says from the last words of one before it.
    id: u64,
    task: JoinHandle<()>,
    /// Which version of the wanted patterns it is known to track.
    tracks: Option<Wanted>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How the keys begin that a connection is to track.
pub(crate) type Wanted = Arc<[Arc<str>]>;

struct Desk {
    config: Arc<Config>,
    lane: Lane,
    runtime: Handle,
    wanted: watch::Sender<Wanted>,
    heard: mpsc::UnboundedSender<(u64, Heard)>,
    entries: Vec<Entry>,
    nodes: HashMap<Place, Worker>,
    /// Whether every master tells of every pattern.
    complete: bool,
}

impl Desk {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut hearing: mpsc::UnboundedReceiver<(u64, Heard)>,
    ) {
        let cluster = self.lane.cluster().cloned();
        let mut changes = cluster.as_ref().map(Cluster::changes);
        let mut owners = Vec::new();
        loop {
            let changed = async {
                match &mut changes {
                    Some(changes) => changes.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Track { id, start, changed }) => {
                        self.entries.push(Entry { id, start, changed });
                        self.want();
                    }
                    Some(Order::Leave(id)) => {
                        self.entries.retain(|entry| entry.id != id);
                        self.want();
                    }
                    Some(Order::Close) | None => break,
                },
                Some((id, heard)) = hearing.recv() => self.hear(id, heard),
                true = changed => {
                    let now = cluster.as_ref().map(Cluster::owners).unwrap_or_default();
                    if now != owners {
                        owners = now;
                        self.interrupt();
                        self.staff();
                        self.settle();
                    }
                }
            }
        }
        self.interrupt();
    }

    /// Has the connections track what the entries want; without any there are none.
    fn want(&mut self) {
        self.interrupt();
        let starts = self.entries.iter().map(|entry| Arc::clone(&entry.start));
        self.wanted.send_replace(widest(starts.collect()));
        self.staff();
        self.settle();
    }

    /// One connection to each master, while anything is tracked.
    fn staff(&mut self) {
        let places: HashSet<Place> = match self.lane.cluster() {
            _ if self.entries.is_empty() => HashSet::new(),
            None => HashSet::from([None]),
            Some(cluster) => cluster.owners().into_iter().flatten().map(Some).collect(),
        };
        self.nodes.retain(|place, _| places.contains(place));
        for place in places {
            if self.nodes.contains_key(&place) {
                continue;
            }
            let target = match &place {
                None => Target::Master,
                Some(address) => Target::Node(address.clone()),
            };
            let (heard, id) = (self.heard.clone(), next());
            let node = Node {
                config: Arc::clone(&self.config),
                lane: self.lane.clone(),
                target,
                tell: Box::new(move |what| _ = heard.send((id, what))),
            };
            let task = self.runtime.spawn(node.run(self.wanted.subscribe()));
            let worker = Worker {
                id,
                task,
                tracks: None,
            };
            self.nodes.insert(place, worker);
        }
    }

    fn hear(&mut self, id: u64, heard: Heard) {
        let Some(worker) = self.nodes.values_mut().find(|worker| worker.id == id) else {
            return;
        };
        match heard {
            Heard::Tracking(wanted) => {
                worker.tracks = Some(wanted);
                self.settle();
            }
            Heard::Nothing => {
                worker.tracks = None;
                self.interrupt();
            }
            Heard::Keys(keys) => {
                for key in &keys {
                    let concerned = self.entries.iter();
                    for entry in concerned.filter(|entry| key.starts_with(&*entry.start)) {
                        (entry.changed)(Change::Key(key));
                    }
                }
            }
            Heard::Everything => self.tell_all(Change::Everything),
        }
    }

    fn interrupt(&mut self) {
        if self.complete {
            self.complete = false;
            self.tell_all(Change::Ended);
        }
    }

    /// Begins once every master tracks all that is wanted now.
    fn settle(&mut self) {
        let wanted = Arc::clone(&self.wanted.borrow());
        let tracks = |worker: &Worker| {
            let tracks = worker.tracks.as_ref();
            tracks.is_some_and(|tracks| Arc::ptr_eq(tracks, &wanted))
        };
        if !self.complete && !self.nodes.is_empty() && self.nodes.values().all(tracks) {
            self.complete = true;
            self.tell_all(Change::Begun);
        }
    }

    fn tell_all(&self, change: Change<'_>) {
        for entry in &self.entries {
            (entry.changed)(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_starts_that_cover_each_other_the_widest_is_tracked() {
        let starts = ["b:1", "a", "b", "ab", "c", "b", "b:2"].map(Arc::from);

        let wanted = widest(starts.into());

        assert_eq!(
            wanted.iter().map(|start| &**start).collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
    }
}
