//! A Redis Cluster of masters.

use std::collections::BTreeMap;
use std::time::Duration;

use super::RedisServer;
use crate::{
    need::Missing,
    resp::{Resp, Result},
    wait::eventually,
};

/// Hash slots of every Redis Cluster.
const SLOTS: u16 = 16_384;
/// A master waits two seconds after its start before it takes part.
const FORMED_WITHIN: Duration = Duration::from_secs(30);
/// Milliseconds after which a silent node counts as failing: longer than any test, or a busy machine
/// would take a cluster down.
const NODE_TIMEOUT_MS: &str = "600000";
/// The same once a node was killed: short, and more than a busy machine takes to answer.
const SHORT_TIMEOUT_MS: &str = "2000";
/// Nodes tell each other what they know once a second, and some of what they have heard.
const AGREED_WITHIN: Duration = Duration::from_mins(1);
/// Keys that one `MIGRATE` moves.
const KEYS_AT_ONCE: &str = "100";
/// A move over loopback takes no time to speak of, unless the machine is busy.
const MOVE_WITHIN_MS: &str = "60000";

/// Own masters that share the slots evenly; dropping them kills them.
///
/// There are no replicas: with a node its slots are gone, and the cluster is down.
pub struct Cluster {
    nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Starts a cluster of `masters` nodes; it serves every slot when this returns.
    ///
    /// That takes two seconds, which a new master waits before it takes part.
    ///
    /// # Errors
    /// [`Missing`] when the machine has no server binary.
    ///
    /// # Panics
    /// When the nodes do not form a cluster.
    ///
    /// # Cancel safety
    /// Safe: nodes that nobody gets are killed.
    pub async fn start(masters: u16) -> std::result::Result<Self, Missing> {
        let mut nodes = Vec::new();
        for _ in 0..masters {
            nodes.push(RedisServer::builder().cluster_node().start().await?);
        }
        let cluster = Self { nodes };
        cluster
            .form()
            .await
            .expect("fresh nodes take part in a cluster");
        Ok(cluster)
    }

    async fn form(&self) -> Result<()> {
        let masters = self.nodes.len() as u16;
        for (node, index) in self.nodes.iter().zip(0..) {
            // Different epochs from the start, or the nodes would have to agree on them first.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])
                .await?;
            let slots = share(index, masters)
                .map(|slot| slot.to_string())
                .collect::<Vec<_>>();
            let mut add = vec!["CLUSTER", "ADDSLOTS"];
            add.extend(slots.iter().map(String::as_str));
            node.command(&add).await?;
        }
        for other in &self.nodes[1..] {
            let port = other.port().to_string();
            self.nodes[0]
                .command(&["CLUSTER", "MEET", "127.0.0.1", &port])
                .await?;
        }
        self.wait_until_whole().await;
        Ok(())
    }

