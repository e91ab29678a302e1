//! `coord migrate`.

use serde_json::json;

use super::Common;
use super::exit::Failure;
use super::place;
use super::show::Shown;

pub(super) async fn run(common: &Common) -> Result<Shown, Failure> {
    place::config(common)?.builder()?.migrate().await?;
    let text = "the schema is that of this version";
    Ok(Shown::new(json!({ "migrated": true }), text))
}
