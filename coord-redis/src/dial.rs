//! Opening one connection: TCP, TLS, authentication, and the driver that carries its bytes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coord_core::{Error, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, JoinSet};

use crate::config::{Address, Config, Credentials, Topology};
use crate::error::{Failure, failure, not_connected};
use crate::signals::Purpose;

/// An open connection. Its driver ends when the connection does, and the other way round.
pub(crate) struct Dialed {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) driver: Driver,
    /// Whether the driver still runs: what is sent after it ended never left.
    pub(crate) open: Arc<AtomicBool>,
    pub(crate) address: Address,
}

/// The task that carries a connection's bytes; dropping it closes the connection.
pub(crate) struct Driver(JoinHandle<()>);

impl Driver {
    /// Waits for the connection to end.
    pub(crate) async fn ended(&mut self) {
        _ = (&mut self.0).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Marks the connection as closed when its driver ends or is aborted.
struct Closing(Arc<AtomicBool>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Which node to open a connection to.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The one server, or the master that the sentinels name now.
    Master,
    /// This node of a cluster.
    Node(Address),
}

/// Opens a connection to `target`. With `pushes` it speaks RESP3 and carries subscriptions only:
/// pushes beside replies can take the place of a reply.
pub(crate) async fn dial(
    config: &Config,
    target: &Target,
    purpose: Purpose,
    pushes: Option<UnboundedSender<PushInfo>>,
) -> Result<Dialed> {
    let address = match (target, &config.topology) {
        (Target::Node(address), _) | (Target::Master, Topology::Standalone(address)) => {
            address.clone()
        }
        (Target::Master, Topology::Sentinel { sentinels, master }) => {
            master_address(config, sentinels, master).await?
        }
        (Target::Master, Topology::Cluster(_)) => {
            unreachable!("a cluster's connections are opened to its nodes")
        }
    };
    #[cfg(feature = "tls")]
    let over = if config.tls { " over TLS" } else { "" };
    #[cfg(not(feature = "tls"))]
    let over = "";
    let what = format!("connecting to redis at {address}{over}");
    let opening = open(
        config,
        &address,
        &config.credentials,
        config.database,
        pushes,
    );
    let dialed = within(config.connect_timeout, &what, opening).await?;
    let mut connection = dialed.connection.clone();
    if let (Target::Master, Topology::Sentinel { sentinels, master }) = (target, &config.topology) {
        within(
            config.connect_timeout,
            &what,
            require_master(&mut connection, &what),
        )
        .await?;
        // A master that was paused while it was replaced answers as if nothing had happened.
        if master_address(config, sentinels, master).await? != address {
            return Err(Error::unavailable(format!(
                "{what}: the sentinels have replaced it"
            )));
        }
    }
    let mut name = redis::cmd("CLIENT");
    name.arg("SETNAME")
        .arg(format!("coord-{}", name_of(purpose)));
    let naming = async {
        // An ACL user without CLIENT works just as well without a name.
        _ = connection.send_packed_command(&name).await;
        Ok(())
    };
    within(config.connect_timeout, &what, naming).await?;
    Ok(dialed)
}

fn name_of(purpose: Purpose) -> &'static str {
    use coord_core::signals::Argument as _;
    purpose.logged()
}

async fn within<T>(
    limit: Duration,
    what: &str,
    attempt: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(limit, attempt)
        .await
        .unwrap_or_else(|_| {
            Err(Error::unavailable(format!(
                "{what}: no answer within {limit:?}"
            )))
        })
}

async fn open(
    config: &Config,
    address: &Address,
    credentials: &Credentials,
    database: u32,
    pushes: Option<UnboundedSender<PushInfo>>,
) -> Result<Dialed> {
    let what = format!("connecting to redis at {address}");
    let stream = TcpStream::connect((address.host.as_str(), address.port))
        .await
        .map_err(|error| Error::unavailable(what.clone()).with_source(error))?;
    tune(&stream, config).map_err(|error| Error::unavailable(what.clone()).with_source(error))?;
    #[cfg(feature = "tls")]
    if config.tls {
        let stream = crate::tls::connect(config, address, stream).await?;
        let dialed = handshake(stream, address, credentials, database, pushes).await;
        return dialed.map_err(|error| not_connected(&what, error));
    }
    let dialed = handshake(stream, address, credentials, database, pushes).await;
    dialed.map_err(|error| match failure(&error, false) {
        Failure::Dropped => Error::unavailable(format!(
            "{what}: it hung up or speaks something else; TLS wants a rediss:// URL, and a server that has as many clients as its maxclients hangs up too"
        ))
        .with_source(error),
        _ => not_connected(&what, error),
    })
}

/// A half-open peer makes itself known: unacknowledged bytes after two health checks, an idle
/// connection by keepalive.
fn tune(stream: &TcpStream, config: &Config) -> std::io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(config.nodelay)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(config.ping_interval * 2))?;
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the driver is owned by the Dialed it is part of"
)]
async fn handshake(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    address: &Address,
    credentials: &Credentials,
    database: u32,
    pushes: Option<UnboundedSender<PushInfo>>,
) -> Result<Dialed, RedisError> {
    let protocol = match pushes {
        Some(_) => ProtocolVersion::RESP3,
        None => ProtocolVersion::RESP2,
    };
    let mut info = RedisConnectionInfo::default()
        .set_protocol(protocol)
        .set_db(database.into());
    if let Some(username) = &credentials.username {
        info = info.set_username(username);
    }
    if let Some(password) = &credentials.password {
        info = info.set_password(password);
    }
    // Every call has its own deadline, which starts before the queue and not behind it.
    let mut settings = AsyncConnectionConfig::new().set_response_timeout(None);
    if let Some(pushes) = pushes {
        settings = settings.set_push_sender(pushes);
    }
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&info, stream, settings).await?;
    let open = Arc::new(AtomicBool::new(true));
    let closing = Closing(Arc::clone(&open));
    let driver = tokio::spawn(async move {
        let _closing = closing;
        driver.await;
    });
    Ok(Dialed {
        connection,
        driver: Driver(driver),
        open,
        address: address.clone(),
    })
}

