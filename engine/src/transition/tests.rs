//! A run that lives through any sequence of commands and of late, duplicate or reordered messages.

mod any;
mod rules;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::limits::Limits;
use crate::model::{
    AttemptId, Event, EventKind, Expired, Failure, Message, Namespace, OpKind, ParentClose,
    Payload, Priority, Queue, RequestId, Retry, RunId, Timeouts, Timestamp, TypeName, WorkflowId,
    events,
};
use crate::store::{Fence, Held, Holder, Then, Turn};

/// One thing that happens to a run.
#[derive(Clone, Debug)]
enum Happening {
    Asked(Command),
    Came(Message),
    /// A message that was there before comes again.
    CameAgain(usize),
    /// So many milliseconds pass, and due timers fire.
    Passed(u64),
    /// What was decided so far is committed.
    Committed,
}

fn text<T: TryFrom<String, Error = coord_core::Error>>(text: impl Into<String>) -> T {
    T::try_from(text.into()).expect("a valid id")
}

fn payload(value: u64) -> Payload {
    Payload::json(&value).expect("json")
}

fn name(number: u64) -> TypeName {
    text(format!("n{number}"))
}

fn begin() -> Draft {
    let run: RunId = text("run");
    let identity = Identity {
        namespace: text::<Namespace>("tests"),
        workflow: text::<WorkflowId>("work"),
        run,
    };
    let started = Event {
        seq: 1,
        at: Timestamp::from_micros(1_000_000),
        step: None,
        kind: EventKind::Started(events::Started {
            name: name(0),
            workflow: identity.workflow.clone(),
            number: 1,
            queue: text::<Queue>("q"),
            priority: Priority::default(),
            fairness: None,
            build: None,
            seed: 7,
            parent: None,
            continued_from: None,
            occurrence: None,
            execution_deadline_at: None,
            memo: serde_json::Map::new(),
            attributes: crate::model::Attributes::new(),
            trace: None,
        }),
        payload: Some(payload(1)),
    };
    let state = RunState::fold([&started]).expect("a start");
    Draft::new(identity, state, 0, Limits::default())
}

fn came(step: Option<u64>, kind: EventKind) -> Message {
    Message {
        at: Timestamp::from_micros(1_000_000),
        step,
        kind,
        payload: Some(payload(3)),
    }
}

fn command() -> impl Strategy<Value = Command> {
    let step = 1..12_u64;
    prop_oneof![
        4 => step.clone().prop_map(|step| Command::Activity {
            step,
            name: name(step),
            input: payload(step),
            queue: None,
            priority: None,
            retry: Retry::default(),
            timeouts: Timeouts::default(),
        }),
        3 => (step.clone(), 0..50_u64).prop_map(|(step, ms)| Command::Timer {
            step,
            delay: Duration::from_millis(ms),
        }),
        3 => (step.clone(), 0..2_u64).prop_map(|(step, update)| Command::AwaitUpdate {
            step,
            name: name(update),
        }),
        4 => (step.clone(), 0..2_u64).prop_map(|(step, signal)| Command::AwaitSignal {
            step,
            name: name(signal),
        }),
        2 => step.clone().prop_map(|step| Command::Child(Box::new(ChildCommand {
            step,
            name: name(step),
            workflow: text(format!("child{step}")),
            run: text(format!("childrun{step}")),
            seed: 1,
            input: payload(step),
            queue: None,
            on_close: ParentClose::Terminate,
        }))),
        2 => step.clone().prop_map(|step| Command::StepEnded {
            step,
            name: name(step),
            result: Ok(payload(step)),
        }),
        2 => step.prop_map(|step| Command::Drop { step }),
        1 => Just(Command::Complete(payload(9))),
        1 => Just(Command::Fail(Failure::new("no").of_kind(Failure::CANCELLED))),
        1 => Just(Command::Continue(Box::new(ContinueCommand {
            run: text("next"),
            seed: 2,
            input: payload(2),
        }))),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let step = || (0..14_u64).prop_map(Some);
    let nothing = events::Nothing {};
    let failed = || events::Failed {
        failure: Failure::new("broken"),
    };
    prop_oneof![
        4 => step().prop_map(|step| came(step, EventKind::ActivityCompleted(
            events::ActivityCompleted { attempt: text::<AttemptId>("a"), number: 1 },
        ))),
        1 => step().prop_map(|step| came(step, EventKind::ActivityTimedOut(
            events::ActivityTimedOut { expired: Expired::StartToClose, number: 1 },
        ))),
        2 => step().prop_map(move |step| came(step, EventKind::ChildCompleted(nothing))),
        1 => step().prop_map(move |step| came(step, EventKind::ChildFailed(failed()))),
        4 => (0..2_u64, 0..6_u64).prop_map(|(signal, request)| came(None, EventKind::SignalReceived(
            events::SignalReceived {
                name: name(signal),
                request: text::<RequestId>(format!("r{request}")),
                trace: None,
            },
        ))),
        3 => (0..2_u64, 6..12_u64).prop_map(|(update, request)| came(None, EventKind::UpdateAccepted(
            events::UpdateAccepted {
                name: name(update),
                request: text::<RequestId>(format!("r{request}")),
                trace: None,
            },
        ))),
        1 => Just(came(None, EventKind::CancelRequested(
            events::CancelRequested { reason: "enough".to_owned() },
        ))),
        1 => Just(came(None, EventKind::Terminated(failed()))),
        // What is no news for a run at all.
        1 => step().prop_map(move |step| came(step, EventKind::TimerFired(nothing))),
    ]
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        5 => command().prop_map(Happening::Asked),
        5 => message().prop_map(Happening::Came),
        2 => any::<usize>().prop_map(Happening::CameAgain),
        2 => (0..40_u64).prop_map(Happening::Passed),
        2 => Just(Happening::Committed),
    ];
    proptest::collection::vec(happening, 0..60)
}

