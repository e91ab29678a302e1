//! The tasks of this workspace.
//!
//! Everything a contributor or the pipeline runs is a subcommand here, so that no rule lives in
//! one place only. This package links none of the crates it looks after: it starts fast, and what
//! must link them runs as a binary of the package `coord-tests`.

mod apt;
mod bench;
mod binaries;
mod contract;
mod database;
mod demo;
mod deploy;
mod docker;
mod docs;
mod env;
mod error;
mod interrupt;
mod layers;
mod load;
mod matrix;
mod needs;
mod process;
mod resp;
mod server;
mod test;
mod validators;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::Result;
use interrupt::Interrupts;
use workspace::Workspace;

/// The tasks of this workspace: its tests, its benchmarks and its checks.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 all is well; 1 a test or a check is red; 2 wrong usage, or something \
                  needed is missing; 128 + N ended by signal N."
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Demo(demo::Args),
    Test(test::Args),
    Bench(bench::Args),
    Load(load::Args),
    /// Check which crate may depend on which, and the source rules no compiler lint can hold.
    ///
    /// Reads `cargo metadata` and the source files, and prints one line for each violation: where
    /// it is, which rule it breaks, and what to do.
    CheckLayers,
    /// Check that every declared signal has its alarm, its runbook section and its real occurrence.
    ///
    /// Compares the generated files byte for byte and reads which keys the last `cargo xtask test`
    /// really saw. Then lets `promtool` and `cfn-lint` judge the generated files where those tools
    /// are installed, and says so where they are not.
    CheckObservability,
    /// Check the files of deploy/ with the programs that will read them.
    ///
    /// The variables in them are held against those that a node reads. Then the readers have a say:
    /// nginx, systemd-analyze, docker-compose and a validator of Kubernetes manifests, where they are
    /// installed; where one is not, this says so.
    CheckDeploy,
    /// Check that the links of all pages lead where they say, and that the book builds.
    ///
    /// Links and headings are held against the files that are there; what is elsewhere is not asked
    /// for. The book is built where `mdbook` is installed; the pipeline gets it.
    CheckDocs,
    /// Build the book of docs/ into the target folder, with mdBook, which is got where it is missing.
    Book,
    #[command(hide = true)]
    BookLinks(docs::BookLinks),
    /// Write the generated files of observability/ from the signals that the crates declare.
    Generate,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

fn run(task: &Task) -> Result<()> {
    let workspace = Workspace::find()?;
    let mut interrupts = Interrupts::install()?;
    match task {
        Task::Demo(args) => demo::run(args, &workspace, &mut interrupts),
        Task::Test(args) => test::run(args, &workspace, &mut interrupts),
        Task::Bench(args) => bench::run(args, &workspace, &mut interrupts),
        Task::Load(args) => load::run(args, &workspace, &mut interrupts),
        Task::CheckLayers => layers::run(&workspace),
        Task::CheckObservability => contract::check(&workspace, &mut interrupts),
        Task::CheckDeploy => deploy::check(&workspace, &mut interrupts),
        Task::CheckDocs => docs::check(&workspace, &mut interrupts),
        Task::Book => docs::make_book(&workspace, &mut interrupts),
        Task::BookLinks(links) => links.run(),
        Task::Generate => contract::generate(&workspace, &mut interrupts),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