/// Asks all sentinels at once, until a majority has answered. The answer of the highest
/// configuration epoch holds: each failover raises it, and a sentinel may not have heard yet.
async fn master_address(config: &Config, sentinels: &[Address], master: &str) -> Result<Address> {
    let mut asking = JoinSet::new();
    for sentinel in sentinels {
        let (config, sentinel, master) = (config.clone(), sentinel.clone(), master.to_owned());
        asking.spawn(async move {
            let what = format!("asking the sentinel at {sentinel} for {master}");
            within(
                config.connect_timeout,
                &what,
                ask_sentinel(&config, &sentinel, &master, &what),
            )
            .await
        });
    }
    let mut failed = Error::invalid("no sentinel is configured");
    let mut answers = Vec::new();
    while let Some(asked) = asking.join_next().await {
        match asked {
            Ok(Ok(answer)) => answers.push(answer),
            Ok(Err(error)) => failed = error,
            Err(error) => failed = Error::unavailable("asking the sentinels").with_source(error),
        }
        if answers.len() > sentinels.len() / 2 {
            break;
        }
    }
    let newest = answers.into_iter().max_by_key(|(epoch, _)| *epoch);
    newest.map(|(_, address)| address).ok_or(failed)
}

/// The configuration epoch and the master's address, as one sentinel knows them.
async fn ask_sentinel(
    config: &Config,
    sentinel: &Address,
    master: &str,
    what: &str,
) -> Result<(u64, Address)> {
    let mut dialed = open(config, sentinel, &config.sentinel_credentials, 0, None).await?;
    let mut questions = redis::pipe();
    questions
        .cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(master);
    questions.cmd("SENTINEL").arg("MASTER").arg(master);
    let (address, details): (Option<(String, u16)>, HashMap<String, String>) = questions
        .query_async(&mut dialed.connection)
        .await
        .map_err(|error| not_connected(what, error))?;
    let (host, port) = address
        .ok_or_else(|| Error::unavailable(format!("{what}: it does not know this master")))?;
    let epoch = details
        .get("config-epoch")
        .and_then(|epoch| epoch.parse().ok())
        .unwrap_or(0);
    Ok((epoch, Address { host, port }))
}

/// During a failover the sentinels may still name the old master, which may be a replica by now.
async fn require_master(connection: &mut MultiplexedConnection, what: &str) -> Result<()> {
    let role: Vec<redis::Value> = redis::cmd("ROLE")
        .query_async(connection)
        .await
        .map_err(|error| not_connected(what, error))?;
    match role.first() {
        Some(redis::Value::BulkString(role)) if role == b"master" => Ok(()),
        _ => Err(Error::unavailable(format!(
            "{what}: it is a replica, no master yet"
        ))),
    }
}
