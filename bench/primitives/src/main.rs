//! The Redis primitives side by side with their peers.

mod broadcast;
mod cache;
mod handover;
mod limit;
mod lock;
mod npm;
mod renewal;
mod round;
mod scripts;
mod server;
mod tick;

use std::process::ExitCode;

use coord_bench_measure::results::{Results, block_on, finished};
use coord_bench_measure::{Result, machine, statistics, table};
use coord_core::{Env, Variable};

use npm::Npm;
use server::Server;
use table::Table;

const URL: Variable = Variable::new("COORD_BENCH_REDIS_URL", "", "The server to measure on: one of its own, since what it does for others counts too.");

/// Both cores of a small machine, of which the server needs one.
const WORKERS: usize = 2;

const NAMES: [&str; 7] = [
    "lock",
    "handover",
    "renewal",
    "limit",
    "tick",
    "cache",
    "broadcast",
];

fn main() -> ExitCode {
    let names: Vec<_> = std::env::args().skip(1).collect();
    match names.split_first().map(|(one, rest)| (one.as_str(), rest)) {
        Some((broadcast::NODE, rest)) => return finished(block_on(1, broadcast::node(rest))),
        Some((cache::NODE, [url])) => return finished(block_on(WORKERS, cache::node(url))),
        _ => {}
    }
    if let Some(name) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        eprintln!("bench: {name} is none of {}", NAMES.join(", "));
        return ExitCode::from(2);
    }
    finished(block_on(WORKERS, run(&names)))
}

async fn run(names: &[String]) -> Result<()> {
    let env = Env::process();
    let url = env.text(&URL)?.ok_or_else(|| {
        let name = URL.name;
        format!("{name} is not set; `cargo xtask bench` starts a server and sets it")
    })?;
    let server = Server::connect(url).await?;
    let npm = match Npm::start().await {
        Ok(npm) => Some(npm),
        Err(why) => {
            println!("bench: without the npm peers, since {why}");
            None
        }
    };
    let mut results = Results::open();
    let identity = server.identity().await?;
    for name in NAMES {
        if !names.is_empty() && !names.iter().any(|one| one == name) {
            continue;
        }
        server.forget_scripts().await?;
        let load = machine::load();
        let mut table: Table = match name {
            "lock" => lock::run(&server, npm.as_ref()).await?,
            "handover" => handover::run(&server, npm.as_ref()).await?,
            "renewal" => renewal::run(&server).await?,
            "limit" => limit::run(&server, npm.as_ref()).await?,
            "tick" => tick::run(&server, npm.as_ref()).await?,
            "cache" => cache::run(&server, npm.as_ref()).await?,
            _ => broadcast::run(&server).await?,
        };
        (table.load, table.server) = (load, identity.clone());
        results.add(name, &table)?;
    }
    results.close();
    Ok(())
}
