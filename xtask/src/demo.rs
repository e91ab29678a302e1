//! `cargo xtask demo`.

mod database;
mod input;
mod nodes;
mod outcome;
mod said;
mod serving;
mod tally;
mod view;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs::{self, Server};
use crate::workspace::Workspace;

use database::Database;
use input::Input;
use nodes::{Nodes, Plan};
use outcome::Outcome;
use said::Event;
use tally::Tally;
use view::View;

/// How long no record may get on before the run is given up: several times what a killed node's work
/// takes to come back, so that only a fault reaches it.
const PATIENCE: Duration = Duration::from_mins(1);

/// After how long without progress it is said what the database refuses: a full disk is waited for,
/// as in production, so whoever looks on has to learn of it.
const SILENCE: Duration = Duration::from_secs(5);

/// How many of the records that have no verdict a failure names.
const NAMED: usize = 5;

/// The share of the records after which a node is killed: work is in every node's hands then.
const KILL_AFTER: f64 = 1.0 / 3.0;

/// What the nodes do without, and what they do instead.
const WITHOUT_REDIS: &str = "\
no tick and no queue: a workflow for each group of archives starts those of its archives
no broadcast: each node looks into the database for verdicts
no cache: each node reads the lock file itself
no shared limit: each node keeps its share of the reads";

/// Audit the archives of all dependencies on three nodes, and kill one of them in the middle.
///
/// Each `.crate` archive that Cargo downloaded for this workspace is held against the SHA-256 that
/// Cargo.lock records. A cron tick fires on exactly one node per group of archives; that node
/// scans and enqueues each archive once; consumers on all nodes start one durable workflow for
/// each, whose result is the verdict. A node is killed with SIGKILL on the way, and others finish
/// its work. The end is what the database holds, held against what the nodes said.
///
/// The database is the one that `--database` or `DATABASE_URL` names, or else a file of SQLite that
/// the nodes share. What the run leaves in a database that is named stays there, in tables that begin
/// with `workflow_`, `activity_` and `engine_`. Redis is the one that `COORD_TEST_REDIS_URL` names, the one that runs here, or
/// one that is started or installed for the run; keys are under a prefix of their own and removed at
/// the end. Where none can be had, SQLite alone does, and the command says what is missing.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 all archives are as recorded; 1 one is not, or a record was lost; \
                        2 wrong usage, or something needed is missing."
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct Args {
    /// A folder of .crate archives to audit; Cargo's registry cache by default.
    #[arg(long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// The lock file that records the checksums; the workspace's own by default.
    #[arg(long, value_name = "PATH")]
    lock_file: Option<PathBuf>,
    /// The database: sqlite:PATH, postgres://… or mysql://…; a new file of SQLite by default.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Does without Redis also where there is one.
    #[arg(long)]
    without_redis: bool,
    /// How many node processes take part.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    nodes: u8,
    /// Kill a node in the middle, which is the default with two nodes and more.
    #[arg(long, overrides_with = "no_kill")]
    kill: bool,
    /// Let all nodes live.
    #[arg(long)]
    no_kill: bool,
    /// How long a dead node keeps its tasks at most; 6 by default, so that the run is short, where the
    /// engine's own default is 60. What finds a death before that is the heartbeat.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    lease_seconds: Option<u64>,
    /// Leave the nodes up afterwards, each behind the control plane, until Ctrl-C.
    #[arg(long)]
    serve: bool,
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
    let folder = workspace.emptied("demo")?;
    let database = Database::find(args.database.as_deref(), &folder)?;
    eprintln!("xtask: runs are kept by {database}");
    let redis = redis(args, workspace, interrupts)?;
    eprintln!("xtask: building the node (the first time takes a minute or two)");
    let program = nodes::build(workspace, &database, interrupts)?;
    let index = input.write_index(&folder)?;

    let plan = Plan {
        run: format!("coord-demo-{:016x}", RandomState::new().hash_one(())),
        nodes: args.nodes,
        database: &database,
        redis: redis.as_ref().map(|redis| redis.url.as_str()),
        input: &input,
        index: &index,
        lease_seconds: args.lease_seconds,
        serves: args.serve,
        folder: &folder,
    };
    let mut nodes = Nodes::start(program, plan)?;
    let ended = to_the_end(args, &mut nodes, kills, interrupts);
    let purged = nodes.purge(interrupts);
    if let Some(kept) = database.kept() {
        eprintln!("xtask: {kept}");
    }
    ended.and(purged)
}

