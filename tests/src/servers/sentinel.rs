//! A master, its replicas and the sentinels that watch over them.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::RedisServer;
use crate::{
    need::Missing,
    resp::{Resp, Result},
    wait::{self, eventually},
};

const NAME: &str = "coord-master";
const REPLICAS: usize = 2;
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
/// How long a master is silent before it counts as down: short for a test that kills it, and more
/// than a loaded machine takes to answer.
const DOWN_AFTER_MS: u32 = 500;
/// The same where nobody kills it: longer than any test.
const PATIENT_MS: &str = "600000";
/// A failed attempt is repeated after twice this time.
const FAILOVER_TIMEOUT_MS: u32 = 2000;
/// Much less with the periods below; ten seconds with the ones that old sentinels insist on.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);
/// One to two seconds, and a second try where the vote was split.
const FAILOVER_WITHIN: Duration = Duration::from_secs(30);
/// Sentinels look around several times a second instead of every second or every ten.
///
/// A replica is promoted only if its last `INFO` is younger than five ping periods, and with its
/// master down it is asked for one a second: five ping periods must be longer than that, or half
/// of the failovers find no good replica.
const PERIODS: &str =
    "SENTINEL DEBUG info-period 100 publish-period 100 ping-period 300 ask-period 100";

/// One master, two replicas and three sentinels; dropping them kills them.
///
/// A second failover right after the first takes ten seconds, so a test has one of each.
pub struct Sentinel {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    /// The master before the failover that is waited for.
    old_master: Mutex<SocketAddr>,
}

impl Sentinel {
    /// Starts them all; a failover is possible when this returns.
    ///
    /// # Errors
    /// [`Missing`] when the machine has no server binary.
    ///
    /// # Panics
    /// When the sentinels do not find each other.
    ///
    /// # Cancel safety
    /// Safe: servers that nobody gets are killed.
    pub async fn start() -> std::result::Result<Self, Missing> {
        let mut servers = vec![RedisServer::start().await?];
        for _ in 0..REPLICAS {
            servers.push(
                RedisServer::builder()
                    .replica_of(&servers[0])
                    .start()
                    .await?,
            );
        }
        // Only now, so that their first look finds both replicas.
        let old_master = servers[0].addr();
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            sentinels.push(
                RedisServer::builder()
                    .sentinel(config(old_master))
                    .start()
                    .await?,
            );
        }
        let periods = PERIODS.split(' ').collect::<Vec<_>>();
        for sentinel in &sentinels {
            // Before Redis 7 there is no such command, and things take longer.
            let _ = sentinel.command(&periods).await;
        }
        let group = Self {
            servers,
            sentinels,
            old_master: Mutex::new(old_master),
        };
        group.wait_until_known().await;
        Ok(group)
    }

    async fn wait_until_known(&self) {
        for sentinel in &self.sentinels {
            eventually(
                KNOWN_WITHIN,
                "the sentinel knows replicas and sentinels",
                || async { sentinel_knows(sentinel).await.unwrap_or(false) },
            )
            .await;
        }
    }

    /// The URL for a client, with all sentinels in it.
    pub fn url(&self) -> String {
        let hosts = self.sentinels.iter().map(|one| one.addr().to_string());
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("redis+sentinel://{hosts}/{NAME}")
    }

    /// Has a busy machine cause no failover.
    pub(super) async fn take_no_silence_for_death(&self) {
        for sentinel in &self.sentinels {
            let set = [
                "SENTINEL",
                "SET",
                NAME,
                "down-after-milliseconds",
                PATIENT_MS,
            ];
            sentinel.command(&set).await.expect("a sentinel answers");
        }
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The data servers; the first is the master until a failover.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The server that the first answering sentinel names as the master.
    ///
    /// # Panics
    /// When no sentinel answers.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn master(&self) -> &RedisServer {
        for sentinel in &self.sentinels {
            if let Ok(addr) = named_master(sentinel).await {
                return self.server_at(addr);
            }
        }
        panic!("no sentinel answers")
    }

    /// From now on no replica hears of a write: a failover loses what is acknowledged meanwhile,
    /// and nothing of what was acknowledged before.
    ///
    /// The replicas stand still until [`fail_over`](Self::fail_over), which has to follow within
    /// seconds: one that was without its master for long is not promoted.
    ///
    /// # Cancel safety
    /// Safe: some replicas may stand still.
    pub async fn detach_replicas(&self) {
        let master = self.master().await;
        let offset = |text: String| text.parse::<u64>().expect("a number");
        let written = offset(master.info("master_repl_offset").await.expect("it answers"));
        for replica in self
            .servers
            .iter()
            .filter(|one| one.addr() != master.addr())
        {
            eventually(KNOWN_WITHIN, "the replica has it all", || async {
                let read = replica.info("slave_repl_offset").await;
                read.is_ok_and(|read| offset(read) >= written)
            })
            .await;
            replica.pause().await;
        }
        // What their ends of these connections still hold, they had before; the rest is lost.
        let cut = master.command(&["CLIENT", "KILL", "TYPE", "replica"]).await;
        cut.expect("the master answers");
    }

    /// SIGKILL for the master, and one of its replicas in its place; it takes writes when this
    /// returns.
    ///
    /// # Panics
    /// When that does not happen within thirty seconds.
    ///
    /// # Cancel safety
    /// The master was killed, or not yet.
    pub async fn fail_over(&self) -> &RedisServer {
        let master = self.master().await;
        master.kill().await;
        for replica in self
            .servers
            .iter()
            .filter(|one| one.addr() != master.addr())
        {
            replica.resume().await;
        }
        self.wait_for_failover().await
    }

    /// Starts a server that was killed, and waits until a sentinel has made it a replica.
    ///
    /// # Panics
    /// When that does not happen within thirty seconds.
    ///
    /// # Cancel safety
    /// The server may be down or up; another call brings it up.
    pub async fn bring_back(&self, server: &RedisServer) {
        server.restart().await;
        eventually(FAILOVER_WITHIN, "it is a replica", || async {
            server.info("role").await.is_ok_and(|role| role == "slave")
        })
        .await;
    }

    /// SIGKILL for the master.
    ///
    /// # Cancel safety
    /// Safe: the master was killed, or not yet.
    pub async fn kill_master(&self) {
        self.master().await.kill().await;
    }

    /// SIGSTOP for the master, which wakes up again as one when it is
    /// [resumed](RedisServer::resume), until a sentinel tells it otherwise.
    ///
    /// # Cancel safety
    /// Safe: the master was paused, or not yet.
    pub async fn pause_master(&self) {
        self.master().await.pause().await;
    }

    /// Waits until all sentinels name the same new master and it takes writes, and returns it.
    ///
    /// # Panics
    /// When that does not happen within thirty seconds.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait_for_failover(&self) -> &RedisServer {
        let old = *self
            .old_master
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let failover = wait::poll(FAILOVER_WITHIN, || async {
            let mut named = Vec::new();
            for sentinel in &self.sentinels {
                named.push(named_master(sentinel).await.ok()?);
            }
            let new = named[0];
            let agreed = new != old && named.iter().all(|&addr| addr == new);
            let promoted = agreed && self.server_at(new).info("role").await.ok()? == "master";
            promoted.then_some(new)
        });
        let Some(new) = failover.await else {
            let log = self.sentinels[0].log().await;
            panic!("no failover within {FAILOVER_WITHIN:?}; the first sentinel says:\n{log}")
        };
        *self
            .old_master
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = new;
        self.server_at(new)
    }

    fn server_at(&self, addr: SocketAddr) -> &RedisServer {
        let server = self.servers.iter().find(|server| server.addr() == addr);
        server.expect("the sentinels name one of the servers")
    }
}

