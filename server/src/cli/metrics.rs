//! `coord metrics`.

use serde_json::Value;

use super::Common;
use super::exit::Failure;
use super::place::Visit;
use super::show::Shown;

/// The text format of Prometheus for people and scrapers; with `--json` all of the snapshot.
pub(super) async fn run(common: &Common) -> Result<Shown, Failure> {
    let visit = Visit::begin(common).await?;
    let snapshot = visit.engine().operator_snapshot().await?;
    visit.end().await?;
    let document = serde_json::to_value(&snapshot).unwrap_or(Value::Null);
    Ok(Shown::new(document, snapshot.to_prometheus()))
}
