//! What a turn commits.

use coord_core::Result;

use super::Draft;
use super::end::message;
use crate::model::{Due, Event, EventKind, Failure, OpKind, Record, TaskId, events};
use crate::store::{Fence, Then, Turn};

impl Draft {
    /// The events that wait to be committed, of a turn that goes on.
    ///
    /// # Errors
    /// `Invalid` when the details of one have no JSON form.
    pub fn cut_events(&mut self) -> Result<Vec<Record>> {
        std::mem::take(&mut self.pending.events)
            .iter()
            .map(Event::record)
            .collect()
    }

    /// The turn that commits what was decided; afterwards nothing waits. A run that has ended is
    /// closed by it, another one goes on as `then` says, or waits.
    ///
    /// # Errors
    /// `Invalid` when the details of an event have no JSON form.
    pub fn cut(&mut self, fence: Fence, then: Option<Then>) -> Result<Turn> {
        self.drained_before = self.drained;
        let buffered = self.state.buffered(OpKind::Signal);
        let was_buffered = std::mem::replace(&mut self.buffered_before, buffered);
        let pending = std::mem::take(&mut self.pending);
        let run = &self.identity.run;
        let not_started = (!pending.children.is_empty())
            .then(|| self.not_started())
            .transpose()?;
        let waits = || Then::Wait {
            due: self.state.next_due().map(Due::At),
            wait: self.state.wait(),
        };
        let then = match pending.closing {
            Some(closing) => Then::Close(Box::new(closing)),
            None => then.unwrap_or_else(waits),
        };
        Ok(Turn {
            fence,
            run: run.clone(),
            history_length: self.state.length() - pending.events.len() as u64,
            records: pending
                .events
                .iter()
                .map(Event::record)
                .collect::<Result<_>>()?,
            drained: self.drained,
            fingerprint: None,
            buffered: (buffered != was_buffered).then_some(buffered as u64),
            activities: pending.activities,
            dropped: pending
                .dropped
                .iter()
                .map(|step| TaskId::of(run, *step))
                .collect(),
            children: pending.children,
            not_started,
            deliveries: pending.deliveries,
            marks: pending.marks,
            then,
        })
    }

    fn not_started(&self) -> Result<Record> {
        let failure = Failure::new("a workflow with this id exists already").non_retryable();
        message(
            EventKind::ChildFailed(events::Failed { failure }),
            None,
            self.now,
        )
    }
}
