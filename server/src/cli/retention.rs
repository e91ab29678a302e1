//! `coord retention-pass`.

use serde_json::json;

use super::Common;
use super::exit::Failure;
use super::place::Visit;
use super::progress::Progress;
use super::show::Shown;

pub(super) async fn run(common: &Common) -> Result<Shown, Failure> {
    let visit = Visit::begin(common).await?;
    let progress = Progress::begin("removing closed runs");
    let heard = |so_far| progress.say(format_args!("{so_far} closed runs are removed"));
    let removed = visit.engine().retire_closed_runs(heard).await;
    drop(progress);
    visit.end().await?;
    let removed = removed?;
    let text = format!("{removed} closed runs were past their retention and are removed");
    Ok(Shown::new(json!({ "removed": removed }), text))
}
