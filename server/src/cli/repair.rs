//! `coord repair-pass`.

use coord_engine::Repaired;
use serde_json::json;

use super::Common;
use super::exit::Failure;
use super::place::Visit;
use super::progress::Progress;
use super::show::Shown;

pub(super) async fn run(common: &Common) -> Result<Shown, Failure> {
    let visit = Visit::begin(common).await?;
    let progress = Progress::begin("looking for what was left");
    let heard = |so_far: &Repaired| progress.say(told(so_far));
    let repaired = visit.engine().repair_pass(heard).await;
    drop(progress);
    visit.end().await?;
    let repaired = repaired?;
    let document = json!({
        "tasks": repaired.tasks,
        "activities": repaired.activities,
        "runs": repaired.runs,
    });
    Ok(Shown::new(document, told(&repaired)))
}

fn told(repaired: &Repaired) -> String {
    let Repaired {
        tasks,
        activities,
        runs,
        ..
    } = repaired;
    format!(
        "{tasks} tasks were taken back, {activities} activities were past their time and ended, \
         {runs} runs have their workflow task again"
    )
}
