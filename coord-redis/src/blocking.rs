//! A pool a node for the calls that occupy a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::{Error, Result};
use deadpool_redis::{Connection, Manager, Pool, PoolConfig, Runtime, Timeouts};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

use crate::command::{Command, Reply};
use crate::config::{Address, Config};
use crate::error::{Failure, failure, final_error, not_connected, refused};

/// Connections a node: consumers of one process, each blocking on its own.
const CONNECTIONS: usize = 16;

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
        let what = format!("{} at {address}", command.name);
        let timeouts = Timeouts {
            wait: Some(wait),
            create: Some(wait),
            recycle: Some(wait),
        };
        let pooled = self
            .pool(address)?
            .timeout_get(&timeouts)
            .await
            .map_err(|error| {
                Error::unavailable(format!("{what}: no pooled connection")).with_source(error)
            })?;
        // Taken out of the pool until it has answered: dropped on the way, it closes.
        let mut occupied = Occupied(Some(pooled));
        let connection = occupied.connection();
        connection.set_response_timeout(block + MARGIN);
        let answer = connection.send_packed_command(&command.cmd).await;
        match answer.and_then(Reply::from_value) {
            Ok(reply) => {
                occupied.answered();
                Ok(reply)
            }
            Err(error) => Err(match failure(&error, command.script.is_some()) {
                Failure::Unanswered | Failure::Dropped => Error::timeout(what).with_source(error),
                Failure::Refused(refusal) => refused(refusal, command.name, address, error),
                Failure::Elsewhere { .. } => {
                    Error::unavailable(format!("{what}: the slot has moved")).with_source(error)
                }
                Failure::UnknownScript => Error::unavailable(what).with_source(error),
                Failure::Final(kind) => {
                    occupied.answered();
                    final_error(kind, what, error)
                }
            }),
        }
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

/// A connection that goes back to its pool only once it has answered. One that is given up with
/// a call outstanding is closed, so that what the call would pop is not lost in it.
struct Occupied(Option<Connection>);

impl Occupied {
    fn connection(&mut self) -> &mut Connection {
        self.0.as_mut().expect("taken only by drop and answered")
    }

    fn answered(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
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
        .config(PoolConfig::new(CONNECTIONS))
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
