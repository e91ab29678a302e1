//! The history of a run: durable facts, and messages that are to become facts.

use serde::{Deserialize, Serialize};

use coord_core::{Error, Result};

use super::{Payload, Timestamp, events};

/// One durable fact of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Its number in the run, dense from 1.
    pub seq: u64,
    /// When it was decided, on the database's clock.
    pub at: Timestamp,
    /// The operation that it is about.
    pub step: Option<u64>,
    /// What happened.
    pub kind: EventKind,
    /// The value that belongs to it: an input, a result, what a signal carried.
    pub payload: Option<Payload>,
}

/// News from outside that waits to become an event of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// When it was sent, on the clock of the database as its sender knew it.
    pub at: Timestamp,
    /// The operation that it is about.
    pub step: Option<u64>,
    /// The event that it becomes, if the run still wants it.
    pub kind: EventKind,
    /// The value that belongs to it.
    pub payload: Option<Payload>,
}

/// An event or a message as it is stored: four columns and the value. Stores look no deeper.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The number of the event, or the place of the message in the run's inbox.
    pub seq: u64,
    /// The instant.
    pub at: Timestamp,
    /// The operation.
    pub step: Option<u64>,
    /// The name of the event's kind.
    pub kind: String,
    /// The details of its kind as a JSON object; `None` when it has none.
    pub details: Option<String>,
    /// The value.
    pub payload: Option<Payload>,
}

impl Event {
    /// The event as it is stored.
    ///
    /// # Errors
    /// `Invalid` when its details have no JSON form.
    pub fn record(&self) -> Result<Record> {
        Ok(Record {
            seq: self.seq,
            at: self.at,
            step: self.step,
            kind: self.kind.name().to_owned(),
            details: self.kind.details()?,
            payload: self.payload.clone(),
        })
    }

    /// The event that `record` stores.
    ///
    /// # Errors
    /// `Corrupt` when the details are none of its kind.
    pub fn from_record(record: Record) -> Result<Self> {
        Ok(Self {
            seq: record.seq,
            at: record.at,
            step: record.step,
            kind: EventKind::read(&record.kind, record.details)?,
            payload: record.payload,
        })
    }
}

impl Message {
    /// The message as it is stored; the store gives it its place.
    ///
    /// # Errors
    /// `Invalid` when its details have no JSON form.
    pub fn record(&self) -> Result<Record> {
        self.clone().event(0).record()
    }

    /// The event number `seq` that it becomes.
    pub fn event(self, seq: u64) -> Event {
        Event {
            seq,
            at: self.at,
            step: self.step,
            kind: self.kind,
            payload: self.payload,
        }
    }

    /// The message that `record` stores.
    ///
    /// # Errors
    /// `Corrupt` when the details are none of its kind.
    pub fn from_record(record: Record) -> Result<Self> {
        let Event {
            at,
            step,
            kind,
            payload,
            ..
        } = Event::from_record(record)?;
        Ok(Self {
            at,
            step,
            kind,
            payload,
        })
    }
}

/// The run that waits for the result of a child, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParentLink {
    /// The parent's run.
    pub run: super::RunId,
    /// The operation in it.
    pub step: u64,
    /// What becomes of the child when the parent closes.
    pub on_close: super::ParentClose,
}

