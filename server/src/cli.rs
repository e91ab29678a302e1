//! What the command line says, a subcommand a file.

mod archive;
mod dev;
mod doctor;
mod exit;
mod explain;
mod fleet;
mod grants;
mod health;
mod history;
mod input;
mod metrics;
mod migrate;
mod place;
mod progress;
mod queues;
mod repair;
mod retention;
mod runs;
mod schedules;
mod serve;
mod shell;
mod show;
mod tail;
mod wake;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use coord_engine::model::Namespace;

use exit::Failure;
use show::Shown;

/// A node of the cluster, and the tool to look at one.
///
/// Commands look at the database and at Redis themselves, so they work when no node runs. The one
/// that asks a node is `health --node`.
#[derive(Parser)]
#[command(name = "coord", version, after_long_help = exit::CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args)]
struct Common {
    /// Prints one JSON document in place of text.
    #[arg(long, global = true)]
    json: bool,
    /// Where the database is, in place of `DATABASE_URL`: `postgres://`, `mysql://`, `mariadb://` or
    /// `sqlite:`.
    #[arg(long, global = true, value_name = "URL")]
    database: Option<String>,
    /// Of which namespace, in place of `DW_V2_NAMESPACE`.
    #[arg(long, global = true, value_name = "NAME", value_parser = input::id::<Namespace>)]
    namespace: Option<Namespace>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a node until it is told to end by SIGTERM or SIGINT; told twice, it ends at once.
    Serve(serve::Serve),
    /// Runs a node with example workflows on SQLite in a folder, and says what to try.
    Dev(dev::Dev),
    /// Brings the schema of the database to this version.
    Migrate,
    /// Says whether the database and Redis, or a node, answer.
    Health(health::Health),
    /// Prints what stands where, what was done in the last minute, and who works: of all nodes.
    Metrics,
    /// Looks for what is wrong with what nodes stand on, and says what to do about it.
    Doctor(doctor::Doctor),
    /// Workflows: lists, starts, shows and commands them.
    #[command(subcommand)]
    Runs(runs::Runs),
    /// Says why a workflow does not move, since when, and what to do about it.
    Explain(explain::Explain),
    /// Workflows that start again and again, by the clock.
    #[command(subcommand)]
    Schedules(schedules::Schedules),
    Queues(queues::Queues),
    Fleet(fleet::Fleet),
    /// Hints between processes: why work that is there begins late.
    #[command(subcommand)]
    Wake(wake::Wake),
    Tail(tail::Tail),
    /// Locks in Redis: who has one, and its release by force.
    Locks(grants::Locks),
    /// Leases in Redis: who has them, and their release by force.
    Leases(grants::Leases),
    /// Histories that were exported.
    #[command(subcommand)]
    History(history::History),
    /// Sees now to what one process of all sees to by itself.
    ///
    /// It takes back what nobody works on any more, ends activities past their time, and gives runs
    /// the workflow task that something has removed. Any number may run at once.
    RepairPass,
    /// Removes now what is past its retention.
    RetentionPass,
    /// Hands over now the histories of runs that were closed long ago.
    ArchivePass(archive::ArchivePass),
    /// Prints what a shell completes the command line by.
    Completions(shell::Completions),
    /// Prints the manual page.
    Man,
}

impl Cli {
    pub(crate) async fn run(self) -> ExitCode {
        let is_json = self.common.json;
        match self.done().await {
            Ok(shown) => shown.print(is_json),
            Err(failure) => failure.print(),
        }
    }

    async fn done(self) -> Result<Shown, Failure> {
        let common = &self.common;
        match self.command {
            Command::Serve(serve) => {
                serve.run(common).await?;
                Ok(Shown::nothing())
            }
            Command::Dev(dev) => dev.run().await,
            Command::Migrate => migrate::run(common).await,
            Command::Health(health) => health.run(common).await,
            Command::Runs(runs) => runs.run(common).await,
            Command::Explain(explain) => explain.run(common).await,
            Command::Schedules(schedules) => schedules.run(common).await,
            Command::Queues(queues) => queues.run(common).await,
            Command::Fleet(fleet) => fleet.run(common).await,
            Command::Wake(wake) => wake.run(common).await,
            Command::Tail(tail) => tail.run(common).await,
            Command::Locks(locks) => locks.run().await,
            Command::Leases(leases) => leases.run().await,
            Command::History(history) => history.run(),
            Command::RepairPass => repair::run(common).await,
            Command::Metrics => metrics::run(common).await,
            Command::Doctor(doctor) => doctor.run(common).await,
            Command::ArchivePass(pass) => pass.run(common).await,
            Command::RetentionPass => retention::run(common).await,
            Command::Completions(completions) => Ok(completions.run()),
            Command::Man => shell::man(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_one_that_can_be_read() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_all_commands_take_may_stand_before_and_after_them() {
        for line in [
            ["coord", "--json", "runs", "list"],
            ["coord", "runs", "--json", "list"],
            ["coord", "runs", "list", "--json"],
        ] {
            assert!(Cli::parse_from(line).common.json, "{line:?}");
        }
    }
}
