//! `cargo xtask load`.

mod front;
mod nodes;
mod table;
mod wrk;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::binaries::{self, Source};
use crate::database::{DatabaseServer, Programs, Protocol};
use crate::env;
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs;
use crate::server::RedisServer;
use crate::workspace::Workspace;

use front::Front;
use nodes::{Nodes, Place};
use table::Outcome;
use wrk::{Part, Wrk};

/// How long the load runs before the first node is restarted, and after the last one takes traffic
/// again.
const MARGIN: Duration = Duration::from_secs(3);

/// How a server of our own keeps what it confirmed, as one in production does.
const DURABLE: [&str; 6] = [
    "-c",
    "fsync=on",
    "-c",
    "synchronous_commit=on",
    "-c",
    "full_page_writes=on",
];

/// Put three nodes behind nginx under load, and restart them one after the other meanwhile.
///
/// `coord serve` three times, on a PostgreSQL and a Redis of their own, behind an nginx with the file
/// of deploy/nginx. wrk starts workflows, describes them, and then does both while each node in turn
/// is told to end and started again, as a roll-out does. No request may fail, and every workflow whose
/// start was confirmed has to be in the database at the end.
///
/// nginx and wrk are those in PATH or, on Debian as root, of the packages of these names, which are
/// only unpacked. Everything listens on loopback, and ends with this command.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 no request failed and nothing was lost; 1 one did, or something was; \
                  2 wrong usage, or something needed is missing."
)]
pub(crate) struct Args {
    /// The database: postgres://… or mysql://…; a `PostgreSQL` that is started for this by default.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// How long each part without a restart goes on, in seconds.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How many connections ask at once.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(2..=1000))]
    connections: u16,
    /// Takes the build without optimizations, which is there sooner: its figures say nothing of speed.
    #[arg(long)]
    unoptimized: bool,
    /// Print the outcome as one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let nginx = program("nginx", workspace, interrupts)?;
    let wrk = program("wrk", workspace, interrupts)?;
    let (database, _server) = if let Some(url) = &args.database {
        (url.clone(), None)
    } else {
        let server = postgres(workspace, interrupts)?;
        eprintln!("xtask: {} at {}", server.product, server.url());
        (server.url(), Some(server))
    };
    let binary = needs::redis_binary(workspace, interrupts)?;
    let folder = workspace.emptied("load")?;
    let redis = RedisServer::start(&binary, &folder, interrupts)?;
    eprintln!("xtask: {} at {}", redis.identity, redis.url());
    eprintln!("xtask: building coord");
    let coord = build(args, workspace, interrupts)?;

    let place = Place {
        coord: &coord,
        database: &database,
        redis: redis.url(),
        folder: &folder,
    };
    let mut nodes = Nodes::start(&place, interrupts)?;
    let front = Front::start(&nginx, &nodes.addresses(), workspace, &folder, interrupts)?;
    eprintln!("xtask: three nodes behind nginx at {}", front.url());
    let wrk = Wrk::new(wrk, &front.url(), nodes.token(), &folder, args.connections)?;

    let quiet = Duration::from_secs(args.seconds);
    let started = wrk.run(Part::Start, quiet, interrupts)?;
    wrk.remember(Part::Start)?;
    let described = wrk.run(Part::Describe, quiet, interrupts)?;
    let mut load = wrk.begin(Part::Both)?;
    load.go_on(MARGIN, interrupts)?;
    let mut restarts = Vec::new();
    for node in 0..nodes::COUNT {
        restarts.push(nodes.restart(node, &mut load, interrupts)?);
    }
    load.go_on(MARGIN, interrupts)?;
    let both = load.end(interrupts)?;

    let confirmed: BTreeSet<String> = wrk.confirmed()?;
    let stored = nodes.stored(wrk.name(), interrupts)?;
    drop(front);
    nodes.stop(interrupts)?;
    let outcome = Outcome {
        parts: [
            ("start", started),
            ("describe", described),
            ("both, restarting", both),
        ],
        restarts,
        lost: confirmed.difference(&stored).cloned().collect(),
        confirmed: confirmed.len(),
        refusals: wrk.refusals()?,
        is_optimized: !args.unoptimized,
    };
    if args.json {
        println!("{}", outcome.json());
    } else {
        println!("{}", outcome.table());
    }
    outcome.verdict()
}

/// A program that is installed, or else of Debian's package of its name.
fn program(
    name: &'static str,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<PathBuf> {
    // Those of the system lie where only root looks.
    let mut folders = env::path();
    folders.push("/usr/sbin".into());
    let mut found = folders.iter().map(|folder| folder.join(name));
    if let Some(found) = found.find(|path| env::is_executable(path)) {
        return Ok(found);
    }
    let package = Source::DebianHere(name);
    binaries::program(package, name, workspace, interrupts).map_err(|failure| match failure {
        Failure::Missing(reason) => Failure::Missing(format!(
            "the load test takes {name}, which is not here: {reason}\n\
             install it: apt-get install {name}, dnf install {name}, apk add {name}, \
             brew install {name}"
        )),
        failure => failure,
    })
}

/// A server whose data go with it.
fn postgres(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<DatabaseServer> {
    let programs = if let Ok(programs) = Programs::installed(Protocol::Postgres) {
        programs
    } else {
        let package = Source::DebianHere("postgresql");
        binaries::database(package, Protocol::Postgres, workspace, interrupts)?
    };
    DatabaseServer::start(&programs, &DURABLE, workspace, interrupts)
}

fn build(args: &Args, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    let mut command = workspace.cargo();
    command.args(["build", "--quiet", "--package", "coord-server", "--bin"]);
    command.arg("coord");
    if !args.unoptimized {
        command.arg("--release");
    }
    let status = interrupts.run(&mut command)?;
    if !status.success() {
        return Err(Failure::Red(format!(
            "coord does not build: cargo ended with {status}"
        )));
    }
    let profile = if args.unoptimized { "debug" } else { "release" };
    Ok(workspace.target.join(profile).join("coord"))
}
