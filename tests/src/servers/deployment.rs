//! The Redis of a test that breaks none.

use std::fmt;

use tokio::sync::OnceCell;

use super::{Cluster, RedisServer, Sentinel, admin::Admin};
use crate::{
    env,
    need::{self, Missing},
    resp::{CommandError, Resp, Result},
};

/// With fewer, two keys of a test lie on one node too often to show what a cluster refuses.
const MASTERS: u16 = 3;

/// A Redis in the topology that the run is for.
///
/// A test needs either *a* Redis or *this very server*. The first kind takes
/// [`shared`](Self::shared), keeps to its own [`unique`](need::unique) prefix and breaks nothing
/// that others share; it then runs on every topology. The second kind pauses, restarts, watches or
/// fills its server, or puts a proxy before it, and takes an own [`RedisServer`], which
/// [converts](#impl-From<%26RedisServer>-for-Deployment), so that both kinds look at keys the same
/// way.
///
/// `COORD_TEST_TOPOLOGY` chooses: `standalone` (the default), `cluster` (three masters) or
/// `sentinel` (a master that was promoted by a failover, two replicas, three sentinels).
#[derive(Clone)]
pub struct Deployment(Place);

#[derive(Clone)]
enum Place {
    Server { url: String, admin: Admin },
    Cluster(&'static Cluster),
    Sentinel(&'static Sentinel),
}

/// Where the servers of a run stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topology {
    Standalone,
    Cluster,
    Sentinel,
}

impl Topology {
    fn named(name: Option<&str>) -> Self {
        match name {
            None | Some("standalone") => Self::Standalone,
            Some("cluster") => Self::Cluster,
            Some("sentinel") => Self::Sentinel,
            Some(other) => panic!("{}={other} is no topology", env::TOPOLOGY),
        }
    }
}

impl Deployment {
    /// The one that all tests of this process share.
    ///
    /// The test is recorded as one that runs on any topology: as `<program> TAB <test>`, a line of
    /// `deployed` in the folder `COORD_TEST_OBSERVED_DIR`.
    ///
    /// # Errors
    /// [`Missing`] when the machine has no server for the topology.
    ///
    /// # Panics
    /// When it does not come up.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn shared() -> std::result::Result<Self, Missing> {
        static SERVER: OnceCell<RedisServer> = OnceCell::const_new();
        static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
        static SENTINEL: OnceCell<Sentinel> = OnceCell::const_new();
        need::record_deployed();
        Ok(match Topology::named(env::text(env::TOPOLOGY).as_deref()) {
            Topology::Standalone => Self::from(SERVER.get_or_try_init(RedisServer::start).await?),
            Topology::Cluster => Self(Place::Cluster(
                CLUSTER.get_or_try_init(|| Cluster::start(MASTERS)).await?,
            )),
            Topology::Sentinel => Self(Place::Sentinel(
                SENTINEL.get_or_try_init(Self::promoted_master).await?,
            )),
        })
    }

    /// Whether the run is for a single server, which has all keys, databases and channels.
    pub fn is_standalone(&self) -> bool {
        matches!(self.0, Place::Server { .. })
    }

    /// Every client is led to a server that was not the master when the group was made.
    async fn promoted_master() -> std::result::Result<Sentinel, Missing> {
        let group = Sentinel::start().await?;
        group.fail_over().await;
        group.bring_back(&group.servers()[0]).await;
        group.take_no_silence_for_death().await;
        Ok(group)
    }

    /// The URL for the crates under test.
    pub fn url(&self) -> String {
        match &self.0 {
            Place::Server { url, .. } => url.clone(),
            Place::Cluster(cluster) => cluster.url(),
            Place::Sentinel(group) => group.url(),
        }
    }

    /// Sends a command whose first argument is its key to the master that has that key.
    ///
    /// # Errors
    /// When the server refuses it, or does not answer within ten seconds.
    ///
    /// # Panics
    /// When there is no first argument, or nobody knows which master has the key.
    ///
    /// # Cancel safety
    /// A dropped command may have been executed.
    pub async fn command(&self, words: &[&str]) -> Result<Resp> {
        match &self.0 {
            Place::Server { admin, .. } => admin.command(words).await,
            Place::Cluster(cluster) => {
                let slot = cluster.slot_of(words[1]).await?;
                let node = cluster.node_of_slot(slot).await?;
                cluster.nodes()[node].command(words).await
            }
            Place::Sentinel(group) => group.master().await.command(words).await,
        }
    }

    /// Sends a command to every master, and returns what each of them says.
    ///
    /// # Errors
    /// When one refuses it, or does not answer within ten seconds.
    ///
    /// # Cancel safety
    /// A dropped command may have been executed, here and there or everywhere.
    pub async fn everywhere(&self, words: &[&str]) -> Result<Vec<Resp>> {
        let Place::Cluster(cluster) = &self.0 else {
            return Ok(vec![self.command(words).await?]);
        };
        let mut said = Vec::new();
        for node in cluster.nodes() {
            said.push(node.command(words).await?);
        }
        Ok(said)
    }

    /// The keys under `prefix`, on whatever masters they lie.
    ///
    /// # Errors
    /// When a master does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let found = self.everywhere(&["KEYS", &format!("{prefix}:*")]).await?;
        let keys = found.iter().flat_map(Resp::items);
        Ok(keys.map(Resp::text).collect())
    }

    /// How many connections are subscribed to `channel`, sharded or not.
    ///
    /// # Errors
    /// When a master does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn subscribers(&self, channel: &str) -> Result<i64> {
        let mut subscribed = 0;
        for kind in ["NUMSUB", "SHARDNUMSUB"] {
            let told = self.everywhere(&["PUBSUB", kind, channel]).await;
            let told = match told {
                // A server before 7.0 knows one kind of channel only.
                Err(CommandError::Server(_)) if kind == "SHARDNUMSUB" => Vec::new(),
                told => told?,
            };
            subscribed += told
                .iter()
                .filter_map(|of| of.items()[1].int())
                .sum::<i64>();
        }
        Ok(subscribed)
    }
}

impl From<&RedisServer> for Deployment {
    fn from(server: &RedisServer) -> Self {
        Self(Place::Server {
            url: server.url(),
            admin: server.admin().clone(),
        })
    }
}

impl From<&Deployment> for Deployment {
    fn from(deployment: &Deployment) -> Self {
        deployment.clone()
    }
}

impl fmt::Debug for Deployment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.url())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::need;

    #[tokio::test]
    async fn what_is_written_under_a_prefix_is_found_wherever_it_lies() {
        let deployment = need!(Deployment::shared().await);
        let prefix = need::unique("deployment");
        for n in 0..20 {
            let key = format!("{prefix}:{{{n}}}");
            deployment.command(&["SET", &key, "v"]).await.unwrap();
            let read = deployment.command(&["GET", &key]).await.unwrap();
            assert_eq!(read.text(), "v");
        }

        assert_eq!(deployment.keys(&prefix).await.unwrap().len(), 20);
        let other = need::unique("deployment");
        assert_eq!(deployment.keys(&other).await.unwrap(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn clients_of_a_promoted_master_are_not_led_to_the_first_server() {
        let group = need!(Deployment::promoted_master().await);

        assert_ne!(group.master().await.addr(), group.servers()[0].addr());
        let answer = group.master().await.command(&["SET", "k", "v"]).await;
        answer.unwrap();
    }

    #[test]
    #[should_panic(expected = "is no topology")]
    fn a_topology_that_nobody_knows_is_no_standalone_server() {
        Topology::named(Some("clutser"));
    }
}
