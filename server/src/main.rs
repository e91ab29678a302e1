//! `coord`: a node, and the tool to look at one.

mod cli;
mod logs;

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    cli::Cli::parse().run().await
}
