//! Any sequence of commands and of late, duplicate or reordered messages.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::{
    AttemptId, Event, EventKind, Expired, Failure, Message, Namespace, ParentClose, Payload,
    Priority, Queue, RequestId, Retry, RunId, Timeouts, Timestamp, TypeName, WorkflowId, events,
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
            build: None,
            seed: 7,
            parent: None,
            continued_from: None,
            execution_deadline_at: None,
            memo: serde_json::Map::new(),
        }),
        payload: Some(payload(1)),
    };
    Draft::new(identity, RunState::fold([&started]).expect("a start"), 0)
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
            },
        ))),
        3 => (0..2_u64, 6..12_u64).prop_map(|(update, request)| came(None, EventKind::UpdateAccepted(
            events::UpdateAccepted {
                name: name(update),
                request: text::<RequestId>(format!("r{request}")),
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

proptest! {
    #[test]
    fn a_history_is_dense_and_gives_the_state_back(happenings in happenings()) {
        let (draft, turns) = live(&happenings);
        let events = history(&turns);

        let mut state = begin().state().clone();
        for (index, event) in events.iter().enumerate() {
            prop_assert_eq!(event.seq, index as u64 + 2);
            state.apply(event).expect("the next event");
        }
        prop_assert_eq!(&state, draft.state());
    }

    #[test]
    fn a_run_has_one_end_and_nothing_after_it(happenings in happenings()) {
        let (draft, turns) = live(&happenings);
        let events = history(&turns);

        let ends = events.iter().filter(|event| is_last(&event.kind)).count();
        prop_assert_eq!(ends, usize::from(draft.state().is_closed()));
        if let Some(end) = events.iter().position(|event| is_last(&event.kind)) {
            prop_assert_eq!(end + 1, events.len());
        }
        let closes = turns.iter().filter(|turn| matches!(turn.then, Then::Close(_))).count();
        prop_assert_eq!(closes, ends);
    }

    #[test]
    fn an_operation_has_at_most_one_outcome(happenings in happenings()) {
        let (mut draft, _) = live(&happenings);

        let mut ended = std::collections::BTreeSet::new();
        while let Some(fed) = draft.next_fed() {
            if let Some((step, _)) = fed.outcome {
                prop_assert!(ended.insert(step), "operation {} ended twice", step);
            }
        }
    }

    #[test]
    fn an_activity_is_open_exactly_while_it_has_a_task(happenings in happenings()) {
        let (draft, turns) = live(&happenings);
        let mut tasks = std::collections::BTreeSet::new();
        let settled = |event: &Event| matches!(
            event.kind,
            EventKind::ActivityCompleted(_) | EventKind::ActivityTimedOut(_)
        );
        for turn in &turns {
            for activity in &turn.activities {
                tasks.insert(crate::model::TaskId::of(&turn.run, activity.step));
            }
            for task in &turn.dropped {
                tasks.remove(task);
            }
            for event in history(std::slice::from_ref(turn)).iter().filter(|event| settled(event)) {
                let step = event.step.expect("an operation");
                tasks.remove(&crate::model::TaskId::of(&turn.run, step));
            }
            if matches!(turn.then, Then::Close(_)) {
                tasks.clear();
            }
        }
        let open = draft.state().open().filter(|(_, op)| op.kind == OpKind::Activity);
        let open: std::collections::BTreeSet<_> =
            open.map(|(step, _)| crate::model::TaskId::of(&draft.identity().run, step)).collect();
        prop_assert_eq!(tasks, open);
    }

    #[test]
    fn signals_of_a_name_reach_its_waits_in_order(happenings in happenings()) {
        let (_, turns) = live(&happenings);
        let mut last = std::collections::BTreeMap::new();
        let mut names = std::collections::BTreeMap::new();
        for event in history(&turns) {
            match event.kind {
                EventKind::SignalReceived(signal) => {
                    names.insert(event.seq, signal.name);
                }
                EventKind::SignalApplied(applied) => {
                    let name = names.get(&applied.received).expect("received before");
                    let before = last.insert(name.clone(), (applied.received, event.step));
                    prop_assert!(before < Some((applied.received, event.step)));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn no_timer_fires_before_its_instant(happenings in happenings()) {
        let (_, turns) = live(&happenings);
        let mut due = std::collections::BTreeMap::new();
        for event in history(&turns) {
            match event.kind {
                EventKind::TimerScheduled(timer) => {
                    due.insert(event.step, timer.due_at);
                }
                EventKind::TimerFired(_) => prop_assert!(due[&event.step] <= event.at),
                _ => {}
            }
        }
    }
}

#[test]
fn a_request_to_end_ends_what_is_open_and_nothing_later() {
    let mut draft = begin();
    draft
        .carry_out(Command::Timer {
            step: 1,
            delay: Duration::from_mins(1),
        })
        .expect("a timer");
    let request = events::CancelRequested {
        reason: "enough".to_owned(),
    };
    draft
        .take(1, came(None, EventKind::CancelRequested(request)))
        .expect("taken");

    draft
        .carry_out(Command::Timer {
            step: 2,
            delay: Duration::from_secs(1),
        })
        .expect("a timer");

    let open: Vec<_> = draft.state().open().map(|(step, _)| step).collect();
    assert_eq!(open, [2]);
    assert_eq!(draft.state().cancel_reason(), Some("enough"));
}

#[test]
fn a_run_that_continues_hands_on_the_signals_that_no_wait_got() {
    let mut draft = begin();
    for (place, request) in (1..).zip(["a", "b"]) {
        let signal = events::SignalReceived {
            name: name(0),
            request: text(request),
        };
        draft
            .take(place, came(None, EventKind::SignalReceived(signal)))
            .expect("taken");
    }
    draft
        .carry_out(Command::AwaitSignal {
            step: 1,
            name: name(0),
        })
        .expect("a wait");

    let next = ContinueCommand {
        run: text("next"),
        seed: 2,
        input: payload(2),
    };
    draft
        .carry_out(Command::Continue(Box::new(next)))
        .expect("continued");

    let Then::Close(closing) = cut(&mut draft).then else {
        panic!("the run goes on")
    };
    let start = closing.next.expect("the next run");
    let kinds: Vec<_> = start
        .records
        .iter()
        .map(|record| record.kind.as_str())
        .collect();
    assert_eq!(kinds, ["Started", "SignalReceived"]);
    assert!(
        start.records[1]
            .details
            .as_ref()
            .expect("details")
            .contains("\"b\"")
    );
    assert!(closing.to_parent.is_none());
}
