//! `coord archive-pass`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use coord_engine::archive::Folder;
use serde_json::json;

use super::Common;
use super::exit::{Failure, NOT_WELL};
use super::input;
use super::place::Visit;
use super::show::Shown;

/// Hands over now the histories of runs that have been closed for long enough, and removes them from
/// the database. Each becomes a file that `coord history verify` reads; the runs stay with their
/// results until their retention ends, and say where their history is. What was not handed over
/// stays, and the next pass goes on with it.
#[derive(Args)]
pub(crate) struct ArchivePass {
    /// Below which folder, as <namespace>/<run>.json.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// For how long a run is closed at least.
    #[arg(long, value_name = "SPAN", default_value = "168h", value_parser = input::span)]
    closed_for: Duration,
}

impl ArchivePass {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        // A place that is to be found again wherever it is read.
        let folder = std::path::absolute(&self.to).unwrap_or(self.to);
        let archive = Folder::new(folder);
        let passed = visit
            .engine()
            .archive_closed_runs(&archive, self.closed_for);
        let handed = passed.await?;
        visit.end().await?;
        let stayed = match handed.failed {
            0 => String::new(),
            failed => format!("; {failed} could not be handed over and stay"),
        };
        let text = format!(
            "{} histories are handed over and removed from the database{stayed}",
            handed.archived
        );
        let document = json!({ "archived": handed.archived, "failed": handed.failed });
        let code = if handed.failed > 0 { NOT_WELL } else { 0 };
        Ok(Shown::new(document, text).ending(code))
    }
}
