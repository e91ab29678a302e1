//! `cargo xtask bench`.

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs;
use crate::server::RedisServer;
use crate::workspace::Workspace;

/// The benchmarks of the Redis primitives. Not a member of the workspace: the peers it measures
/// need other versions of the same crates.
const MANIFEST: &str = "bench/primitives/Cargo.toml";

/// Where the benchmarks find their server.
const URL: &str = "COORD_BENCH_REDIS_URL";

/// Run the benchmarks, on a Redis of their own.
///
/// The server is started from `COORD_TEST_REDIS_BIN`, or redis-server or valkey-server in PATH,
/// or, as root on Debian or Ubuntu, from the package redis-tools. It runs on a free port without
/// persistence and ends with this command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The benchmark to run; all of them if none is named.
    name: Option<String>,
}

pub(crate) fn run(args: &Args, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let manifest = workspace.root.join(MANIFEST);
    if !manifest.is_file() {
        return Err(Failure::Missing(format!(
            "{MANIFEST} is not there; run this from a full checkout"
        )));
    }
    let binary = needs::redis_binary(workspace, interrupts)?;
    let server = RedisServer::start(&binary, &workspace.folder("xtask")?, interrupts)?;
    println!(
        "xtask: {} at {}, started for this run",
        server.identity,
        server.url()
    );

    let mut command = workspace.cargo();
    command
        .args(["run", "--release", "--manifest-path"])
        .arg(&manifest)
        .arg("--")
        .args(&args.name)
        .env(URL, server.url());
    let status = interrupts.run(&mut command)?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Red(format!(
            "the benchmarks ended with {status}; what failed stands above"
        )))
    }
}