    /// Waits until every node knows all others and serves, at most thirty seconds; for after a
    /// [`RedisServer::resume`].
    ///
    /// # Panics
    /// When that does not happen.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait_until_whole(&self) {
        let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
        for node in &self.nodes {
            eventually(
                FORMED_WITHIN,
                "the node knows the whole cluster",
                || async {
                    let info = node
                        .command(&["CLUSTER", "INFO"])
                        .await
                        .map(|info| info.text());
                    info.is_ok_and(|info| {
                        info.contains("cluster_state:ok") && info.contains(&known)
                    })
                },
            )
            .await;
        }
    }

    /// The nodes; their order never changes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The URL for a client, with all nodes in it.
    pub fn url(&self) -> String {
        let nodes = self.nodes.iter().map(|node| node.addr().to_string());
        format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
    }

    /// SIGKILL for node `index`; the others soon take its silence for its end.
    ///
    /// # Panics
    /// When another does not answer.
    ///
    /// # Cancel safety
    /// Unsafe: it may live on. Another call kills it.
    pub async fn kill(&self, index: usize) {
        for (node, other) in self.nodes.iter().zip(0..) {
            if other != index {
                let set = ["CONFIG", "SET", "cluster-node-timeout", SHORT_TIMEOUT_MS];
                node.command(&set).await.expect("it answers");
            }
        }
        self.nodes[index].kill().await;
    }

    /// The slot of `key`, by its hash tag if it has one.
    ///
    /// # Errors
    /// When no node answers.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn slot_of(&self, key: &str) -> Result<u16> {
        let slot = self.ask(&["CLUSTER", "KEYSLOT", key]).await?;
        Ok(slot.int().expect("KEYSLOT answers a number") as u16)
    }

    /// The index of the node that serves `slot`.
    ///
    /// # Errors
    /// When no node answers.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn node_of_slot(&self, slot: u16) -> Result<usize> {
        let answer = self.ask(&["CLUSTER", "SLOTS"]).await?;
        let port = answer
            .items()
            .iter()
            .find_map(|range| owner_port(range, slot));
        let port = port.expect("every slot has an owner");
        let index = self.nodes.iter().position(|node| node.port() == port);
        Ok(index.expect("every owner is one of the nodes"))
    }

    /// Begins to move `slot` to node `to`: its node answers ASK for keys that it does not have,
    /// until [`migrate_slot`](Self::migrate_slot) does the rest.
    ///
    /// # Errors
    /// When a node refuses.
    ///
    /// # Cancel safety
    /// Safe: another call does what is missing.
    pub async fn begin_migration(&self, slot: u16, to: usize) -> Result<()> {
        let from = self.node_of_slot(slot).await?;
        let (slot, from_id, to_id) = (slot.to_string(), self.id(from).await?, self.id(to).await?);
        let set = ["CLUSTER", "SETSLOT", &slot];
        self.nodes[to]
            .command(&[&set[..], &["IMPORTING", &from_id]].concat())
            .await?;
        self.nodes[from]
            .command(&[&set[..], &["MIGRATING", &to_id]].concat())
            .await?;
        Ok(())
    }

    /// Moves `slot` and its keys to node `to`: its old node then answers MOVED, and all nodes know
    /// whose it is.
    ///
    /// # Errors
    /// When a node refuses.
    ///
    /// # Panics
    /// When the nodes do not come to agree.
    ///
    /// # Cancel safety
    /// Safe: another call does what is missing.
    pub async fn migrate_slot(&self, slot: u16, to: usize) -> Result<()> {
        let from = self.node_of_slot(slot).await?;
        if from == to {
            return Ok(());
        }
        self.begin_migration(slot, to).await?;
        self.move_keys(slot, from, to).await?;
        let (slot, id) = (slot.to_string(), self.id(to).await?);
        // The new owner first: in between, the old one sends clients to a node that takes them.
        self.nodes[to]
            .command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id])
            .await?;
        for node in &self.nodes {
            node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id])
                .await?;
        }
        self.wait_until_agreed().await;
        Ok(())
    }

    /// Waits until all nodes know alike who has which slots, and since which epoch.
    ///
    /// The epoch decides whose word counts. A node that takes a slot over before it has heard of
    /// its present owner's epoch does so under one that may be smaller; the next message of that
    /// owner takes the slot away again, and the node deletes the keys in it.
    async fn wait_until_agreed(&self) {
        eventually(AGREED_WITHIN, "all nodes know the same", || async {
            let mut views = Vec::new();
            for node in &self.nodes {
                let view = node.command(&["CLUSTER", "NODES"]).await;
                views.push(view.ok().and_then(|view| owners(&view.text())));
            }
            let [first, others @ ..] = &views[..] else {
                return true;
            };
            first.is_some() && others.iter().all(|view| view == first)
        })
        .await;
    }

    async fn move_keys(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        let (slot, port) = (slot.to_string(), self.nodes[to].port().to_string());
        loop {
            let list = ["CLUSTER", "GETKEYSINSLOT", &slot, KEYS_AT_ONCE];
            let keys = self.nodes[from].command(&list).await?;
            let keys = keys.items().iter().map(Resp::text).collect::<Vec<_>>();
            if keys.is_empty() {
                return Ok(());
            }
            let mut send = vec![
                "MIGRATE",
                "127.0.0.1",
                &port,
                "",
                "0",
                MOVE_WITHIN_MS,
                "KEYS",
            ];
            send.extend(keys.iter().map(String::as_str));
            self.nodes[from].command(&send).await?;
        }
    }

    async fn id(&self, index: usize) -> Result<String> {
        Ok(self.nodes[index]
            .command(&["CLUSTER", "MYID"])
            .await?
            .text())
    }

    /// Asks the first node that answers.
    async fn ask(&self, words: &[&str]) -> Result<Resp> {
        let mut answer = self.nodes[0].command(words).await;
        for node in &self.nodes[1..] {
            if answer.is_ok() {
                break;
            }
            answer = node.command(words).await;
        }
        answer
    }
}

