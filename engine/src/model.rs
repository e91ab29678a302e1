//! The data of the engine: plain values, no I/O, no clock.
//!
//! | thing | is | lives |
//! |---|---|---|
//! | instance | what a caller named: a [`WorkflowId`] in a [`Namespace`] | until retention |
//! | [`Run`] | one execution of an instance; continue-as-new starts the next | until retention |
//! | [`Event`] | one durable fact of a run, numbered densely from 1 | append-only, until retention |
//! | [`Message`] | an event from outside that waits for its number | until a workflow task takes it |
//! | [`Task`] | a unit to claim: a turn of a run, or an activity | while it is open |
//! | [`Attempt`] | one try of an activity that did not succeed | until retention |
//! | [`Schedule`] | when to start which workflow, again and again; a [`ScheduleRecord`] is where it stands | until it is deleted |
//! | [`Receipt`] | what a caller's command led to, by its request id | until retention |
//!
//! # Who writes what
//! The owner of a run's workflow task is the only writer of its history. Whoever else has news for
//! a run (a signal, the result of an activity, the end of a child) leaves a [`Message`]; the owner
//! gives it a number when it takes it. So there is at most one open workflow task a run, a claim
//! freezes a position, and no order depends on who was faster.
//!
//! # Timers
//! A timer is no row: its instant stands in the history, and the run's workflow task is ready at
//! the earliest of them. Firing a timer is claiming that task.
//!
//! # Numbers
//! Every run has two: `seq` counts events, `step` counts operations (activities, timers, waits,
//! children, steps, side effects). A step's number is given when its future is made, and stands in
//! every event about it; signals from outside have none.

mod activity;
mod attribute;
mod event;
pub mod events;
mod fairness;
mod history;
mod id;
mod operation;
mod payload;
mod run;
mod schedule;
mod task;
mod time;
mod trace;

pub use activity::{Attempt, AttemptEnd, Expired, Retry, Timeouts};
pub use attribute::{Attribute, Attributes, Marks};
pub use event::{Event, EventKind, Message, ParentLink, Record};
pub use fairness::{Fairness, FairnessKey, FairnessWeight};
pub use history::History;
pub use id::{
    AttemptId, BuildId, Fingerprint, Ids, MAX_ID_BYTES, Namespace, NodeName, OwnerId, Queue,
    RequestId, RunId, ScheduleId, TaskId, TypeName, WorkflowId,
};
pub use operation::OpKind;
pub(crate) use payload::shown;
pub use payload::{Failure, JSON, Payload};
pub use run::{Closed, ParentClose, Receipt, Run, RunStatus, Wait};
pub use schedule::{
    Action, Backfill, Buffered, Cause, Fired, Occurrence, Overlap, Schedule, ScheduleRecord,
    ScheduleState, When,
};
pub use task::{Priority, Task, TaskKind, TaskStatus};
pub use time::{Due, Timestamp, micros};
