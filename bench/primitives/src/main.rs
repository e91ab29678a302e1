//! The Redis primitives side by side with their peers.

mod broadcast;
mod cache;
mod handover;
mod limit;
mod lock;
mod machine;
mod npm;
mod renewal;
mod round;
mod scripts;
mod server;
mod statistics;
mod table;
mod tick;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use coord_core::{Env, Variable};
use serde::Serialize;
use serde_json::Value;

use machine::Machine;
use npm::Npm;
use server::Server;
use table::Table;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const URL: Variable = Variable {
    name: "COORD_BENCH_REDIS_URL",
    default: "",
    about: "The server to measure on: one of its own, since what it does for others counts too.",
};

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

/// What stands in `bench/results.json`: the last run of each benchmark.
#[derive(Serialize)]
struct Results {
    machine: Machine,
    benchmarks: BTreeMap<String, Value>,
}

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

fn block_on(workers: usize, work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

fn finished(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
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
    let mut results = Results {
        machine: Machine::new(server.identity().await?),
        benchmarks: earlier(),
    };
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
        table.load = load;
        println!("{}", table.text());
        let table = serde_json::to_value(&table)?;
        results.benchmarks.insert(name.to_owned(), table);
        fs::write(path(), serde_json::to_string_pretty(&results)? + "\n")?;
    }
    println!("bench: {}", path().display());
    Ok(())
}

/// What earlier runs found, so that a run of one benchmark keeps the others.
fn earlier() -> BTreeMap<String, Value> {
    let text = fs::read_to_string(path()).unwrap_or_default();
    let mut results: Value = serde_json::from_str(&text).unwrap_or_default();
    let benchmarks = results.get_mut("benchmarks").map(Value::take);
    serde_json::from_value(benchmarks.unwrap_or_default()).unwrap_or_default()
}

fn path() -> PathBuf {
    let bench: PathBuf = [env!("CARGO_MANIFEST_DIR"), ".."].iter().collect();
    let bench = bench.canonicalize().unwrap_or(bench);
    bench.join("results.json")
}
