//! What the guard of determinism catches.

use super::*;

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
        place.contains("activity 2") && place.contains("guard.rs"),
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
    let replayed = Code::replay(identity(), means(), &[started()], &*mixed).expect("a history");
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
fn an_order_that_differs_from_run_to_run_is_found() {
    let times = std::sync::atomic::AtomicU32::new(0);
    let code = function(move |ctx: Context| {
        // As a hash map gives its entries out.
        let is_turned = times.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 2 == 1;
        async move {
            let mut entries = [DOUBLE, HALVE];
            if is_turned {
                entries.reverse();
            }
            let mut sum = 0;
            for result in join_all(entries.map(|entry| ctx.activity(entry, &1))).await {
                sum += result?;
            }
            Ok(sum)
        }
    });
    let (events, _) = go_on(&[started()], &*code).expect("it waits");

    let (step, expected, got) = diverged(go_on(&events, &*code));

    assert_eq!(
        (step, expected.as_str(), got.as_str()),
        (1, "activity `double`", "activity `halve`")
    );
}

#[test]
fn code_that_goes_on_where_the_history_ends_or_ends_otherwise_is_a_divergence() {
    let code = function(twice);
    let (events, _) = go_on(&[started()], &*code).expect("it waits");
    let events = closed(completed(events, 1, 2));

    let (_, expected, got) = diverged(go_on(&events, &*code));
    assert_eq!(
        (expected.as_str(), got.as_str()),
        ("nothing", "activity `double`")
    );

    let fails = function(|ctx: Context| async move {
        ctx.activity(DOUBLE, &1).await?;
        Err(Failure::new("no"))
    });
    let (_, expected, got) = diverged(go_on(&events, &*fails));
    assert_eq!((expected.as_str(), got.as_str()), ("Completed", "Failed"));
}

#[test]
fn what_was_decided_along_with_the_end_is_part_of_it() {
    let code = function(|ctx: Context| async move {
        select(ctx.activity(DOUBLE, &1), ctx.sleep(Duration::from_secs(1))).await;
        ctx.side_effect("coin", || 1)
    });
    let (events, _) = go_on(&[started()], &*code).expect("it waits");
    let (events, _) = go_on(&completed(events, 1, 2), &*code).expect("it ends");
    assert_eq!(events.len(), 6, "{events:?}");

    assert!(go_on(&closed(events), &*code).is_ok());
}

#[test]
fn a_run_that_was_handed_signals_which_it_does_not_want_may_return_at_once() {
    let code = function(|_| async { Ok(1) });
    let signal = events::SignalReceived {
        name: GO.name(),
        request: RequestId::new("r").expect("an id"),
        trace: None,
    };
    let handed = Message {
        at: Timestamp::from_micros(1_000_000),
        step: None,
        kind: EventKind::SignalReceived(signal),
        payload: None,
    };

    let (_, progress) = go_on(&[started(), handed.event(2)], &*code).expect("it ends");

    assert_eq!(progress, Progress::Ended(Ending::Output(encode(1))));
}
