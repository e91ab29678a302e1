//! `cargo xtask demo`.

mod input;
mod nodes;
mod outcome;
mod tally;
mod view;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs;
use crate::workspace::Workspace;

use input::Input;
use nodes::{Event, Nodes, Said};
use outcome::Outcome;
use tally::Tally;
use view::View;

/// How long nothing may happen before the run is given up. Ten times what a killed node's work
/// takes to come back, so that only a fault reaches it.
const PATIENCE: Duration = Duration::from_mins(1);

/// The share of the records after which a node is killed: work is in every node's hands then.
const KILL_AFTER: f64 = 1.0 / 3.0;

/// Audit the archives of all dependencies on three nodes, and kill one of them in the middle.
///
/// Each `.crate` archive that Cargo downloaded for this workspace is held against the SHA-256 that
/// Cargo.lock records. A cron tick fires on exactly one node per group of archives; that node
/// scans and enqueues each archive once; consumers on all nodes check them; results go to one
/// report under one lock. A node is killed with SIGKILL on the way, and others finish its work.
///
/// Redis is the one that `COORD_TEST_REDIS_URL` names, the one that runs here, or one that is
/// started or installed for the run; keys are under a prefix of their own and removed at the end.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 all archives are as recorded; 1 one is not, or a record was lost; \
                        2 wrong usage, or something needed is missing."
)]
pub(crate) struct Args {
    /// A folder of .crate archives to audit; Cargo's registry cache by default.
    #[arg(long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// The lock file that records the checksums; the workspace's own by default.
    #[arg(long, value_name = "PATH")]
    lock_file: Option<PathBuf>,
    /// How many node processes take part.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    nodes: u8,
    /// Kill a node in the middle, which is the default with two nodes and more.
    #[arg(long, overrides_with = "no_kill")]
    kill: bool,
    /// Let all nodes live.
    #[arg(long)]
    no_kill: bool,
    /// Print the outcome as one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn kills(&self) -> Result<bool> {
        if self.kill && self.nodes == 1 {
            return Err(Failure::Missing(
                "--kill with --nodes 1 leaves nobody to finish the work: take two nodes or more"
                    .into(),
            ));
        }
        Ok(self.nodes > 1 && !self.no_kill)
    }
}

pub(crate) fn run(args: &Args, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let kills = args.kills()?;
    let input = Input::find(args.input.as_deref(), args.lock_file.as_deref(), workspace)?;
    eprintln!("xtask: {}", input.describe());
    let redis = needs::redis_server(workspace, interrupts)?;
    for line in redis.found() {
        eprintln!("xtask: {line}");
    }
    eprintln!("xtask: building the node (the first time takes a minute or two)");
    let program = nodes::build(workspace, interrupts)?;
    let folder = workspace.emptied("demo")?;
    let index = input.write_index(&folder)?;

    let mut nodes = Nodes::start(&program, args.nodes, &redis.url, &input, &index, &folder)?;
    let mut tally = Tally::new(input.records.len());
    let watched = watch(&mut nodes, &mut tally, &input, kills, interrupts);
    let stopped = nodes.stop(&mut tally, interrupts);
    nodes.purge(interrupts)?;
    watched?;
    stopped?;

    let outcome = Outcome::of(tally, &input, &folder)?;
    if args.json {
        println!("{}", outcome.json());
    } else {
        println!("{}", outcome.table());
    }
    outcome.verdict()
}

/// Follows the nodes until every record has a verdict, and kills one on the way.
fn watch(
    nodes: &mut Nodes,
    tally: &mut Tally,
    input: &Input,
    kills: bool,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let view = View::new(input.records.len());
    let mut last = Instant::now();
    while !tally.is_complete(kills) {
        interrupts.check()?;
        match nodes.next() {
            Some(Said { node, event }) => {
                last = Instant::now();
                if let Event::Failed { message } = &event {
                    view.say(&format!("node {node}: {message}"));
                }
                tally.note(node, &event, last);
                let is_due = tally.done() as f64 >= KILL_AFTER * input.records.len() as f64;
                let has_begun = is_due && matches!(event, Event::Taken { .. });
                if kills && tally.killed().is_none() && (has_begun || tally.all_taken()) {
                    // With few records all may be in some hands before the first is done.
                    let victim = tally.busiest().unwrap_or(node);
                    nodes.kill(victim)?;
                    tally.note_kill(victim, Instant::now());
                    view.say(&format!(
                        "node {victim}: killed with SIGKILL, {} records in its hands",
                        tally.in_hands(victim)
                    ));
                }
                view.show(tally);
            }
            None => nodes.check(tally.killed())?,
        }
        if last.elapsed() > PATIENCE {
            return Err(Failure::Red(format!(
                "nothing happened for {} s; {} of {} records have a verdict; the nodes' logs are in target/demo",
                PATIENCE.as_secs(),
                tally.done(),
                input.records.len()
            )));
        }
    }
    view.finish();
    Ok(())
}