/// Lives through all of it, and gives back the draft and the turns that were committed.
fn live(happenings: &[Happening]) -> (Draft, Vec<Turn>) {
    let mut draft = begin();
    let (mut turns, mut inbox, mut place) = (Vec::new(), Vec::new(), 0);
    let mut now = Timestamp::from_micros(1_000_000);
    for happening in happenings {
        match happening {
            // Code that asks for the same operation twice does not exist: steps are counted.
            Happening::Asked(command) if asks_again(&draft, command) => {}
            Happening::Asked(command) => {
                // After the end it is refused, and nothing happens.
                let refused = draft.carry_out(command.clone()).is_err();
                assert!(!refused || draft.state().is_closed());
            }
            Happening::Came(message) => {
                place += 1;
                inbox.push((place, message.clone()));
                draft.take(place, message.clone()).expect("a history");
            }
            Happening::CameAgain(index) => {
                if let Some((place, message)) = inbox.get(index % inbox.len().max(1)) {
                    draft.take(*place, message.clone()).expect("a history");
                    draft.hear(message.clone()).expect("a history");
                }
            }
            Happening::Passed(ms) => {
                now = now.plus(Duration::from_millis(*ms));
                draft.set_now(now);
                draft.fire_due().expect("a history");
            }
            Happening::Committed => turns.push(cut(&mut draft)),
        }
    }
    turns.push(cut(&mut draft));
    (draft, turns)
}

fn asks_again(draft: &Draft, command: &Command) -> bool {
    let step = match command {
        Command::Activity { step, .. }
        | Command::Timer { step, .. }
        | Command::AwaitSignal { step, .. }
        | Command::AwaitUpdate { step, .. }
        | Command::StepEnded { step, .. } => *step,
        Command::Child(child) => child.step,
        _ => return false,
    };
    draft.state().op(step).is_some()
}

fn cut(draft: &mut Draft) -> Turn {
    let held = Held {
        task: crate::model::TaskId::of(&draft.identity().run, 0),
        epoch: 1,
        holder: Holder::Overdue,
    };
    draft.cut(Fence::Task(held), None).expect("a turn")
}

fn history(turns: &[Turn]) -> Vec<Event> {
    let records = turns.iter().flat_map(|turn| turn.records.clone());
    records
        .map(|record| Event::from_record(record).expect("an event"))
        .collect()
}

fn is_last(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Completed(_)
            | EventKind::Failed(_)
            | EventKind::Cancelled(_)
            | EventKind::Terminated(_)
            | EventKind::TimedOut(_)
            | EventKind::ContinuedAsNew(_)
    )
}
