//! `coord schedules`.

mod create;
mod look;

use clap::{Args, Subcommand};
use coord_engine::client::{ScheduleHandle, Triggered};
use coord_engine::model::{Overlap, ScheduleId, Timestamp};
use serde_json::json;

use super::Common;
use super::exit::Failure;
use super::input;
use super::place::Visit;
use super::show::Shown;

#[derive(Subcommand)]
pub(crate) enum Schedules {
    /// Lists schedules, by their ids.
    List(look::List),
    /// Shows a schedule and its latest fires.
    Describe(Which),
    /// Creates a schedule.
    Create(Box<create::Create>),
    /// Lets nothing fire by itself until it is resumed.
    Pause(Noted),
    /// Lets it fire by itself again, from its next occurrence on.
    Resume(Noted),
    /// Fires it now.
    Trigger(Which),
    /// Fires the occurrences of a time that is past. Those that have fired before do not fire again.
    Backfill(Backfill),
    /// Deletes it. The workflows that it has started go on.
    Delete(Which),
}

#[derive(Args)]
pub(crate) struct Which {
    #[arg(value_name = "ID", value_parser = input::id::<ScheduleId>)]
    id: ScheduleId,
}

#[derive(Args)]
pub(crate) struct Noted {
    #[command(flatten)]
    which: Which,
    /// Why, for people.
    #[arg(long, default_value = "")]
    note: String,
}

#[derive(Args)]
pub(crate) struct Backfill {
    #[command(flatten)]
    which: Which,
    /// From which instant on, such as `2030-03-31T01:00:00Z`.
    #[arg(long, value_name = "INSTANT", value_parser = input::instant)]
    from: Timestamp,
    /// Until before which instant.
    #[arg(long, value_name = "INSTANT", value_parser = input::instant)]
    until: Timestamp,
    #[command(flatten)]
    overlap: Overlapping,
}

#[derive(Args)]
pub(crate) struct Overlapping {
    /// What happens to an occurrence while a workflow that the schedule started is open: skip,
    /// `buffer_one`, `buffer_all`, `allow_all`, `cancel_other` or `terminate_other`.
    #[arg(long, value_name = "POLICY", default_value = "skip", value_parser = overlap)]
    overlap: Overlap,
}

fn overlap(word: &str) -> Result<Overlap, String> {
    serde_json::from_value(json!(word)).map_err(|_| {
        "it is one of skip, buffer_one, buffer_all, allow_all, cancel_other and terminate_other"
            .to_owned()
    })
}

impl Schedules {
    pub(super) async fn run(self, common: &Common) -> Result<Shown, Failure> {
        let visit = Visit::begin(common).await?;
        let shown = self.carry_out(&visit).await;
        visit.end().await?;
        shown
    }

    async fn carry_out(self, visit: &Visit) -> Result<Shown, Failure> {
        match self {
            Self::List(list) => list.run(visit).await,
            Self::Describe(which) => look::describe(&which.of(visit)).await,
            Self::Create(create) => create.run(visit).await,
            Self::Pause(noted) => {
                let schedule = noted.which.present(visit).await?;
                schedule.pause(&noted.note).await?;
                Ok(done(&schedule, "is paused"))
            }
            Self::Resume(noted) => {
                let schedule = noted.which.present(visit).await?;
                schedule.resume(&noted.note).await?;
                Ok(done(&schedule, "fires again"))
            }
            Self::Trigger(which) => Ok(triggered(&which.present(visit).await?).await?),
            Self::Backfill(backfill) => {
                let schedule = backfill.which.present(visit).await?;
                let Backfill {
                    from,
                    until,
                    overlap,
                    ..
                } = backfill;
                schedule.backfill(from, until, overlap.overlap).await?;
                Ok(done(&schedule, "fires the occurrences of that time"))
            }
            Self::Delete(which) => {
                let schedule = which.of(visit);
                if !schedule.delete().await? {
                    return Err(Failure::missing("schedule", schedule.id()));
                }
                Ok(done(&schedule, "is deleted"))
            }
        }
    }
}

impl Which {
    fn of(&self, visit: &Visit) -> ScheduleHandle {
        visit.client(None).schedule(self.id.clone())
    }

    /// The schedule is there, or it is said that it is not.
    async fn present(&self, visit: &Visit) -> Result<ScheduleHandle, Failure> {
        let schedule = self.of(visit);
        match schedule.describe().await? {
            Some(_) => Ok(schedule),
            None => Err(Failure::missing("schedule", &self.id)),
        }
    }
}

async fn triggered(schedule: &ScheduleHandle) -> coord_core::Result<Shown> {
    let id = schedule.id();
    let (word, workflow) = match schedule.trigger().await? {
        Triggered::Started(workflow) => ("started", Some(workflow)),
        Triggered::Waits(workflow) => ("waits", Some(workflow)),
        Triggered::Skipped => ("skipped", None),
    };
    let text = match (&workflow, word) {
        (Some(workflow), "started") => format!("{id} has started {workflow}"),
        (Some(workflow), _) => format!("{workflow} starts when those that are open have ended"),
        (None, _) => {
            format!("{id} starts nothing: a workflow of it is open, and its policy is to skip")
        }
    };
    let workflow = workflow.map(|workflow| workflow.to_string());
    let document = json!({ "schedule": id.as_str(), "outcome": word, "workflow": workflow });
    Ok(Shown::new(document, text))
}

fn done(schedule: &ScheduleHandle, what: &str) -> Shown {
    let id = schedule.id();
    let document = json!({ "schedule": id.as_str(), "done": true });
    Shown::new(document, format!("{id} {what}"))
}
