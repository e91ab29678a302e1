//! The observability contract of this workspace, as `cargo xtask` calls it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use coord_tests::contract;

/// Writes or checks what follows from the declared signals and variables.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the generated files.
    Generate(Folders),
    /// Check them, the runbook and the keys that a test run saw. Writes nothing.
    Check(Folders),
}

#[derive(clap::Args)]
struct Folders {
    /// The root of the workspace.
    #[arg(long)]
    root: PathBuf,
    /// The folder into which the test processes wrote the keys they saw.
    #[arg(long)]
    observed: PathBuf,
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Generate(Folders { root, .. }) => contract::generate(&root).map(|written| {
            for file in written {
                println!("wrote {}", file.display());
            }
            true
        }),
        Task::Check(Folders { root, observed }) => {
            contract::check(&root, &observed).map(|report| {
                println!("{report}");
                report.findings.is_empty()
            })
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("contract: {error}");
            ExitCode::FAILURE
        }
    }
}
