//! `cargo xtask bench`.

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs;
use crate::server::RedisServer;
use crate::workspace::Workspace;

/// The benchmarks of the Redis primitives. Not a member of the workspace: the peers it measures
/// need other versions of the same crates.
const PRIMITIVES: &str = "bench/primitives/Cargo.toml";

/// The benchmarks of the workflow engine, outside the workspace for the same reason.
const ENGINE: &str = "bench/engine/Cargo.toml";

/// Those that `ENGINE` knows; the first one means all of them.
const OF_ENGINE: [&str; 14] = [
    "engine",
    "steps",
    "noop",
    "drain",
    "start",
    "fan-out",
    "pickup",
    "idle",
    "resume",
    "growth",
    "slow-disk",
    "dialects",
    "deaths",
    "chaos",
];

/// Where the benchmarks find their server.
const URL: &str = "COORD_BENCH_REDIS_URL";

/// Run the benchmarks: of the primitives on a Redis of their own, of the engine on a PostgreSQL.
///
/// Redis is started from `COORD_TEST_REDIS_BIN`, or redis-server or valkey-server in PATH, or, as
/// root on Debian or Ubuntu, from the package redis-tools. It runs on a free port without
/// persistence and ends with this command. PostgreSQL is the one at `COORD_BENCH_PG_URL`, or
/// `postgres://postgres@127.0.0.1:5432`; each side gets a database of its own there. MySQL or
/// MariaDB is the one at `COORD_BENCH_MYSQL_URL`, or `mysql://root@127.0.0.1:3306`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The benchmark to run, or `engine` for all of the engine; everything if none is named.
    name: Option<String>,
}

pub(crate) fn run(args: &Args, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let name = args.name.as_deref();
    let is_of_engine = name.is_some_and(|name| OF_ENGINE.contains(&name));
    if !is_of_engine {
        let binary = needs::redis_binary(workspace, interrupts)?;
        let server = RedisServer::start(&binary, &workspace.folder("xtask")?, interrupts)?;
        println!(
            "xtask: {} at {}, started for this run",
            server.identity,
            server.url()
        );
        bench(PRIMITIVES, name, Some(server.url()), workspace, interrupts)?;
    }
    if is_of_engine || name.is_none() {
        let name = name.filter(|name| *name != OF_ENGINE[0]);
        bench(ENGINE, name, None, workspace, interrupts)?;
    }
    Ok(())
}

fn bench(
    manifest: &str,
    name: Option<&str>,
    redis: Option<String>,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let path = workspace.root.join(manifest);
    if !path.is_file() {
        return Err(Failure::Missing(format!(
            "{manifest} is not there; run this from a full checkout"
        )));
    }
    let mut command = workspace.cargo();
    command
        .args(["run", "--release", "--manifest-path"])
        .arg(&path)
        .arg("--")
        .args(name);
    if let Some(url) = redis {
        command.env(URL, url);
    }
    let status = interrupts.run(&mut command)?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Red(format!(
            "the benchmarks ended with {status}; what failed stands above"
        )))
    }
}
