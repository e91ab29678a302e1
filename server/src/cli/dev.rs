//! `coord dev`.

mod examples;

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use coord_core::{Env, Error, Result};
use coord_engine::EngineConfig;
use coord_server::{Access, Node};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::exit::Failure;
use super::show::Shown;

/// How long it may take to end what it has begun: whoever tries things out is not kept waiting, and
/// what is left goes on at the next start.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct Dev {
    /// Where it keeps its database. Made if it is not there; what is there goes on.
    #[arg(long, value_name = "FOLDER", default_value = "coord-dev")]
    folder: PathBuf,
    /// Where it accepts HTTP. Whoever reaches it may do everything.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = loopback)]
    listen: SocketAddr,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "it is an address and a port, such as 127.0.0.1:8080".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(
            "it asks nobody for a token, so it serves this machine alone: take 127.0.0.1"
                .to_owned(),
        )
    }
}

impl Dev {
    pub(super) async fn run(self) -> Result<Shown, Failure> {
        // Before anything is begun, so that no signal is missed.
        let deaf = |error| Error::unavailable("listening for signals").with_source(error);
        let mut terminate = signal(SignalKind::terminate()).map_err(deaf)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(deaf)?;
        crate::logs::for_people()?;

        let database = self.database()?;
        let busy = |error| {
            Error::unavailable(format!(
                "listening on {}: take another --listen",
                self.listen
            ))
            .with_source(error)
        };
        let listener = TcpListener::bind(self.listen).await.map_err(busy)?;
        let address = listener.local_addr().map_err(busy)?;
        // Nothing of the environment: what a newcomer tries touches nothing that is there. Hints go
        // through the database, so that the commands of another terminal are heard at once.
        let pairs = [
            ("DATABASE_URL", database.as_str()),
            ("CACHE_DRIVER", "database"),
        ];
        let config = EngineConfig::from_env(&Env::from_pairs(pairs))?;
        let engine = config.builder()?.start().await?;
        let worker = examples::worker(&engine);
        let node = Node::builder(engine, Access::open()).realtime();
        let node = node.beside(async |ending| {
            worker.shutdown(ending.told().await).await;
            Ok(())
        });
        let node = node.build();
        announce(&database, address);

        let end = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        coord_server::serve(&node, listener, end, DRAIN).await?;
        Ok(Shown::nothing())
    }

    /// The database in the folder, which is there from here on.
    fn database(&self) -> Result<String> {
        let failed = |error| {
            let folder = self.folder.display();
            Error::unavailable(format!("making the folder {folder}")).with_source(error)
        };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let folder = fs::canonicalize(&self.folder).map_err(failed)?;
        let file = folder.join("coord.db");
        let readable = file
            .to_str()
            .filter(|path| !path.contains(['?', '#', '%', '\'']));
        let file = readable.ok_or_else(|| {
            let folder = folder.display();
            Error::invalid(format!(
                "the path {folder} has signs that no URL takes as they are"
            ))
        })?;
        Ok(format!("sqlite:{file}"))
    }
}

/// Says where it is, and what to try.
fn announce(database: &str, address: SocketAddr) {
    let program = Env::program().unwrap_or_else(|| "coord".to_owned());
    let steps = examples::STEPS.iter();
    let steps = steps.map(|(step, about)| format!("  # {about}\n  {program} {step}\n"));
    let steps = steps.collect::<Vec<_>>().concat();
    let text = format!(
        "\
A node serves http://{address}, with a worker for the example workflows.

In another terminal:

  export DATABASE_URL='{database}'
{steps}
Ctrl-C ends it. What was begun stays in the database, and goes on at the next start.
"
    );
    let mut out = std::io::stdout().lock();
    // Nobody may read it.
    _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_serves_this_machine_alone() {
        assert!(loopback("127.0.0.1:0").is_ok());
        assert!(loopback("[::1]:8080").is_ok());
        assert!(loopback("0.0.0.0:8080").is_err());
        assert!(loopback("everywhere").is_err());
    }
}
