//! The guard of determinism: what it catches, and what it lets pass.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::*;
use crate::model::{
    Event, EventKind, Ids, Message, Namespace, Priority, Queue, RequestId, RunId, Timestamp,
    TypeName, WorkflowId, events,
};
use crate::transition::{Draft, Identity, RunState};

const DOUBLE: Activity<u32, u32> = Activity::new("double");
const HALVE: Activity<u32, u32> = Activity::new("halve");
const GO: Signal<()> = Signal::new("go");

fn identity() -> Identity {
    Identity {
        namespace: Namespace::new("tests").expect("a name"),
        workflow: WorkflowId::new("work").expect("an id"),
        run: RunId::new("run").expect("an id"),
    }
}

fn started() -> Event {
    Event {
        seq: 1,
        at: Timestamp::from_micros(1_000_000),
        step: None,
        kind: EventKind::Started(events::Started {
            name: TypeName::new("work").expect("a name"),
            workflow: identity().workflow,
            number: 1,
            queue: Queue::new("q").expect("a name"),
            priority: Priority::default(),
            build: None,
            seed: 7,
            parent: None,
            continued_from: None,
            execution_deadline_at: None,
            memo: serde_json::Map::new(),
        }),
        payload: None,
    }
}

fn function<F, R>(code: F) -> Box<Function>
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<u32, Failure>> + Send + 'static,
{
    Box::new(move |context, _| {
        let running = code(context);
        Box::pin(async move { encode(&running.await?) })
    })
}

/// Replays and goes on: the history with what the code asks for at its end.
fn go_on(events: &[Event], function: &Function) -> Result<(Vec<Event>, Progress), Problem> {
    let ids = Arc::new(Ids::random());
    let replayed = Code::replay(identity(), ids, events, function).expect("a history");
    let (mut code, state, mut progress) = replayed?;
    let mut draft = Draft::new(identity(), state, 0);
    let mut events = events.to_vec();
    loop {
        for command in code.take_commands() {
            draft.carry_out(command).expect("carried out");
        }
        let Some(fed) = draft.next_fed() else {
            return Ok((events, progress));
        };
        events.push(fed.event.clone());
        code.see(&fed.event, fed.outcome);
        progress = code.poll(Waker::noop(), !draft.is_pending())?;
    }
}

/// A history after the result of the activity of `step`.
fn completed(mut events: Vec<Event>, step: u64, result: u32) -> Vec<Event> {
    let completed = events::ActivityCompleted {
        attempt: crate::model::AttemptId::new("a").expect("an id"),
        number: 1,
    };
    let message = Message {
        at: Timestamp::from_micros(2_000_000),
        step: Some(step),
        kind: EventKind::ActivityCompleted(completed),
        payload: Some(encode(&result).expect("json")),
    };
    let seq = events.len() as u64 + 1;
    events.push(message.event(seq));
    events
}

fn diverged(result: Result<(Vec<Event>, Progress), Problem>) -> (u64, String, String) {
    match result.expect_err("it diverges") {
        Problem::Diverged {
            step,
            expected,
            got,
        } => (step, expected, got),
        other => panic!("{other}"),
    }
}

async fn twice(ctx: Context) -> Result<u32, Failure> {
    let once = ctx.activity(DOUBLE, &1).await?;
    ctx.activity(DOUBLE, &once).await
}

#[test]
fn the_same_code_goes_the_same_way() {
    let code = function(twice);
    let (events, _) = go_on(&[started()], &*code).expect("it waits");
    let (events, _) = go_on(&completed(events, 1, 2), &*code).expect("it waits");

    let (same, progress) = go_on(&events, &*code).expect("it waits");

    assert_eq!((same, progress), (events.clone(), Progress::Waits));
    let (_, ended) = go_on(&completed(events, 2, 4), &*code).expect("it ends");
    assert_eq!(
        ended,
        Progress::Ended(Ending::Output(encode(&4).expect("json")))
    );
}

#[test]
fn another_activity_at_the_same_place_is_named_beside_the_one_of_the_history() {
    let (events, _) = go_on(&[started()], &*function(twice)).expect("it waits");

    let renamed = function(|ctx: Context| async move { ctx.activity(HALVE, &1).await });

    let (step, expected, got) = diverged(go_on(&events, &*renamed));
    assert_eq!(
        (step, expected.as_str(), got.as_str()),
        (1, "activity `double`", "activity `halve`")
    );
}

