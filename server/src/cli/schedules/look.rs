//! `coord schedules list` and `coord schedules describe`.

use clap::Args;
use coord_engine::client::ScheduleHandle;
use coord_engine::model::{Fired, ScheduleId, ScheduleRecord, When};
use coord_engine::store::ScheduleListing;
use serde_json::{Value, json};

use super::super::exit::Failure;
use super::super::input;
use super::super::place::Visit;
use super::super::show::{Shown, instant, instant_json, list, more, payload, table};

#[derive(Args)]
pub(crate) struct List {
    /// How many at most.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only those after this one: the end of the page before.
    #[arg(long, value_name = "ID", value_parser = input::id::<ScheduleId>)]
    after: Option<ScheduleId>,
}

impl List {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let client = visit.client(None);
        let listing = ScheduleListing {
            namespace: client.namespace().clone(),
            limit: self.limit,
            after: self.after,
        };
        let page = client.list_schedules(&listing).await?;
        let rows = page.schedules.iter().map(|record| {
            [
                record.id.to_string(),
                record.schedule.action.name.to_string(),
                when(&record.schedule.when),
                status(record).to_owned(),
                instant(record.next_fire_at),
                record.state.fires.to_string(),
                record.state.missed.to_string(),
            ]
        });
        let headings = [
            "SCHEDULE", "WORKFLOW", "WHEN", "STATUS", "NEXT", "FIRED", "MISSED",
        ];
        let mut text = table(headings, rows);
        let next = page.next.map(|next| next.to_string());
        if let Some(next) = &next {
            text.push_str(&more(next));
        }
        let schedules: Vec<_> = page.schedules.iter().map(document).collect();
        Ok(Shown::new(
            json!({ "schedules": schedules, "next": next }),
            text,
        ))
    }
}

fn status(record: &ScheduleRecord) -> &'static str {
    if record.state.paused {
        "paused"
    } else {
        "active"
    }
}

fn when(when: &When) -> String {
    match when {
        When::Cron { expression, zone } => format!("{expression} ({zone})"),
        When::Every { interval, .. } => format!("every {interval:?}"),
    }
}

fn document(record: &ScheduleRecord) -> Value {
    let action = &record.schedule.action;
    json!({
        "schedule": record.id.as_str(),
        "namespace": record.namespace.as_str(),
        "workflow": action.name.as_str(),
        "queue": action.queue.as_str(),
        "input": payload(&action.input),
        "when": record.schedule.when,
        "overlap": record.schedule.overlap,
        "status": status(record),
        "version": record.state.version,
        "next_fire_at": instant_json(record.next_fire_at),
        "fires": record.state.fires,
        "missed": record.state.missed,
        "skipped": record.state.skipped,
        "created_at": instant_json(record.created_at),
        "updated_at": instant_json(record.updated_at),
    })
}

pub(super) async fn describe(schedule: &ScheduleHandle) -> Result<Shown, Failure> {
    let described = schedule.describe().await?;
    let described = described.ok_or_else(|| Failure::missing("schedule", schedule.id()))?;
    let record = &described.record;
    let action = &record.schedule.action;
    let mut text = list([
        ("schedule", record.id.to_string()),
        ("status", status(record).to_owned()),
        ("when", when(&record.schedule.when)),
        ("next", instant(record.next_fire_at)),
        ("starts", action.name.to_string()),
        ("with", payload(&action.input).to_string()),
        ("queue", action.queue.to_string()),
        ("fired", record.state.fires.to_string()),
        ("missed", record.state.missed.to_string()),
        ("skipped", record.state.skipped.to_string()),
        ("open", record.state.running.len().to_string()),
    ]);
    if !described.fires.is_empty() {
        let rows = described.fires.iter().map(|fired| {
            let (at, fired_at) = (instant(fired.at), instant(fired.fired_at));
            [
                at,
                fired.cause.as_str().to_owned(),
                fired_at,
                fired.workflow.to_string(),
            ]
        });
        text.push('\n');
        text.push_str(&table(["OCCURRENCE", "BY", "FIRED", "WORKFLOW"], rows));
    }
    let mut document = document(record);
    document["latest_fires"] = described.fires.iter().map(fire).collect();
    Ok(Shown::new(document, text))
}

fn fire(fired: &Fired) -> Value {
    json!({
        "at": instant_json(fired.at),
        "cause": fired.cause.as_str(),
        "fired_at": instant_json(fired.fired_at),
        "workflow": fired.workflow.as_str(),
        "run": fired.run.as_str(),
    })
}
