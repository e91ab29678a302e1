//! Single rules of a run.

use super::*;
use crate::model::Closed;

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
            trace: None,
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

#[test]
fn signals_that_come_near_their_limit_are_reported_once_and_all_kept() {
    let limits = Limits {
        pending_signals: 3,
        ..Limits::default()
    };
    let (identity, state) = (begin().identity().clone(), begin().state().clone());
    let mut draft = Draft::new(identity, state, 0, limits);

    for (place, request) in (1..).zip(["a", "b", "c", "d"]) {
        let signal = events::SignalReceived {
            name: name(0),
            request: text(request),
            trace: None,
        };
        let message = came(None, EventKind::SignalReceived(signal));
        draft.take(place, message).expect("taken");
    }

    let strain = Strain {
        limit: crate::limits::Limit::PendingSignals,
        is_exceeded: false,
    };
    // The sender was refused, or was told by another version that they arrive.
    assert_eq!(draft.take_strains(), [strain]);
    let turn = cut(&mut draft);
    assert_eq!((turn.records.len(), turn.buffered), (4, Some(4)));
    assert_eq!(cut(&mut draft).buffered, None, "as many as before");
}

/// A draft of a run with these limits.
fn limited(limits: Limits) -> Draft {
    let draft = begin();
    Draft::new(draft.identity().clone(), draft.state().clone(), 0, limits)
}

fn timer(step: u64) -> Command {
    let delay = Duration::from_mins(1);
    Command::Timer { step, delay }
}

#[test]
fn a_run_that_takes_no_refusal_for_an_answer_is_ended() {
    let mut draft = limited(Limits {
        history_events: 10,
        ..Limits::default()
    });
    let mut asked = 0;
    while !draft.state().is_closed() {
        asked += 1;
        draft.begin_batch();
        draft.carry_out(timer(asked)).expect("refused at worst");
        assert!(asked < 2000, "it goes on for ever");
    }

    // Nine timers after its start, refusals up to a thousand beyond, and its end.
    assert_eq!(draft.state().length(), 10 + 1000 + 1);
    assert_eq!(draft.state().open().count(), 0);
    let Then::Close(closing) = cut(&mut draft).then else {
        panic!("it goes on")
    };
    let Closed::Terminated(failure) = closing.closed else {
        panic!("{:?}", closing.closed)
    };
    assert_eq!(failure.kind, Failure::LIMIT_EXCEEDED);
}

#[test]
fn a_run_whose_history_is_full_may_end_as_it_likes() {
    for end in [
        Command::Complete(payload(1)),
        Command::Fail(Failure::new("enough")),
    ] {
        let mut draft = limited(Limits {
            history_events: 1,
            ..Limits::default()
        });
        for step in 1..=1000 {
            draft.carry_out(timer(step)).expect("refused");
        }

        draft.carry_out(end).expect("carried out");

        assert!(draft.state().is_closed());
        let Then::Close(closing) = cut(&mut draft).then else {
            panic!("it goes on")
        };
        assert!(!matches!(closing.closed, Closed::Terminated(_)));
    }
}

#[test]
fn a_request_to_end_leaves_what_is_shielded_and_ends_the_rest() {
    let mut draft = begin();
    draft.carry_out(timer(1)).expect("a timer");
    draft.carry_out(Command::Shield { step: 2 }).expect("noted");
    draft.carry_out(timer(2)).expect("a timer");
    draft.carry_out(timer(3)).expect("a timer");
    let request = events::CancelRequested {
        reason: "enough".to_owned(),
    };

    draft
        .take(1, came(None, EventKind::CancelRequested(request)))
        .expect("taken");

    let open: Vec<_> = draft.state().open().map(|(step, _)| step).collect();
    assert_eq!(open, [2]);
    // And so it is told by the history.
    let kinds = history(&[cut(&mut draft)]).into_iter().map(|it| it.kind);
    let shielded =
        kinds.filter(|kind| matches!(kind, EventKind::TimerScheduled(it) if it.shielded));
    assert_eq!(shielded.count(), 1);
}
