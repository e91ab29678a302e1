//! `coord schedules create`.

use std::time::Duration;

use clap::Args;
use coord_engine::model::{Action, Priority, Queue, Schedule, ScheduleId, TypeName, When};
use serde_json::Map;

use super::super::exit::Failure;
use super::super::input;
use super::super::place::Visit;
use super::super::show::Shown;
use super::{Overlapping, done};

#[derive(Args)]
pub(crate) struct Create {
    #[arg(value_name = "ID", value_parser = input::id::<ScheduleId>)]
    id: ScheduleId,
    /// The type of the workflow that it starts.
    #[arg(long, value_name = "TYPE", value_parser = input::id::<TypeName>)]
    workflow: TypeName,
    #[command(flatten)]
    when: Occurrences,
    /// On the clocks of which time zone, by its IANA name.
    #[arg(long, default_value = "UTC", conflicts_with = "every")]
    zone: String,
    /// What each workflow is given: JSON, `@FILE`, or `-` for standard input. Default: null.
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Where their tasks wait, in place of `DW_V2_QUEUE`.
    #[arg(long, value_parser = input::id::<Queue>)]
    queue: Option<Queue>,
    #[command(flatten)]
    overlap: Overlapping,
    /// Up to how much later than it is due an occurrence fires.
    #[arg(long, value_name = "SPAN", value_parser = input::span)]
    jitter: Option<Duration>,
    /// How late an occurrence may still fire. Default: 1h.
    #[arg(long, value_name = "SPAN", value_parser = input::span)]
    catch_up: Option<Duration>,
    /// How often it fires by itself at most.
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Occurrences {
    /// By a cron expression: five fields, or six with seconds in front.
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// At a fixed interval, counted from 1970 in UTC.
    #[arg(long, value_name = "SPAN", value_parser = input::span)]
    every: Option<Duration>,
}

impl Create {
    pub(super) async fn run(self, visit: &Visit) -> Result<Shown, Failure> {
        let client = visit.client(None);
        let schedule = client.schedule(self.id.clone());
        let when = match (self.when.cron, self.when.every) {
            (Some(expression), _) => When::cron(expression, self.zone),
            (None, Some(interval)) => When::every(interval),
            (None, None) => unreachable!("the command line has one of them"),
        };
        let client = client.untyped();
        let action = Action {
            name: self.workflow,
            queue: self.queue.unwrap_or_else(|| visit.queue().clone()),
            priority: Priority::default(),
            fairness: None,
            within: None,
            memo: Map::new(),
            input: client.encode(&input::value(self.input.as_deref())?)?,
        };
        let mut create = client.create_schedule(self.id, Schedule::new(when, action));
        create = create.overlap(self.overlap.overlap);
        if let Some(jitter) = self.jitter {
            create = create.jitter(jitter);
        }
        if let Some(window) = self.catch_up {
            create = create.catch_up(window);
        }
        if let Some(limit) = self.limit {
            create = create.limit(limit);
        }
        create.await?;
        Ok(done(&schedule, "is created"))
    }
}
