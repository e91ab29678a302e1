//! The end of a run, and what goes with it.

use coord_core::Result;

use super::Draft;
use crate::model::{
    Closed, Event, EventKind, Failure, Message, ParentClose, Payload, Record, Timestamp, events,
};
use crate::store::Closing;
use crate::transition::command::ContinueCommand;

impl Draft {
    /// A failure after a request to end is the end that was asked for, when it is of that sort.
    pub(super) fn fail(&mut self, failure: Failure) -> Result<()> {
        let failed = events::Failed {
            failure: failure.clone(),
        };
        if self.state.cancel_reason().is_some() && failure.kind == Failure::CANCELLED {
            return self.close(
                EventKind::Cancelled(failed),
                None,
                Closed::Cancelled(failure),
            );
        }
        self.close(EventKind::Failed(failed), None, Closed::Failed(failure))
    }

    pub(super) fn continue_as(&mut self, next: ContinueCommand) -> Result<()> {
        let before = self.started()?;
        let started = events::Started {
            number: before.number + 1,
            seed: next.seed,
            continued_from: Some(self.identity.run.clone()),
            attributes: self.state.attributes().clone(),
            memo: self.state.memo().clone(),
            trace: self.trace.clone(),
            ..before.clone()
        };
        let mut start = self.start(next.run.clone(), started, next.input.clone())?;
        for (index, (kind, payload)) in self.state.left_over().into_iter().enumerate() {
            let event = Event {
                seq: index as u64 + 2,
                at: self.now,
                step: None,
                kind,
                payload,
            };
            start.records.push(event.record()?);
        }
        let event = events::ContinuedAsNew {
            run: next.run.clone(),
        };
        let closed = Closed::ContinuedAsNew(next.run);
        self.close(EventKind::ContinuedAsNew(event), Some(next.input), closed)?;
        let closing = self
            .pending
            .closing
            .as_mut()
            .expect("the line above set it");
        closing.next = Some(start);
        Ok(())
    }

    pub(super) fn close(
        &mut self,
        event: EventKind,
        value: Option<Payload>,
        closed: Closed,
    ) -> Result<()> {
        self.add(None, event, value)?;
        // Its tasks go with it, whichever they are.
        self.pending.activities.clear();
        self.pending.dropped.clear();
        // A child that would be ended at once is not even begun.
        self.pending.children.retain(|child| {
            let link = child.parent.as_ref();
            link.is_some_and(|link| link.on_close == ParentClose::Abandon)
        });
        self.pending.closing = Some(closing(closed, self.now)?);
        Ok(())
    }
}

/// What goes with the end of a run.
///
/// # Errors
/// `Invalid` when a failure has no JSON form.
pub fn closing(closed: Closed, now: Timestamp) -> Result<Closing> {
    let failed = |failure: &Failure| events::Failed {
        failure: failure.clone(),
    };
    let (kind, value) = match &closed {
        Closed::Completed(output) => (
            Some(EventKind::ChildCompleted(events::Nothing {})),
            Some(output.clone()),
        ),
        Closed::Failed(failure) | Closed::TimedOut(failure) => {
            (Some(EventKind::ChildFailed(failed(failure))), None)
        }
        Closed::Cancelled(failure) => (Some(EventKind::ChildCancelled(failed(failure))), None),
        Closed::Terminated(failure) => (Some(EventKind::ChildTerminated(failed(failure))), None),
        Closed::ContinuedAsNew(_) => (None, None),
    };
    let ended = Failure::new("its parent has ended").of_kind(Failure::TERMINATED);
    Ok(Closing {
        to_parent: kind.map(|kind| message(kind, value, now)).transpose()?,
        terminate_child: message(EventKind::Terminated(failed(&ended)), None, now)?,
        cancel_child: cancel_message("its parent has ended", now)?,
        next: None,
        closed,
    })
}

/// The message that asks a run to end.
///
/// # Errors
/// None that a reason can cause.
pub fn cancel_message(reason: &str, now: Timestamp) -> Result<Record> {
    let request = events::CancelRequested {
        reason: reason.to_owned(),
    };
    message(EventKind::CancelRequested(request), None, now)
}

pub(super) fn message(kind: EventKind, payload: Option<Payload>, at: Timestamp) -> Result<Record> {
    Message {
        at,
        step: None,
        kind,
        payload,
    }
    .record()
}
