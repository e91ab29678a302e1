//! A pool a node for the calls that occupy a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::{Error, Result};
use deadpool_redis::{Connection, Manager, Pool, PoolConfig, Runtime, Timeouts};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

use crate::command::{Command, Reply};
use crate::config::{Address, Config};
use crate::error::{Failure, failure, final_error, not_connected, refused};

/// How much longer than the server blocks the reply may take before the connection is given up.
const MARGIN: Duration = Duration::from_secs(1);

pub(crate) struct Pools {
    config: Arc<Config>,
    pools: Mutex<HashMap<Address, Pool>>,
}

impl Pools {
    pub(crate) fn new(config: &Arc<Config>) -> Self {
        Self {
            config: Arc::clone(config),
            pools: Mutex::default(),
        }
    }

    pub(crate) async fn run(
        &self,
        address: &Address,
        command: &Command,
        block: Duration,
        wait: Duration,
    ) -> Result<Reply> {
        let mut connection = self.take(address, command.name, wait).await?;
        connection.ask(command, block).await
    }

    /// Runs `write`, then waits on the same connection until `replicas` of them have confirmed
    /// it or `within` is over; gives the reply and how many have.
    pub(crate) async fn replicate(
        &self,
        address: &Address,
        write: &Command,
        replicas: u32,
        within: Duration,
        wait: Duration,
    ) -> Result<(Reply, u32)> {
        let mut connection = self.take(address, write.name, wait).await?;
        let reply = connection.ask(write, wait).await?;
        // To the server 0 ms is for ever.
        let limit = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).max(1);
        let confirmed = Command::new("WAIT").arg(replicas).arg(limit);
        let confirmed = connection.ask(&confirmed, within).await?.int()?;
        Ok((reply, u32::try_from(confirmed).unwrap_or(0)))
    }

    async fn take(&self, address: &Address, name: &str, wait: Duration) -> Result<Occupied> {
        let timeouts = Timeouts {
            wait: Some(wait),
            create: Some(wait),
            recycle: Some(wait),
        };
        let pooled = self.pool(address)?.timeout_get(&timeouts).await;
        let connection = pooled.map_err(|error| {
            Error::unavailable(format!("{name} at {address}: no pooled connection"))
                .with_source(error)
        })?;
        Ok(Occupied {
            address: address.clone(),
            connection: Some(connection),
            outstanding: false,
        })
    }

    pub(crate) fn close(&self) {
        for pool in self.lock().values() {
            pool.close();
        }
    }

    fn pool(&self, address: &Address) -> Result<Pool> {
        let mut pools = self.lock();
        if let Some(pool) = pools.get(address) {
            return Ok(pool.clone());
        }
        let pool = open(&self.config, address)?;
        pools.insert(address.clone(), pool.clone());
        Ok(pool)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Address, Pool>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that goes back to its pool only if it has answered. One that is given up with
/// a call outstanding is closed, so that what the call would pop is not lost in it.
struct Occupied {
    address: Address,
    /// Nothing only while it is dropped.
    connection: Option<Connection>,
    outstanding: bool,
}

impl Occupied {
    /// Asks one thing, whose answer may take `block` and a little more.
    async fn ask(&mut self, command: &Command, block: Duration) -> Result<Reply> {
        let answer = self.send(&command.cmd, block).await;
        let answer = match (answer, command.script) {
            (Err(error), Some(script))
                if matches!(failure(&error, true), Failure::UnknownScript) =>
            {
                self.send(&command.with_source(script), block).await
            }
            (answer, _) => answer,
        };
        let (name, address) = (command.name, &self.address);
        let what = format!("{name} at {address}");
        answer.map_err(|error| match failure(&error, command.script.is_some()) {
            Failure::Unanswered | Failure::Dropped => Error::timeout(what).with_source(error),
            Failure::Refused(refusal) => refused(refusal, name, address, error),
            Failure::Elsewhere { .. } => {
                Error::unavailable(format!("{what}: the slot has moved")).with_source(error)
            }
            Failure::UnknownScript => Error::unavailable(what).with_source(error),
            Failure::Final(kind) => {
                self.outstanding = false;
                final_error(kind, what, error)
            }
        })
    }

    async fn send(&mut self, cmd: &Cmd, block: Duration) -> redis::RedisResult<Reply> {
        self.outstanding = true;
        let connection = self.connection.as_mut().expect("taken only by drop");
        connection.set_response_timeout(block + MARGIN);
        let answer = connection.send_packed_command(cmd).await;
        let reply = answer.and_then(Reply::from_value)?;
        self.outstanding = false;
        Ok(reply)
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take_if(|_| self.outstanding) {
            drop(Connection::take(connection));
        }
    }
}

fn open(config: &Config, address: &Address) -> Result<Pool> {
    let what = format!("opening the pool to redis at {address}");
    let (host, port) = (address.host.clone(), address.port);
    let server = if config.tls {
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    let mut info = RedisConnectionInfo::default().set_db(config.database.into());
    if let Some(username) = &config.credentials.username {
        info = info.set_username(username);
    }
    if let Some(password) = &config.credentials.password {
        info = info.set_password(password);
    }
    let tcp = TcpSettings::default().set_nodelay(config.nodelay);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let tcp = tcp.set_user_timeout(config.ping_interval * 2);
    let info = server
        .into_connection_info()
        .map_err(|error| not_connected(&what, error))?
        .set_redis_settings(info)
        .set_tcp_settings(tcp);
    #[cfg(feature = "tls")]
    let info = with_ca(config, info, &what)?;
    let settings =
        AsyncConnectionConfig::new().set_connection_timeout(Some(config.connect_timeout));
    let manager =
        Manager::new_with_config(info, settings).map_err(|error| not_connected(&what, error))?;
    Pool::builder(manager)
        .config(PoolConfig::new(config.blocking_connections.get()))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| Error::invalid(what).with_source(error))
}

#[cfg(feature = "tls")]
fn with_ca(
    config: &Config,
    info: redis::ConnectionInfo,
    what: &str,
) -> Result<redis::ConnectionInfo> {
    let (true, Some(path)) = (config.tls, &config.ca_file) else {
        return Ok(info);
    };
    let pem = std::fs::read(path).map_err(|error| {
        Error::invalid(format!("reading the CA file {}", path.display())).with_source(error)
    })?;
    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(pem),
    };
    let client = redis::Client::build_with_tls(info, certificates)
        .map_err(|error| not_connected(what, error))?;
    Ok(client.get_connection_info().clone())
}
