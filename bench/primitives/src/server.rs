//! The server: how it is reached, and what it says of its own work.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coord_redis::{Config, Redis};
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};

use crate::Result;
use crate::statistics::quantile;

/// The PINGs of one measurement of the round trip.
const PINGS: usize = 2000;

/// What the bare client waits for an answer. By default half a second, which a busy machine may
/// take to answer a whole backlog.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server under test, with a connection that only looks at it.
pub(crate) struct Server {
    url: String,
    admin: MultiplexedConnection,
}

/// What the server has done so far.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// By command, calls and microseconds. What a script calls is in it, under its own name too.
    commands: BTreeMap<String, (u64, f64)>,
    cpu: f64,
}

impl Server {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let client = Client::open(url)?;
        Ok(Self {
            url: url.to_owned(),
            admin: connected(&client).await?,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What it calls itself.
    pub(crate) async fn identity(&self) -> Result<String> {
        let info = self.info("server").await?;
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
        let version = field("valkey_version:").map(|version| format!("Valkey {version}"));
        let redis = || format!("Redis {}", field("redis_version:").unwrap_or("unknown"));
        Ok(version.unwrap_or_else(redis))
    }

    pub(crate) async fn usage(&self) -> Result<Usage> {
        let mut usage = Usage::default();
        for line in self.info("cpu").await?.lines() {
            if let Some(("used_cpu_sys" | "used_cpu_user", seconds)) = line.split_once(':') {
                usage.cpu += seconds.parse::<f64>()? * 1e6;
            }
        }
        for line in self.info("commandstats").await?.lines() {
            let Some((name, fields)) = line
                .strip_prefix("cmdstat_")
                .and_then(|line| line.split_once(':'))
            else {
                continue;
            };
            let field = |name| {
                let mut pairs = fields.split(',').filter_map(|field| field.split_once('='));
                let found = pairs.find(|&(key, _)| key == name);
                found.and_then(|(_, value)| value.parse::<u64>().ok())
            };
            let calls = field("calls").unwrap_or_default();
            let usec = field("usec").unwrap_or_default() as f64;
            usage.commands.insert(name.to_owned(), (calls, usec));
        }
        Ok(usage)
    }

    /// The median of PINGs one after the other on a connection that does nothing else.
    pub(crate) async fn round_trip(&self) -> Result<Duration> {
        let mut connection = self.plain(true).await?;
        let ping = redis::cmd("PING");
        let mut times = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let start = Instant::now();
            ping.query_async::<()>(&mut connection).await?;
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(Duration::from_secs_f64(quantile(&mut times, 0.5)))
    }

    pub(crate) fn client(&self, nodelay: bool) -> Result<Client> {
        let info = self.url.as_str().into_connection_info()?;
        let tcp = info.tcp_settings().clone().set_nodelay(nodelay);
        Ok(Client::open(info.set_tcp_settings(tcp))?)
    }

    /// A connection of the bare client.
    pub(crate) async fn plain(&self, nodelay: bool) -> Result<MultiplexedConnection> {
        connected(&self.client(nodelay)?).await
    }

    /// A connection of the bare client that it connects again by itself.
    pub(crate) async fn managed(&self) -> Result<ConnectionManager> {
        let config = ConnectionManagerConfig::new().set_response_timeout(Some(PATIENCE));
        let client = self.client(true)?;
        Ok(client.get_connection_manager_with_config(config).await?)
    }

    /// A client of the coord crates.
    pub(crate) async fn coord(&self, nodelay: bool) -> Result<Redis> {
        let config = Config::from_url(&self.url)?
            .prefix("bench")?
            .nodelay(nodelay);
        Ok(Redis::connect(config).await?)
    }

    /// Forgets all scripts. Those of earlier benchmarks would slow down the scripts of later ones,
    /// since Lua's garbage collector walks over all that the server has ever seen.
    pub(crate) async fn forget_scripts(&self) -> Result<()> {
        let mut connection = self.admin.clone();
        let mut flush = redis::cmd("SCRIPT");
        flush.arg("FLUSH").arg("SYNC");
        Ok(flush.query_async(&mut connection).await?)
    }

    /// How many entries the stream `key` has.
    pub(crate) async fn stream_length(&self, key: &str) -> Result<u64> {
        let mut connection = self.admin.clone();
        let mut length = redis::cmd("XLEN");
        Ok(length.arg(key).query_async(&mut connection).await?)
    }

    async fn info(&self, section: &str) -> Result<String> {
        let mut connection = self.admin.clone();
        let mut info = redis::cmd("INFO");
        Ok(info.arg(section).query_async(&mut connection).await?)
    }
}

async fn connected(client: &Client) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    let connected = client.get_multiplexed_async_connection_with_config(&config);
    Ok(connected.await?)
}

impl Usage {
    /// What was done after `before`.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        self.cpu -= before.cpu;
        for (name, (calls, usec)) in &mut self.commands {
            let (calls_before, usec_before) =
                before.commands.get(name).copied().unwrap_or_default();
            *calls -= calls_before;
            *usec -= usec_before;
        }
        self
    }

    /// Calls of the commands `names`.
    pub(crate) fn calls(&self, names: &[&str]) -> u64 {
        self.of(names).map(|(calls, _)| calls).sum()
    }

    /// Microseconds in the commands `names`, without reading them and writing their replies.
    pub(crate) fn executing_us(&self, names: &[&str]) -> f64 {
        self.of(names).map(|(_, usec)| usec).sum()
    }

    /// Microseconds of the server's CPU, everything included.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu
    }

    fn of(&self, names: &[&str]) -> impl Iterator<Item = (u64, f64)> {
        names
            .iter()
            .filter_map(|&name| self.commands.get(name).copied())
    }
}