#[test]
fn another_sort_of_operation_is_a_divergence() {
    let (events, _) = go_on(&[started()], &*function(twice)).expect("it waits");

    let sleepy = function(|ctx: Context| async move {
        ctx.sleep(Duration::from_secs(1)).await?;
        Ok(1)
    });

    let (step, expected, got) = diverged(go_on(&events, &*sleepy));
    assert_eq!(
        (step, expected.as_str(), got.as_str()),
        (1, "activity `double`", "timer")
    );
}

#[test]
fn an_operation_that_the_code_no_longer_asks_for_is_a_divergence() {
    let both = function(|ctx: Context| async move {
        let (one, two) = join(ctx.activity(DOUBLE, &1), ctx.activity(DOUBLE, &2)).await;
        Ok(one? + two?)
    });
    let (events, _) = go_on(&[started()], &*both).expect("it waits");

    let once = function(|ctx: Context| async move { ctx.activity(DOUBLE, &1).await });

    let (step, expected, got) = diverged(go_on(&events, &*once));
    assert_eq!(
        (step, expected.as_str(), got.as_str()),
        (2, "activity `double`", "nothing")
    );
}

#[test]
fn code_that_returns_where_the_history_goes_on_is_a_divergence() {
    let code = function(twice);
    let (events, _) = go_on(&[started()], &*code).expect("it waits");
    let (events, _) = go_on(&completed(events, 1, 2), &*code).expect("it waits");

    let short = function(|ctx: Context| async move { ctx.activity(DOUBLE, &1).await });

    let (_, expected, got) = diverged(go_on(&events, &*short));
    assert_eq!(
        (expected.as_str(), got.as_str()),
        ("ActivityScheduled", "return")
    );
}

#[test]
fn an_operation_that_was_put_in_before_others_is_a_divergence() {
    let code = function(twice);
    let (events, _) = go_on(&[started()], &*code).expect("it waits");
    let (events, _) = go_on(&completed(events, 1, 2), &*code).expect("it waits");

    let longer = function(|ctx: Context| async move {
        let once = ctx.activity(DOUBLE, &1).await?;
        ctx.side_effect("coin", || 1)?;
        ctx.activity(DOUBLE, &once).await
    });

    let (step, expected, got) = diverged(go_on(&events, &*longer));
    assert_eq!(
        (step, expected.as_str(), got.as_str()),
        (2, "activity `double`", "side effect `coin`")
    );
}

#[test]
fn a_wait_for_something_else_names_the_await_before_it() {
    let foreign = function(|ctx: Context| async move {
        ctx.side_effect("coin", || 1)?;
        _ = ctx.activity(DOUBLE, &1).await?;
        std::future::pending().await
    });
    let (events, _) = go_on(&[started()], &*foreign).expect("it waits");

    let problem = go_on(&completed(events, 2, 2), &*foreign).expect_err("it hangs");

    let Problem::Foreign(place) = problem else {
        panic!("{problem}")
    };
    assert!(
        place.contains("activity 2") && place.contains("flow/tests.rs"),
        "{place}"
    );
}

#[test]
fn a_wake_from_outside_beside_an_operation_is_found() {
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let told = std::sync::Mutex::new(Some(told));
    let mixed = function(move |ctx: Context| {
        let told = told.lock().expect("free").take().expect("run once");
        async move {
            select(told, ctx.activity(DOUBLE, &1)).await;
            Ok(1)
        }
    });
    let ids = Arc::new(Ids::random());
    let replayed = Code::replay(identity(), ids, &[started()], &*mixed).expect("a history");
    let (mut code, ..) = replayed.expect("it waits");

    tell.send(()).expect("it listens");

    let problem = code
        .poll(Waker::noop(), false)
        .expect_err("woken from outside");
    assert!(matches!(problem, Problem::Foreign(_)), "{problem}");
}

#[test]
fn a_panic_is_a_problem_with_its_message() {
    let panics = function(|_| async { panic!("no {}", "luck") });

    let problem = go_on(&[started()], &*panics).expect_err("it panics");

    assert_eq!(problem, Problem::Panicked("no luck".to_owned()));
}

#[test]
fn numbers_are_given_when_futures_are_made_and_not_when_they_are_polled() {
    let backwards = function(|ctx: Context| async move {
        let (first, second) = (ctx.activity(DOUBLE, &1), ctx.activity(HALVE, &2));
        let second = second.await?;
        Ok(second + first.await?)
    });

    let (events, _) = go_on(&[started()], &*backwards).expect("it waits");

    let EventKind::ActivityScheduled(activity) = &events[1].kind else {
        panic!("{events:?}")
    };
    assert_eq!((activity.name.as_str(), events[1].step), ("halve", Some(2)));
    let (events, _) = go_on(&completed(events, 2, 1), &*backwards).expect("it waits");
    assert_eq!(events.last().expect("one").step, Some(1));
}

