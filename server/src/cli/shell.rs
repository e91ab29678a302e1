//! What shells and manuals know of the command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use coord_core::Error;

use super::Cli;
use super::exit::Failure;
use super::show::Shown;

#[derive(Args)]
pub(crate) struct Completions {
    /// For which shell.
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Shown {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "coord", &mut script);
        text(&script)
    }
}

/// The manual page: the command, and each of its subcommands.
pub(super) fn man() -> Result<Shown, Failure> {
    let mut page = Vec::new();
    let written = clap_mangen::Man::new(Cli::command()).render(&mut page);
    written.map_err(|error| Error::unavailable("writing the manual page").with_source(error))?;
    Ok(text(&page))
}

fn text(bytes: &[u8]) -> Shown {
    Shown::plain(String::from_utf8_lossy(bytes).into_owned())
}
