//! Which node of a cluster owns a slot, and a supervised connection to each owner.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Error, Result};
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::config::{Address, Config};
use crate::dial::{Target, dial};
use crate::error::not_connected;
use crate::link::{Link, Live, RECONNECT};
use crate::signals::{Purpose, Signal};

const SLOTS: usize = 16_384;

/// The map is read again this often even when nothing points at a change.
const REFRESH_EVERY: Duration = Duration::from_secs(30);

/// The shortest time between two readings: a failover makes many callers ask at once.
const REFRESH_AT_MOST_EVERY: Duration = Duration::from_millis(100);

/// The nodes of a cluster, with the owner of every slot.
#[derive(Clone)]
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    refresher: Arc<Refresher>,
}

struct Shared {
    config: Arc<Config>,
    seeds: Vec<Address>,
    purpose: Purpose,
    runtime: Handle,
    map: Mutex<Map>,
    wanted: Notify,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Map {
    /// The owner of each slot; empty until the first reading.
    owners: Vec<Option<Address>>,
    nodes: HashMap<Address, Link>,
    /// Where a slot was last found to have moved. That node knows of it before others do.
    named: Option<Address>,
}

struct Refresher(JoinHandle<()>);

impl Drop for Refresher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cluster {
    pub(crate) fn start(
        config: Arc<Config>,
        seeds: Vec<Address>,
        purpose: Purpose,
        runtime: &Handle,
    ) -> Self {
        let shared = Arc::new(Shared {
            config,
            seeds,
            purpose,
            runtime: runtime.clone(),
            map: Mutex::default(),
            wanted: Notify::new(),
            changed: watch::Sender::new(0),
        });
        let refresher = runtime.spawn(refresh_for_ever(Arc::clone(&shared)));
        Self {
            shared,
            refresher: Arc::new(Refresher(refresher)),
        }
    }

    /// The link to the owner of `slot`, or to any node for a command without a key.
    pub(crate) fn link(&self, slot: Option<u16>) -> Option<Link> {
        let map = self.shared.map();
        match slot {
            Some(slot) => {
                let owner = map.owners.get(usize::from(slot))?.as_ref()?;
                map.nodes.get(owner).cloned()
            }
            None => map.nodes.values().next().cloned(),
        }
    }

    /// The links to all owners of slots.
    pub(crate) fn links(&self) -> Vec<Link> {
        self.shared.links()
    }

    /// The owner of every slot; empty until the first reading.
    pub(crate) fn owners(&self) -> Vec<Option<Address>> {
        self.shared.map().owners.clone()
    }

    /// The address of the owner of `slot`.
    pub(crate) fn owner(&self, slot: u16) -> Option<Address> {
        self.shared.map().owners.get(usize::from(slot))?.clone()
    }

    /// The link to a node that a redirection named, made if need be.
    pub(crate) fn node(&self, address: &Address) -> Link {
        self.shared.node(&mut self.shared.map(), address)
    }

    /// Notes that `slot` has moved, and has the whole map read again.
    pub(crate) fn moved(&self, slot: Option<u16>, address: &Address) {
        if let Some(slot) = slot {
            let mut map = self.shared.map();
            self.shared.node(&mut map, address);
            map.named = Some(address.clone());
            if let Some(owner) = map.owners.get_mut(usize::from(slot)) {
                *owner = Some(address.clone());
            }
        }
        self.refresh();
    }

    /// Has the map read again soon.
    pub(crate) fn refresh(&self) {
        self.shared.wanted.notify_one();
    }

    /// A receiver that sees every change of the map.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Waits for the link to the owner of `slot` to be up, following the slot when it moves.
    pub(crate) async fn ready(
        &self,
        slot: Option<u16>,
        what: &str,
        deadline: Instant,
    ) -> Result<(Link, Live)> {
        let mut changes = self.changes();
        loop {
            let link = self.link(slot);
            if let Some(link) = &link
                && let Some(live) = link.live()
            {
                return Ok((link.clone(), live));
            }
            self.refresh();
            let up = async {
                let live = match &link {
                    Some(link) => link.up().await,
                    None => None,
                };
                match live {
                    Some(live) => live,
                    // The node has left the map, or the client is shut down.
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                live = up => {
                    if let Some(link) = link {
                        return Ok((link, live));
                    }
                }
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    return Err(match link {
                        Some(link) => link.not_connected(what),
                        None => Error::unavailable(format!("{what}: no node of the cluster serves this slot")),
                    });
                }
            }
        }
    }

