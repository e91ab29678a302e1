//! Single rules of a run.

use super::*;

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

#[test]
fn signals_beyond_their_limit_are_kept_and_reported_once() {
    let limits = Limits {
        pending_signals: 2,
        ..Limits::default()
    };
    let (identity, state) = (begin().identity().clone(), begin().state().clone());
    let mut draft = Draft::new(identity, state, 0, limits);

    for (place, request) in (1..).zip(["a", "b", "c", "d"]) {
        let signal = events::SignalReceived {
            name: name(0),
            request: text(request),
        };
        let message = came(None, EventKind::SignalReceived(signal));
        draft.take(place, message).expect("taken");
    }

    let strain = |is_exceeded| Strain {
        limit: crate::limits::Limit::PendingSignals,
        is_exceeded,
    };
    assert_eq!(draft.take_strains(), [strain(false), strain(true)]);
    assert_eq!(cut(&mut draft).records.len(), 4);
}