#[test]
fn time_chance_and_values_from_outside_are_the_same_again() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let recorder = Arc::clone(&seen);
    let outside = std::sync::atomic::AtomicU32::new(1);
    let code = function(move |ctx: Context| {
        let value = outside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let recorder = Arc::clone(&recorder);
        async move {
            let value = ctx.side_effect("value", || value)?;
            let seen = (ctx.now(), ctx.random(), ctx.uuid(), value);
            recorder.lock().expect("free").push(seen);
            ctx.activity(DOUBLE, &1).await
        }
    });
    let (events, _) = go_on(&[started()], &*code).expect("it waits");

    go_on(&completed(events, 2, 2), &*code).expect("it ends");

    let seen = seen.lock().expect("free");
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0].3, 1);
    assert_eq!(seen[0].2.as_bytes()[14], b'4', "{}", seen[0].2);
}

#[test]
fn a_run_keeps_its_way_through_code_that_has_changed() {
    let old = function(twice);
    let (events, _) = go_on(&[started()], &*old).expect("it waits");
    let before = completed(events, 1, 2);
    let (before, _) = go_on(&before, &*old).expect("it waits");

    let new = function(|ctx: Context| async move {
        let once = ctx.activity(DOUBLE, &1).await?;
        if ctx.version("halve instead", 1) == 0 {
            return ctx.activity(DOUBLE, &once).await;
        }
        ctx.activity(HALVE, &once).await
    });

    go_on(&before, &*new).expect("an old run goes the old way");
    let (fresh, _) = go_on(&[started()], &*new).expect("it waits");
    let (fresh, _) = go_on(&completed(fresh, 1, 2), &*new).expect("it waits");
    let EventKind::ActivityScheduled(activity) = &fresh.last().expect("one").kind else {
        panic!("{fresh:?}")
    };
    assert_eq!(activity.name.as_str(), "halve");
    let (same, _) = go_on(&fresh, &*new).expect("a new run goes the new way");
    assert_eq!(same, fresh);
}

#[test]
fn a_value_that_is_too_large_is_a_failure_that_the_code_sees() {
    const BIG: Activity<String, u32> = Activity::new("big");
    let big = function(|ctx: Context| async move {
        match ctx.activity(BIG, &"x".repeat(MAX_PAYLOAD_BYTES)).await {
            Err(failure) if failure.kind == "payload_too_large" => Ok(1),
            _ => Ok(0),
        }
    });

    let (_, progress) = go_on(&[started()], &*big).expect("it ends");

    assert_eq!(
        progress,
        Progress::Ended(Ending::Output(encode(&1).expect("json")))
    );
}

#[test]
fn a_sleep_of_nothing_looks_like_any_other() {
    for delay in [Duration::ZERO, Duration::from_secs(1)] {
        let sleepy = function(move |ctx: Context| async move {
            ctx.sleep(delay).await?;
            Ok(1)
        });
        let (events, progress) = go_on(&[started()], &*sleepy).expect("it waits");

        assert_eq!(
            (events[1].kind.name(), progress),
            ("TimerScheduled", Progress::Waits)
        );
    }
}

#[test]
fn a_cancelled_wait_takes_no_signal() {
    let code = function(|ctx: Context| async move {
        let signal = ctx.signal(GO);
        select(signal.recv(), ctx.activity(DOUBLE, &1)).await;
        signal.recv().await?;
        Ok(1)
    });
    let (events, _) = go_on(&[started()], &*code).expect("it waits");
    let (mut events, _) = go_on(&completed(events, 2, 2), &*code).expect("it waits");
    let state = RunState::fold(&events).expect("a history");
    let open: Vec<_> = state.open().map(|(step, _)| step).collect();
    assert_eq!(open, [3]);

    let signal = events::SignalReceived {
        name: GO.name(),
        request: RequestId::new("r").expect("an id"),
    };
    let at = Timestamp::from_micros(3_000_000);
    let message = Message {
        at,
        step: None,
        kind: EventKind::SignalReceived(signal),
        payload: None,
    };
    events.push(message.event(events.len() as u64 + 1));
    let applied = events::SignalApplied {
        received: events.len() as u64,
    };
    let kind = EventKind::SignalApplied(applied);
    let message = Message {
        at,
        step: Some(3),
        kind,
        payload: None,
    };
    events.push(message.event(events.len() as u64 + 1));

    let (_, progress) = go_on(&events, &*code).expect("it ends");
    assert!(matches!(progress, Progress::Ended(Ending::Output(_))));
}