/// Follows the run, shows what came of it, and has the nodes go on if they are to.
fn to_the_end(
    args: &Args,
    nodes: &mut Nodes<'_>,
    kills: bool,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let Plan {
        input,
        database,
        redis,
        ..
    } = *nodes.plan();
    let mut tally = Tally::new(input.records.len());
    watch(nodes, &mut tally, input, kills, interrupts)?;
    if !args.serve {
        nodes.stop(&mut tally, interrupts)?;
    }
    let recorded = nodes.recorded()?;
    let outcome = Outcome::of(
        &tally,
        input,
        recorded,
        database.to_string(),
        redis.is_some(),
    );
    if args.json {
        println!("{}", outcome.json());
    } else {
        println!("{}", outcome.table());
    }
    if args.serve {
        serving::serve(nodes, &tally, interrupts)?;
        // Nobody counts any more.
        nodes.stop(&mut Tally::new(0), interrupts)?;
    }
    outcome.verdict()
}

/// Redis, unless there is none to be had or none is wanted.
fn redis(
    args: &Args,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<Option<Server>> {
    if !args.without_redis {
        match needs::redis_server(workspace, interrupts)? {
            Ok(server) => {
                for line in server.found() {
                    eprintln!("xtask: {line}");
                }
                return Ok(Some(server));
            }
            Err(gap) => eprintln!("xtask: there is none of what makes it faster: {gap}"),
        }
    }
    eprintln!("xtask: without Redis, on the database alone:");
    for line in WITHOUT_REDIS.lines() {
        eprintln!("xtask:   {line}");
    }
    Ok(None)
}

/// Follows the nodes until every record has a verdict, and kills one on the way.
fn watch(
    nodes: &mut Nodes<'_>,
    tally: &mut Tally,
    input: &Input,
    kills: bool,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let expected = tally.expected;
    let view = View::new(expected);
    let mut last = Instant::now();
    let mut is_told = false;
    while !(tally.is_complete() && tally.killed().is_some() == kills) {
        interrupts.check()?;
        match nodes.next() {
            Some(said) => {
                match &said.event {
                    Event::Failed { message } => {
                        view.say(&format!("node {}: {message}", said.node));
                    }
                    Event::Up | Event::Hashed { .. } | Event::Known { .. } => {
                        last = Instant::now();
                        is_told = false;
                    }
                    // Ticks go on whatever happens.
                    _ => {}
                }
                tally.note(&said, Instant::now());
                if kills && tally.killed().is_none() {
                    kill_one(nodes, tally, &view)?;
                }
                view.show(tally);
            }
            None => nodes.check(tally)?,
        }
        if last.elapsed() > SILENCE && !is_told {
            is_told = true;
            if let Some(trouble) = nodes.trouble() {
                view.say(&format!(
                    "no record got on for {} s: {trouble}",
                    SILENCE.as_secs()
                ));
            }
        }
        if last.elapsed() > PATIENCE {
            let is_open = |record: &&String| !tally.knows(record);
            let open: Vec<_> = input.records.iter().filter(is_open).take(NAMED).collect();
            return Err(Failure::Red(format!(
                "no record got on for {} s; {} of {expected} have a verdict, {open:?} and others \
                 have none{}",
                PATIENCE.as_secs(),
                tally.done(),
                nodes.logged()
            )));
        }
    }
    view.finish();
    Ok(())
}

/// Kills the busiest node once enough is done and it has something in its hands; at the latest when
/// all is done, as may happen with few records.
fn kill_one(nodes: &mut Nodes<'_>, tally: &mut Tally, view: &View) -> Result<()> {
    let is_over = tally.is_complete();
    let is_due = tally.done() as f64 >= KILL_AFTER * tally.expected as f64;
    let Some(victim) = tally.busiest() else {
        return Ok(());
    };
    let is_busy = is_due && tally.in_hands(victim) > 0;
    if (is_busy || is_over) && nodes.kill(victim, tally, !is_over)? {
        view.say(&format!(
            "node {victim}: killed with SIGKILL, {} in its hands",
            outcome::records(tally.in_hands(victim))
        ));
    }
    Ok(())
}
