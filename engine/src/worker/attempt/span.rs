//! An attempt as a part of a trace.

use coord_core::trace::{Span, SpanKind};

use super::{End, timed_out};
use crate::model::{Task, events};

/// The span of an attempt, under the turn that wanted the activity.
pub(super) fn of(task: &Task, activity: &events::ActivityScheduled) -> Span {
    let (parent, name) = (activity.trace.as_ref(), &task.name);
    let mut span = Span::of(parent, SpanKind::Consumer, format_args!("activity {name}"));
    span.note("coord.workflow.id", &task.workflow);
    span.note("coord.run.id", &task.run);
    span.number("coord.attempt", task.attempt.into());
    span
}

/// Notes how it ended; `None` when its lease was lost.
pub(super) fn note_end(span: &mut Span, end: Option<&End>) {
    match end {
        Some(End::Completed(_)) => {}
        Some(End::Failed(failure)) => span.fail(failure),
        Some(End::TimedOut(expired)) => span.fail(timed_out(*expired)),
        None => span.fail("its lease was lost"),
    }
}
