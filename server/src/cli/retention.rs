//! `coord retention-pass`.

use serde_json::json;

use super::Common;
use super::exit::Failure;
use super::place::Visit;
use super::show::Shown;

pub(super) async fn run(common: &Common) -> Result<Shown, Failure> {
    let visit = Visit::begin(common).await?;
    let removed = visit.engine().retire_closed_runs().await?;
    visit.end().await?;
    let text = format!("{removed} closed runs were past their retention and are removed");
    Ok(Shown::new(json!({ "removed": removed }), text))
}