fn config(master: SocketAddr) -> String {
    let (ip, port) = (master.ip(), master.port());
    format!(
        "sentinel monitor {NAME} {ip} {port} {QUORUM}\n\
         sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}\n\
         sentinel parallel-syncs {NAME} {REPLICAS}\n"
    )
}

async fn named_master(sentinel: &RedisServer) -> Result<SocketAddr> {
    let answer = sentinel
        .command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])
        .await?;
    let port = answer.items().get(1).and_then(Resp::int);
    Ok(crate::ports::loopback(
        port.expect("the name is known") as u16
    ))
}

async fn sentinel_knows(sentinel: &RedisServer) -> Result<bool> {
    let answer = sentinel.command(&["SENTINEL", "MASTER", NAME]).await?;
    let fields = answer.items().chunks_exact(2);
    let field = |name: &str, value: String| {
        fields
            .clone()
            .any(|pair| pair[0].text() == name && pair[1].text() == value)
    };
    Ok(field("num-slaves", REPLICAS.to_string())
        && field("num-other-sentinels", (SENTINELS - 1).to_string())
        && field("flags", "master".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::need;

    #[tokio::test]
    async fn after_a_kill_a_replica_is_promoted() {
        let group = need!(Sentinel::start().await);
        let old = group.master().await.addr();
        assert_eq!(old, group.servers()[0].addr());

        group.kill_master().await;
        let new = group.wait_for_failover().await;

        assert_ne!(new.addr(), old);
        new.command(&["SET", "k", "v"]).await.unwrap();
        assert_eq!(group.master().await.addr(), new.addr());
    }

    #[tokio::test]
    async fn a_dead_master_comes_back_as_a_replica() {
        let group = need!(Sentinel::start().await);

        let new = group.fail_over().await;
        group.bring_back(&group.servers()[0]).await;

        let master = format!("{}", new.port());
        let back = group.servers()[0].info("master_port").await.unwrap();
        assert_eq!(back, master);
    }

    #[tokio::test]
    async fn what_replicas_did_not_hear_of_is_lost_in_a_failover() {
        let group = need!(Sentinel::start().await);
        let master = group.master().await;
        master.command(&["SET", "k", "replicated"]).await.unwrap();

        group.detach_replicas().await;
        master.command(&["SET", "k", "acknowledged"]).await.unwrap();
        let new = group.fail_over().await;

        let kept = new.command(&["GET", "k"]).await.unwrap();
        assert_eq!(kept.text(), "replicated");
    }

    #[tokio::test]
    async fn a_paused_master_is_replaced_and_becomes_a_replica_when_it_wakes() {
        let group = need!(Sentinel::start().await);

        group.pause_master().await;
        let new = group.wait_for_failover().await;
        new.command(&["SET", "k", "v"]).await.unwrap();

        let old = &group.servers()[0];
        old.resume().await;
        eventually(
            Duration::from_secs(30),
            "the old master is a replica",
            || async { old.info("role").await.is_ok_and(|role| role == "slave") },
        )
        .await;
    }
}
