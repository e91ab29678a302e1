//! `coord serve`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use coord_core::{Env, Error, Name, Result};
use coord_engine::EngineConfig;
use coord_ratelimit::{Limit, Limiter, Quota, WithoutRedis};
use coord_redis::Redis;
use coord_server::{Config, Node};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Common, place};

/// How often what was measured is put into its buckets, so that it does not pile up while nobody
/// asks for metrics.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct Serve {
    /// Where it accepts HTTP, in place of `COORD_LISTEN`.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Asks nobody for a token; on loopback alone.
    #[arg(long)]
    open: bool,
}

impl Serve {
    pub(crate) async fn run(self, common: &Common) -> Result<()> {
        let env = place::env(common);
        let level = EngineConfig::from_env(&env)?.log_level;
        let metrics = crate::logs::install(level)?;
        let mut config = Config::from_env(&env)?;
        config.listen = self.listen.unwrap_or(config.listen);
        config.is_open = self.open;

        // Before anything is begun, so that no signal is missed.
        let mut signals = Signals::new()?;
        let mut again = Signals::new()?;
        tokio::select! {
            served = serve(&config, &env, metrics, async move { signals.told().await }) => served,
            () = async { again.told().await; again.told().await } => {
                Err(Error::unavailable("ended at once, since it was told to end twice"))
            }
        }
    }
}

/// Serves until `end`, and then ends as [`coord_server::serve`] does; at last what is left of traces is
/// sent.
async fn serve(
    config: &Config,
    env: &Env,
    metrics: PrometheusHandle,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let access = config.access()?;
    #[cfg(feature = "otlp")]
    let traces = coord_server::Traces::from_env(env)?;
    let engine = EngineConfig::from_env(env)?.start().await?;
    let redis = redis(env).await?;
    let mut node = Node::builder(engine, access);
    if let Some(redis) = &redis {
        node = node.redis(redis.clone());
    }
    if let Some(limiter) = limiter(config, redis.as_ref())? {
        node = node.limiter(limiter);
    }
    let rendered = metrics.clone();
    let node = node.metrics(move || rendered.render()).realtime().build();
    let listener = TcpListener::bind(config.listen).await.map_err(|error| {
        Error::unavailable(format!("listening on {}", config.listen)).with_source(error)
    })?;
    let address = listener.local_addr().map_err(|error| {
        Error::unavailable(format!("listening on {}", config.listen)).with_source(error)
    })?;
    println!("coord: serving http://{address}");

    let served = tokio::select! {
        served = coord_server::serve(&node, listener, end, config.drain) => served,
        () = upkeep(&metrics) => Ok(()),
    };
    #[cfg(feature = "otlp")]
    if let Some(traces) = traces {
        traces.shutdown().await;
    }
    served
}

async fn upkeep(metrics: &PrometheusHandle) {
    loop {
        tokio::time::sleep(METRICS_UPKEEP).await;
        metrics.run_upkeep();
    }
}

/// The Redis that the environment names, if it names one.
async fn redis(env: &Env) -> Result<Option<Redis>> {
    let url = coord_redis::VARIABLES
        .iter()
        .find(|variable| variable.name == "COORD_REDIS_URL")
        .expect("coord-redis reads its URL there");
    if env.text(url)?.is_none() {
        return Ok(None);
    }
    let config = coord_redis::Config::from_env(env)?;
    Redis::connect(config).await.map(Some)
}

fn limiter(config: &Config, redis: Option<&Redis>) -> Result<Option<Limiter>> {
    let Some(rate) = config.rate_limit else {
        return Ok(None);
    };
    let redis = redis.ok_or_else(|| {
        Error::invalid("COORD_RATE_LIMIT counts over all nodes in Redis: set COORD_REDIS_URL too")
    })?;
    let quota = Quota::per_second(rate.get())?;
    let limit = Limit::gcra(Name::new("http")?, quota, rate.get())?;
    Limiter::new(redis, [limit], WithoutRedis::Allow).map(Some)
}

/// What tells a node to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let deaf = |error| Error::unavailable("listening for signals").with_source(error);
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(deaf)?,
            interrupt: signal(SignalKind::interrupt()).map_err(deaf)?,
        })
    }

    async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
