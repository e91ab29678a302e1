//! Waits for a condition of the code's own state.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const GROW: Signal<u32> = Signal::new("grow");

/// Waits until signals have brought enough, with the wait made before what it waits for.
async fn grown(ctx: Context, enough: u32) -> Result<u32, Failure> {
    let size = Arc::new(AtomicU32::new(0));
    let growing = async {
        loop {
            let more = ctx.signal(GROW).recv().await?;
            size.fetch_add(more, Ordering::Relaxed);
        }
    };
    let wait = ctx.wait_until("grown", || size.load(Ordering::Relaxed) >= enough);
    match select(wait.within(Duration::from_mins(1)), growing).await {
        Either::Left(waited) => waited.map(|()| size.load(Ordering::Relaxed)),
        Either::Right(failed) => failed,
    }
}

fn grow(mut events: Vec<Event>, by: u32, request: &str, wait: u64) -> Vec<Event> {
    let received = events::SignalReceived {
        name: GROW.name(),
        request: RequestId::new(request).expect("an id"),
        trace: None,
    };
    let at = Timestamp::from_micros(3_000_000);
    let came = |step, kind, payload| Message {
        at,
        step,
        kind,
        payload,
    };
    let signal = came(None, EventKind::SignalReceived(received), Some(encode(by)));
    events.push(signal.event(events.len() as u64 + 1));
    let applied = events::SignalApplied {
        received: events.len() as u64,
    };
    let applied = came(Some(wait), EventKind::SignalApplied(applied), None);
    events.push(applied.event(events.len() as u64 + 1));
    events
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.name()).collect()
}

#[test]
fn a_condition_is_seen_to_hold_by_whatever_makes_it_hold() {
    let code = function(|ctx: Context| grown(ctx, 3));
    let (events, progress) = go_on(&[started()], &*code).expect("it waits");
    assert_eq!(progress, Progress::Waits);
    assert_eq!(
        names(&events),
        ["Started", "ConditionWaitOpened", "SignalWaitOpened"]
    );
    let (events, progress) = go_on(&grow(events, 2, "r1", 2), &*code).expect("it waits");
    assert_eq!(progress, Progress::Waits);

    let (events, progress) = go_on(&grow(events, 2, "r2", 3), &*code).expect("it ends");

    assert_eq!(progress, Progress::Ended(Ending::Output(encode(4))));
    assert_eq!(
        names(&events)[7..],
        [
            "SignalApplied",
            "SignalWaitOpened",
            "ConditionWaitSatisfied",
            "SignalWaitCancelled"
        ]
    );
    assert!(
        go_on(&closed(events), &*code).is_ok(),
        "it goes the same way"
    );
}

#[test]
fn a_condition_that_holds_from_the_start_is_waited_for_no_longer() {
    let code = function(|ctx: Context| async move {
        ctx.wait_until("always", || true).await?;
        Ok(1)
    });

    let (events, progress) = go_on(&[started()], &*code).expect("it ends");

    assert_eq!(progress, Progress::Ended(Ending::Output(encode(1))));
    assert_eq!(
        names(&events),
        ["Started", "ConditionWaitOpened", "ConditionWaitSatisfied"]
    );
}

#[test]
fn a_condition_that_holds_earlier_or_later_than_before_is_a_divergence() {
    let before = function(|ctx: Context| grown(ctx, 3));
    let (events, _) = go_on(&[started()], &*before).expect("it waits");
    let (events, _) = go_on(&grow(events, 2, "r1", 2), &*before).expect("it waits");
    let (events, _) = go_on(&grow(events, 2, "r2", 3), &*before).expect("it ends");

    let sooner = function(|ctx: Context| grown(ctx, 1));
    let later = function(|ctx: Context| grown(ctx, 5));

    let (step, expected, got) = diverged(go_on(&events, &*later));
    assert_eq!(
        (step, expected.as_str(), got.as_str()),
        (
            1,
            "wait for condition `grown` satisfied",
            "that it does not hold yet"
        )
    );
    // Of this history it ends sooner than its code says.
    let earlier = &events[..6];
    assert!(go_on(earlier, &*before).is_ok());
    let (step, ..) = diverged(go_on(&grow(earlier.to_vec(), 0, "r3", 3), &*sooner));
    assert_eq!(step, 1);
}

#[test]
fn a_condition_that_does_not_hold_in_time_fails_the_wait() {
    let code = function(|ctx: Context| async move {
        let wait = ctx.wait_until("never", || false);
        let failure = wait.within(Duration::from_secs(5)).await.expect_err("over");
        assert_eq!(failure.kind, Failure::TIMED_OUT);
        Ok(1)
    });
    let (mut events, _) = go_on(&[started()], &*code).expect("it waits");
    let state = RunState::fold(&events).expect("a history");
    assert_eq!(state.wait(), Some(crate::model::Wait::Condition));
    assert_eq!(state.next_due(), Some(Timestamp::from_micros(6_000_000)));

    let over = Message {
        at: Timestamp::from_micros(6_000_000),
        step: Some(1),
        kind: EventKind::ConditionWaitTimedOut(events::Nothing {}),
        payload: None,
    };
    events.push(over.event(3));

    let (_, progress) = go_on(&events, &*code).expect("it ends");
    assert_eq!(progress, Progress::Ended(Ending::Output(encode(1))));
}
