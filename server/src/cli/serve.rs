//! `coord serve`.

use std::net::SocketAddr;

use clap::Args;
use coord_core::{Env, Error, Result};
use coord_engine::{Engine, Limits};
use coord_server::{Config, Node};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
pub(crate) struct Serve {
    /// Where it accepts HTTP, in place of `COORD_LISTEN`.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The database of the engine, in place of `COORD_DATABASE_URL`.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<()> {
        crate::logs::install()?;
        let env = Env::process();
        let mut config = Config::from_env(&env)?;
        config.listen = self.listen.unwrap_or(config.listen);
        config.database_url = self.database.unwrap_or(config.database_url);

        // Before anything is begun, so that no signal is missed.
        let deaf = |error| Error::unavailable("listening for signals").with_source(error);
        let mut terminate = signal(SignalKind::terminate()).map_err(deaf)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(deaf)?;
        let engine = Engine::builder_at(&config.database_url)?
            .limits(Limits::from_env(&env)?)
            .start()
            .await?;
        let node = Node::new(engine.clone());
        let listener = TcpListener::bind(config.listen).await.map_err(|error| {
            Error::unavailable(format!("listening on {}", config.listen)).with_source(error)
        })?;
        let end = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let served = coord_server::serve(&node, listener, end, config.drain).await;
        engine.shutdown().await?;
        served
    }
}