/// The slots of node `index` of `masters`.
fn share(index: u16, masters: u16) -> impl Iterator<Item = u16> {
    let begin = |index: u16| (u32::from(SLOTS) * u32::from(index) / u32::from(masters)) as u16;
    begin(index)..begin(index + 1)
}

/// The slots of each node by its epoch; `None` while two have the same epoch.
fn owners(nodes: &str) -> Option<BTreeMap<u64, Vec<String>>> {
    let mut owners = BTreeMap::new();
    for node in nodes.lines() {
        // id, address, flags, master, ping, pong, epoch, link, slots.
        let mut fields = node.split(' ');
        let epoch = fields.nth(6)?.parse().ok()?;
        let slots = fields.skip(1).filter(|slots| !slots.starts_with('['));
        let slots = slots.map(str::to_owned).collect();
        if owners.insert(epoch, slots).is_some() {
            return None;
        }
    }
    Some(owners)
}

/// The port of the master of `slot`, if `range` has it: `[first, last, [ip, port, id], ...]`.
fn owner_port(range: &Resp, slot: u16) -> Option<u16> {
    let [first, last, master, ..] = range.items() else {
        return None;
    };
    let has = (first.int()?..=last.int()?).contains(&i64::from(slot));
    has.then(|| master.items().get(1)?.int())
        .flatten()
        .map(|port| port as u16)
}

/// What makes a server a node of a cluster.
pub(super) fn node_args() -> [&'static str; 8] {
    [
        "--cluster-enabled",
        "yes",
        "--cluster-config-file",
        "nodes.conf",
        "--cluster-node-timeout",
        NODE_TIMEOUT_MS,
        "--cluster-announce-ip",
        "127.0.0.1",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{need, resp::CommandError};

    fn refusal(answer: Result<Resp>) -> String {
        match answer {
            Err(CommandError::Server(text)) => text,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_slot_that_was_migrated_is_moved_with_its_keys() {
        let cluster = need!(Cluster::start(3).await);
        let slot = cluster.slot_of("{tag}1").await.unwrap();
        let from = cluster.node_of_slot(slot).await.unwrap();
        let to = (from + 1) % 3;
        let (old, new) = (&cluster.nodes()[from], &cluster.nodes()[to]);
        old.command(&["SET", "{tag}1", "v"]).await.unwrap();

        cluster.begin_migration(slot, to).await.unwrap();
        let asked = format!("ASK {slot} 127.0.0.1:{}", new.port());
        assert_eq!(refusal(old.command(&["GET", "{tag}absent"]).await), asked);
        assert_eq!(old.command(&["GET", "{tag}1"]).await.unwrap().text(), "v");

        cluster.migrate_slot(slot, to).await.unwrap();
        let moved = format!("MOVED {slot} 127.0.0.1:{}", new.port());
        assert_eq!(refusal(old.command(&["GET", "{tag}1"]).await), moved);
        assert_eq!(new.command(&["GET", "{tag}1"]).await.unwrap().text(), "v");
        assert_eq!(cluster.node_of_slot(slot).await.unwrap(), to);
    }

    #[tokio::test]
    async fn without_one_of_its_nodes_a_cluster_is_down() {
        let cluster = need!(Cluster::start(3).await);

        cluster.kill(2).await;

        eventually(Duration::from_secs(20), "the cluster is down", || async {
            let answer = cluster.nodes()[0].command(&["GET", "{tag}1"]).await;
            matches!(answer, Err(CommandError::Server(text)) if text.starts_with("CLUSTERDOWN"))
        })
        .await;
    }

    #[test]
    fn nodes_agree_on_epochs_and_slots() {
        let view = |epoch: u64| {
            format!(
                "a 127.0.0.1:1@2 myself,master - 0 5 3 connected 0-7 9 [8->-b]\n\
                 b 127.0.0.1:3@4 master - 6 7 {epoch} connected 10-16383\n"
            )
        };
        let slots = |slots: &[&str]| slots.iter().map(ToString::to_string).collect::<Vec<_>>();
        let wanted = BTreeMap::from([(3, slots(&["0-7", "9"])), (4, slots(&["10-16383"]))]);

        assert_eq!(owners(&view(4)), Some(wanted));
        assert_eq!(owners(&view(3)), None);
    }

    #[test]
    fn every_slot_is_shared_out_once() {
        let slots = (0..3).flat_map(|index| share(index, 3)).collect::<Vec<_>>();

        assert_eq!(slots, (0..SLOTS).collect::<Vec<_>>());
    }
}
