//! Histories out of a database, and into one.

use std::time::Duration;

use coord_core::{Error, Result};

use super::{Client, Handle};
use crate::model::{
    Closed, Due, Event, EventKind, History, Marks, OwnerId, Payload, TaskId, Timestamp,
};
use crate::store::{
    BlockedReason, Fence, Held, Holder, Lease, OnDuplicate, Outcome, PutBack, PutBackHow, Start,
    Then, Turn, Write,
};
use crate::transition::{RunState, closing};

/// Who holds the task of a run while it is imported: within one transaction.
const IMPORT: &str = "import";
const TTL: Duration = Duration::from_mins(1);

impl<O> Handle<O> {
    /// Its current run with the whole history, to be kept outside of the database.
    ///
    /// # Errors
    /// `Invalid` when there is no such workflow. `Unavailable` or `Timeout` when the database does
    /// not answer; `Corrupt` when the history does not read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn export(&self) -> Result<History> {
        let run = self.find().await?.run;
        let events = self.events(&run).await?;
        History::new(run, events)
    }
}

impl Client {
    /// Puts a run with its history into this namespace, under its ids, to be looked at or asked. It
    /// counts as started now. A run that had not ended is set aside: it goes on only when it is
    /// resumed. Nobody else is told of it, neither its parent nor its children.
    ///
    /// # Errors
    /// `Invalid` when a run or a workflow with its ids is there, when the history is none, or when
    /// it is larger than what the database takes in one transaction. `Unavailable` or `Timeout` when
    /// the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may be there.
    pub async fn import(&self, history: &History) -> Result<()> {
        let state = RunState::fold(history.events())?;
        let now = self.core.now().await?;
        let owner = OwnerId::new(IMPORT).expect("a constant");
        let writes = [
            Write::Start(Box::new(self.imported(history, &state, &owner)?)),
            set_down(history, owner, now)?,
        ];
        let id = &history.started().workflow;
        match self.core.commit_together(&writes).await?.as_slice() {
            [Outcome::Started { created: true, .. }, Outcome::Done { .. }] => Ok(()),
            [Outcome::Started { .. } | Outcome::Refused { .. }, _] => Err(Error::invalid(format!(
                "importing {id}: a workflow with this id, or the same run, is there"
            ))),
            other => Err(Error::corrupt(format!(
                "importing {id}: answered {other:?}"
            ))),
        }
    }

    fn imported(&self, history: &History, state: &RunState, owner: &OwnerId) -> Result<Start> {
        let started = history.started();
        let lease = Lease {
            owner: owner.clone(),
            ttl: TTL,
        };
        Ok(Start {
            namespace: self.namespace.clone(),
            workflow: started.workflow.clone(),
            run: history.run().clone(),
            number: started.number,
            on_duplicate: OnDuplicate::Reject,
            name: started.name.clone(),
            queue: started.queue.clone(),
            priority: started.priority,
            fairness: started.fairness.clone(),
            build: started.build.clone(),
            // The link stands in the history; the row would tie it to a run that lives here.
            parent: None,
            records: history
                .events()
                .iter()
                .map(Event::record)
                .collect::<Result<_>>()?,
            due: Due::Now,
            lease: Some(lease),
            request: None,
            marks: Marks::of_start(state.attributes(), state.memo()),
        })
    }
}

/// The end of the run, if it has one; otherwise it is set aside.
fn set_down(history: &History, owner: OwnerId, now: Timestamp) -> Result<Write> {
    let run = history.run();
    let held = Held {
        task: TaskId::of(run, 0),
        epoch: 1,
        holder: Holder::Owner(owner),
    };
    let last = history.events().last();
    let Some(closed) = last.map(closed).transpose()?.flatten() else {
        return Ok(Write::PutBack(PutBack {
            held,
            how: PutBackHow::Blocked {
                reason: BlockedReason::Imported,
                error: "imported, to be looked at; it goes on when it is resumed".to_owned(),
            },
        }));
    };
    let mut closing = closing(closed, now)?;
    closing.to_parent = None;
    Ok(Write::Turn(Box::new(Turn {
        fence: Fence::Task(held),
        run: run.clone(),
        history_length: history.events().len() as u64,
        records: Vec::new(),
        fingerprint: None,
        drained: 0,
        buffered: None,
        activities: Vec::new(),
        dropped: Vec::new(),
        children: Vec::new(),
        not_started: None,
        deliveries: Vec::new(),
        marks: Marks::default(),
        then: Then::Close(Box::new(closing)),
    })))
}

/// How a run ended whose last event this is.
fn closed(last: &Event) -> Result<Option<Closed>> {
    Ok(Some(match &last.kind {
        EventKind::Completed(_) => Closed::Completed(match &last.payload {
            Some(output) => output.clone(),
            None => Payload::json(&())?,
        }),
        EventKind::Failed(failed) => Closed::Failed(failed.failure.clone()),
        EventKind::Cancelled(failed) => Closed::Cancelled(failed.failure.clone()),
        EventKind::Terminated(failed) => Closed::Terminated(failed.failure.clone()),
        EventKind::TimedOut(failed) => Closed::TimedOut(failed.failure.clone()),
        EventKind::ContinuedAsNew(next) => Closed::ContinuedAsNew(next.run.clone()),
        _ => return Ok(None),
    }))
}
