//! A walk along all open runs, for those that nobody would ever go on with.

use std::collections::VecDeque;
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;
use tokio::time::Instant;

use crate::archive::events_of;
use crate::engine::Core;
use crate::model::{Event, EventKind, Namespace, RunId, TaskId, TaskKind, Timestamp};
use crate::signals::Signal;
use crate::store::{Description, NewActivity, Outcome, Restore, Target, Unattended, Write};
use crate::transition::RunState;

/// How many open runs are looked at in one statement, and how many statements a look.
pub(super) const RUNS: u32 = 500;
const PAGES: u32 = 4;
/// How often a walk along all open runs begins: what is removed behind the engine's back is rare,
/// and a leader that has nothing to do asks little of its database.
const ROUND: Duration = Duration::from_secs(30);
/// What is left at least of a time that is over meanwhile: it ends as overdue, as it would have.
const AT_ONCE: Duration = Duration::from_millis(1);

/// A walk along all open runs, a few pages a look, to find those that nobody would ever go on with.
#[derive(Default)]
pub(super) struct Walk {
    /// The namespaces that are still to come, and where the first of them is gone on with.
    namespaces: VecDeque<Namespace>,
    after: Option<(Timestamp, RunId)>,
    began: Option<Instant>,
}

impl Walk {
    pub(super) async fn go_on(&mut self, core: &Core) -> Result<()> {
        if self.namespaces.is_empty() {
            if self.began.is_some_and(|began| began.elapsed() < ROUND) {
                return Ok(());
            }
            self.began = Some(Instant::now());
            let tenants = core.store.tenants().await?;
            self.namespaces = tenants.into_iter().map(|it| it.namespace).collect();
        }
        for _ in 0..PAGES {
            let Some(namespace) = self.namespaces.front() else {
                return Ok(());
            };
            let page = Unattended {
                namespace: namespace.clone(),
                after: self.after.take(),
                limit: RUNS,
            };
            let found = core.store.unattended(&page).await?;
            for run in found.runs {
                repair(core, run).await?;
            }
            for run in found.of_activities {
                restore(core, run).await?;
            }
            self.after = found.next;
            if self.after.is_none() {
                self.namespaces.pop_front();
            }
        }
        Ok(())
    }
}

/// Gives `run` the workflow task without which it stands. Whether it stood.
pub(super) async fn repair(core: &Core, run: RunId) -> Result<bool> {
    let repaired = core.commit(Write::Repair(run)).await?;
    let Outcome::Done { run, .. } = repaired else {
        return Ok(false);
    };
    let (lost, run) = (TaskKind::Workflow, Detail::new(run));
    Signal::RunRepaired { lost, run }.emit();
    Ok(true)
}

/// Gives `run` the tasks of its activities without which it stands. It is seen in several looks: the
/// write compares what it has become since.
pub(super) async fn restore(core: &Core, run: RunId) -> Result<bool> {
    let described = core.store.describe(&Target::Run(run.clone())).await?;
    let Some(described) = described.filter(|it| it.tasks.is_empty()) else {
        return Ok(false);
    };
    let mut has_restored = false;
    for lost in lost_activities(&described, &events_of(&*core.store, &run).await?)? {
        let restored = core.commit(Write::Restore(Box::new(lost))).await?;
        if let Outcome::Done { run, .. } = restored {
            let (lost, run) = (TaskKind::Activity, Detail::new(run));
            Signal::RunRepaired { lost, run }.emit();
            has_restored = true;
        }
    }
    Ok(has_restored)
}

/// The activities without an outcome of a run that has no task.
fn lost_activities(of: &Description, events: &[Event]) -> Result<Vec<Restore>> {
    let state = RunState::fold(events)?;
    let mut lost = Vec::new();
    for event in events {
        let (EventKind::ActivityScheduled(activity), Some(step)) = (&event.kind, event.step) else {
            continue;
        };
        if !state.open().any(|(open, _)| open == step) {
            continue;
        }
        let task = TaskId::of(&of.run.run, step);
        let failed = of.attempts.iter().filter(|attempt| attempt.task == task);
        let elapsed = of.now.since(event.at);
        let left = |span: Duration| span.saturating_sub(elapsed).max(AT_ONCE);
        let mut timeouts = activity.timeouts;
        timeouts.schedule_to_close = timeouts.schedule_to_close.map(left);
        timeouts.schedule_to_start = timeouts.schedule_to_start.map(left);
        lost.push(Restore {
            run: of.run.run.clone(),
            history_length: events.len() as u64,
            activity: NewActivity {
                step,
                scheduled_seq: event.seq,
                name: activity.name.clone(),
                queue: activity.queue.clone(),
                priority: activity.priority,
                timeouts,
                lease: None,
            },
            attempts: failed.map(|attempt| attempt.number).max().unwrap_or(0),
        });
    }
    Ok(lost)
}