    pub(crate) fn close(&self) {
        self.refresher.0.abort();
        for link in self.links() {
            link.close();
        }
    }
}

impl Shared {
    fn map(&self) -> std::sync::MutexGuard<'_, Map> {
        // A panic elsewhere leaves the map whole: every change is one assignment.
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self, map: &mut Map, address: &Address) -> Link {
        let start = || {
            let target = Target::Node(address.clone());
            Link::start(
                Arc::clone(&self.config),
                target,
                self.purpose,
                &self.runtime,
            )
        };
        map.nodes
            .entry(address.clone())
            .or_insert_with(start)
            .clone()
    }

    fn adopt(&self, owners: Vec<Option<Address>>) {
        {
            let mut map = self.map();
            let kept: HashSet<_> = owners.iter().flatten().cloned().collect();
            for address in &kept {
                self.node(&mut map, address);
            }
            map.nodes.retain(|address, _| kept.contains(address));
            map.owners = owners;
        }
        self.changed.send_modify(|version| *version += 1);
    }

    /// The links to all nodes, first the one that is likely to know most.
    fn links(&self) -> Vec<Link> {
        let map = self.map();
        let mut nodes: Vec<_> = map.nodes.iter().collect();
        nodes.sort_by_key(|(address, _)| Some(*address) != map.named.as_ref());
        nodes.into_iter().map(|(_, link)| link.clone()).collect()
    }

    /// Reads the map from the first node that answers: one that is connected, else a seed.
    async fn read(&self) -> Result<Vec<Option<Address>>> {
        for live in self.links().iter().filter_map(Link::live) {
            let reading = slots(live.connection, &live.address);
            let limit = self.config.connect_timeout;
            if let Ok(Ok(owners)) = tokio::time::timeout(limit, reading).await {
                return Ok(owners);
            }
        }
        let mut last = Error::invalid("no node of the cluster is configured");
        for seed in &self.seeds {
            let target = Target::Node(seed.clone());
            let reading = async {
                let dialed = dial(&self.config, &target, self.purpose, None).await?;
                slots(dialed.connection.clone(), seed).await
            };
            match reading.await {
                Ok(owners) => return Ok(owners),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

async fn refresh_for_ever(shared: Arc<Shared>) {
    let mut attempt = 0;
    loop {
        match shared.read().await {
            Ok(owners) => {
                attempt = 0;
                shared.adopt(owners);
                tokio::time::sleep(REFRESH_AT_MOST_EVERY).await;
                _ = tokio::time::timeout(REFRESH_EVERY, shared.wanted.notified()).await;
            }
            Err(error) => {
                let (purpose, error) = (shared.purpose, Detail::error(&error));
                Signal::ConnectionFailed { purpose, error }.emit();
                tokio::time::sleep(RECONNECT.jittered(attempt)).await;
                attempt += 1;
            }
        }
    }
}

/// The owner of every slot by `CLUSTER SLOTS`, which every supported version has.
async fn slots(
    mut connection: MultiplexedConnection,
    asked: &Address,
) -> Result<Vec<Option<Address>>> {
    let mut ask = redis::cmd("CLUSTER");
    ask.arg("SLOTS");
    let what = format!("reading the slots of the cluster from {asked}");
    let ranges: Vec<(usize, usize, Value)> = {
        let reply: Vec<Vec<Value>> = ask
            .query_async(&mut connection)
            .await
            .map_err(|error| not_connected(&what, error))?;
        reply.into_iter().filter_map(range).collect()
    };
    let mut owners = vec![None; SLOTS];
    for (first, last, node) in ranges {
        let owner = owner(node, asked);
        for slot in owners.iter_mut().take(last + 1).skip(first) {
            slot.clone_from(&owner);
        }
    }
    Ok(owners)
}

fn range(items: Vec<Value>) -> Option<(usize, usize, Value)> {
    let mut items = items.into_iter();
    match (items.next()?, items.next()?, items.next()?) {
        (Value::Int(first), Value::Int(last), master) => Some((
            usize::try_from(first).ok()?,
            usize::try_from(last).ok()?,
            master,
        )),
        _ => None,
    }
}

/// A node that does not know its own address leaves the host out: it is the one that was asked.
fn owner(node: Value, asked: &Address) -> Option<Address> {
    let Value::Array(items) = node else {
        return None;
    };
    let mut items = items.into_iter();
    let host = match items.next()? {
        Value::BulkString(host) if !host.is_empty() => String::from_utf8(host).ok()?,
        _ => asked.host.clone(),
    };
    match items.next()? {
        Value::Int(port) => Some(Address {
            host,
            port: u16::try_from(port).ok()?,
        }),
        _ => None,
    }
}