macro_rules! kinds {
    ($($(#[$about:meta])+ $Kind:ident($Details:ident),)+) => {
        /// What happened. Names and details are stored, so a name never changes its meaning.
        #[derive(Clone, PartialEq, Debug)]
        pub enum EventKind {
            $($(#[$about])+ $Kind(events::$Details),)+
            /// What a later version of this crate wrote. It is kept, and replay stops at it.
            Unknown {
                /// The name of the kind.
                name: String,
                /// Its details.
                details: Option<String>,
            },
        }

        impl EventKind {
            /// The name under which it is stored.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$Kind(_) => stringify!($Kind),)+
                    Self::Unknown { name, .. } => name,
                }
            }

            fn details(&self) -> Result<Option<String>> {
                let text = match self {
                    $(Self::$Kind(details) => serde_json::to_string(details),)+
                    Self::Unknown { details, .. } => return Ok(details.clone()),
                };
                let text = text.map_err(|error| {
                    Error::invalid("encoding the details of an event").with_source(error)
                })?;
                Ok(Some(text).filter(|text| text != "{}"))
            }

            fn read(name: &str, details: Option<String>) -> Result<Self> {
                let text = || details.as_deref().unwrap_or("{}");
                let corrupt = |error: serde_json::Error| {
                    Error::corrupt(format!("reading the details of {name}")).with_source(error)
                };
                Ok(match name {
                    $(stringify!($Kind) => {
                        Self::$Kind(serde_json::from_str(text()).map_err(corrupt)?)
                    })+
                    _ => Self::Unknown { name: name.to_owned(), details },
                })
            }
        }
    };
}

kinds! {
    /// The run began.
    Started(Started),
    /// It returned its output.
    Completed(Nothing),
    /// It returned a failure.
    Failed(Failed),
    /// It ended as somebody asked it to.
    Cancelled(Failed),
    /// Somebody ended it.
    Terminated(Failed),
    /// Its time was over.
    TimedOut(Failed),
    /// It goes on as another run.
    ContinuedAsNew(ContinuedAsNew),
    /// An activity is wanted.
    ActivityScheduled(ActivityScheduled),
    /// It returned.
    ActivityCompleted(ActivityCompleted),
    /// It failed for good.
    ActivityFailed(ActivityFailed),
    /// It exceeded a time for good.
    ActivityTimedOut(ActivityTimedOut),
    /// The run no longer wants it.
    ActivityCancelled(Nothing),
    /// A local step returned.
    StepCompleted(Noted),
    /// A local step failed.
    StepFailed(StepFailed),
    /// The run waits for an instant.
    TimerScheduled(TimerScheduled),
    /// The instant came.
    TimerFired(Nothing),
    /// The run no longer waits for it.
    TimerCancelled(Nothing),
    /// A signal reached the run.
    SignalReceived(SignalReceived),
    /// The run waits for a signal.
    SignalWaitOpened(SignalWaitOpened),
    /// The wait got its signal.
    SignalApplied(SignalApplied),
    /// The run no longer waits for it.
    SignalWaitCancelled(Nothing),
    /// An update reached the run.
    UpdateAccepted(UpdateAccepted),
    /// The run waits for an update.
    UpdateWaitOpened(UpdateWaitOpened),
    /// The wait got its update.
    UpdateApplied(UpdateApplied),
    /// The run no longer waits for it.
    UpdateWaitCancelled(Nothing),
    /// The run waits until a condition of its own state holds.
    ConditionWaitOpened(ConditionWaitOpened),
    /// The condition holds.
    ConditionWaitSatisfied(Nothing),
    /// It did not hold in time.
    ConditionWaitTimedOut(Nothing),
    /// The run no longer waits for it.
    ConditionWaitCancelled(Nothing),
    /// The run answered an update.
    UpdateCompleted(UpdateCompleted),
    /// The run refused an update.
    UpdateRejected(UpdateRejected),
    /// A value was taken from outside.
    SideEffectRecorded(Noted),
    /// The run took a way through code that has changed.
    VersionMarked(VersionMarked),
    /// The run is found by other attributes.
    SearchAttributes(SearchAttributes),
    /// Something else describes the run to people.
    Memo(Memo),
    /// A child workflow was started.
    ChildStarted(ChildStarted),
    /// It returned.
    ChildCompleted(Nothing),
    /// It failed, or could not be started.
    ChildFailed(Failed),
    /// It ended as somebody asked it to.
    ChildCancelled(Failed),
    /// Somebody ended it.
    ChildTerminated(Failed),
    /// An operation was not begun.
    OperationRefused(OperationRefused),
    /// The run should continue as new.
    ContinueAsNewSuggested(ContinueAsNewSuggested),
    /// Somebody asked the run to end.
    CancelRequested(CancelRequested),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RequestId, TypeName};

    fn event(kind: EventKind) -> Event {
        Event {
            seq: 7,
            at: Timestamp::from_micros(1_800_000_000_000_000),
            step: Some(3),
            kind,
            payload: Some(Payload::json(&[1, 2]).expect("json")),
        }
    }

    #[test]
    fn an_event_survives_its_storage() {
        let signal = events::SignalReceived {
            name: TypeName::new("approved").expect("a name"),
            request: RequestId::new("r1").expect("an id"),
            trace: None,
        };
        for kind in [
            EventKind::SignalReceived(signal),
            EventKind::TimerFired(events::Nothing {}),
        ] {
            let event = event(kind);
            let record = event.record().expect("a record");

            assert_eq!(Event::from_record(record).expect("an event"), event);
        }
    }

    #[test]
    fn a_trace_is_stored_with_its_event_and_one_that_does_not_read_is_none() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 a=1";
        let read = |details: &str| {
            let record = Record {
                kind: "SignalReceived".to_owned(),
                details: Some(details.to_owned()),
                ..event(EventKind::TimerFired(events::Nothing {}))
                    .record()
                    .expect("a record")
            };
            Event::from_record(record).expect("an event")
        };
        let trace = |event: &Event| match &event.kind {
            EventKind::SignalReceived(signal) => signal.trace.as_ref().map(ToString::to_string),
            other => panic!("{other:?}"),
        };

        let traced = read(&format!(r#"{{"name":"a","request":"r","trace":"{text}"}}"#));
        assert_eq!(trace(&traced).as_deref(), Some(text));
        let again = Event::from_record(traced.record().expect("a record"));
        assert_eq!(again.expect("an event"), traced);
        // What an earlier version wrote, and what nobody of ours did.
        let before = read(r#"{"name":"a","request":"r"}"#);
        let details = before.record().expect("a record").details;
        assert_eq!(details.as_deref(), Some(r#"{"name":"a","request":"r"}"#));
        for odd in ["null", "7", "\"nothing\"", "{}"] {
            let odd = read(&format!(r#"{{"name":"a","request":"r","trace":{odd}}}"#));
            assert_eq!(trace(&odd), None);
        }
    }

    #[test]
    fn an_event_of_a_later_version_is_kept_as_it_is() {
        let record = Record {
            kind: "SelectionOpened".to_owned(),
            details: Some(r#"{"keys":["a"]}"#.to_owned()),
            ..event(EventKind::TimerFired(events::Nothing {}))
                .record()
                .expect("a record")
        };

        let event = Event::from_record(record.clone()).expect("an event");

        assert_eq!(event.record().expect("a record"), record);
    }

    #[test]
    fn details_that_are_not_of_their_kind_are_corrupt() {
        let record = Record {
            kind: "SignalReceived".to_owned(),
            details: Some("{}".to_owned()),
            ..event(EventKind::TimerFired(events::Nothing {}))
                .record()
                .expect("a record")
        };

        let error = Event::from_record(record).expect_err("no name");

        assert_eq!(error.kind(), coord_core::ErrorKind::Corrupt);
    }
}
