//! How soon a subscriber learns that it missed a message, when its connection has fallen silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coord_broadcast::{Broadcast, Gap, Received, Subscription, Topic};
use coord_core::Name;
use coord_redis::{Config, Redis};
use redis::{ConnectionAddr, IntoConnectionInfo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::PATIENCE;
use crate::Result;
use crate::server::Server;
use crate::statistics::Spread;
use crate::table::{Cost, Row, Target};

/// The default of coord-redis.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);

/// Connected one after the other over one interval, so that the silence begins in every phase of it.
pub(super) const SUBSCRIBERS: u32 = 16;

pub(super) async fn row(server: &Server) -> Result<Row> {
    let relay = Relay::start(server).await?;
    let topic: Topic<String> = Topic::new(Name::new("bench-gap")?);
    let publisher = Broadcast::new(&server.coord(true).await?);
    publisher.publish(&topic, &"the first".to_owned()).await?;
    let mut waiting = JoinSet::new();
    for _ in 0..SUBSCRIBERS {
        let url = format!("redis://{}", relay.address);
        let config = Config::from_url(&url)?.prefix("bench")?;
        let redis = Redis::connect(config.ping_interval(INTERVAL)).await?;
        let mut subscription = Broadcast::new(&redis).subscribe(&topic).await?;
        waiting.spawn(async move {
            let found = first_gap(&mut subscription).await;
            drop(redis);
            found
        });
        tokio::time::sleep(INTERVAL / SUBSCRIBERS).await;
    }
    relay.silence();
    let start = Instant::now();
    publisher.publish(&topic, &"missed".to_owned()).await?;
    let mut intervals = Vec::new();
    let all = async {
        while let Some(found) = waiting.join_next().await {
            let found = found??.duration_since(start);
            intervals.push(found.as_secs_f64() / INTERVAL.as_secs_f64());
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    let in_time = tokio::time::timeout(PATIENCE, all).await;
    in_time.map_err(|_| "a subscriber is not told of what it missed")??;
    let latest = intervals.iter().copied().fold(0.0, f64::max);
    Ok(Row {
        work: "the last to learn of a miss".to_owned(),
        peer: "none tells".to_owned(),
        unit: "ping intervals",
        ours: Spread::of([latest]),
        theirs: Spread::of([f64::INFINITY]),
        ratio: f64::NAN,
        target: None,
        met: None,
        our_cost: Cost::default(),
        their_cost: Cost::default(),
    }
    .aim(Target::OursAtMost(2.0)))
}

/// When the one message is known to be missed.
async fn first_gap(subscription: &mut Subscription<String>) -> Result<Instant> {
    match subscription.next().await {
        Some(Received::Gap(Gap {
            missed: Some(missed),
            ..
        })) if missed.start() == missed.end() => Ok(Instant::now()),
        other => Err(format!("coord-broadcast: {other:?} instead of a gap").into()),
    }
}

/// Passes bytes on to the server, until it keeps to itself what the server says.
struct Relay {
    address: SocketAddr,
    /// How many connections are silent: the first ones, whereas all later ones work.
    silent: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    _work: JoinSet<()>,
}

impl Relay {
    async fn start(server: &Server) -> Result<Self> {
        let info = server.url().into_connection_info()?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
            return Err("the server is not reached by TCP".into());
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (silent, accepted) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (now_silent, number) = (Arc::clone(&silent), Arc::clone(&accepted));
        let mut work = JoinSet::new();
        work.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect((host.as_str(), port)).await else {
                    continue;
                };
                let (number, silent) = (
                    number.fetch_add(1, Ordering::SeqCst),
                    Arc::clone(&now_silent),
                );
                connections.spawn(async move {
                    let is_silent = || number < silent.load(Ordering::SeqCst);
                    // Either end closes both; why is of no interest here.
                    _ = relay(client, server, is_silent).await;
                });
            }
        });
        Ok(Self {
            address,
            silent,
            accepted,
            _work: work,
        })
    }

    /// From here on nothing comes from the server on the connections that are open.
    fn silence(&self) {
        let open = self.accepted.load(Ordering::SeqCst);
        self.silent.store(open, Ordering::SeqCst);
    }
}

async fn relay(
    mut client: TcpStream,
    mut server: TcpStream,
    is_silent: impl Fn() -> bool,
) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let back = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let read = from_server.read(&mut bytes).await?;
            if read == 0 {
                return Ok(());
            }
            if !is_silent() {
                to_client.write_all(&bytes[..read]).await?;
            }
        }
    };
    tokio::select! {
        copied = tokio::io::copy(&mut from_client, &mut to_server) => copied.map(drop),
        ended = back => ended,
    }
}
