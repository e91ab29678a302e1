//! What the command line says, a subcommand a file.

mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A node of the cluster, and the tool to look at one.
#[derive(Parser)]
#[command(name = "coord", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a node until it is told to end by SIGTERM or SIGINT; told twice, it ends at once.
    Serve(serve::Serve),
}

impl Cli {
    pub(crate) async fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Serve(serve) => serve.run().await,
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("coord: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
