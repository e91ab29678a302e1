//! What is the same whenever the code runs.

use super::*;

#[test]
fn the_same_code_goes_the_same_way() {
    let code = function(twice);
    let (events, _) = go_on(&[started()], &*code).expect("it waits");
    let (events, _) = go_on(&completed(events, 1, 2), &*code).expect("it waits");

    let (same, progress) = go_on(&events, &*code).expect("it waits");

    assert_eq!((same, progress), (events.clone(), Progress::Waits));
    let (_, ended) = go_on(&completed(events, 2, 4), &*code).expect("it ends");
    assert_eq!(ended, Progress::Ended(Ending::Output(encode(4))));
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
        if ctx.version("halve instead", 0..=1) == 0 {
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
        match ctx
            .activity(BIG, &"x".repeat(Limits::default().payload_bytes as usize))
            .await
        {
            Err(failure) if failure.kind == "payload_too_large" => Ok(1),
            _ => Ok(0),
        }
    });

    let (_, progress) = go_on(&[started()], &*big).expect("it ends");

    assert_eq!(progress, Progress::Ended(Ending::Output(encode(1))));
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
        trace: None,
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

#[test]
fn a_run_that_took_the_old_way_keeps_it_wherever_it_comes_by_again() {
    let old = function(|ctx: Context| async move {
        let mut sum = 0;
        for _ in 0..3 {
            sum += ctx.activity(DOUBLE, &1).await?;
        }
        Ok(sum)
    });
    let (events, _) = go_on(&[started()], &*old).expect("it waits");
    let (events, _) = go_on(&completed(events, 1, 2), &*old).expect("it waits");

    let new = function(|ctx: Context| async move {
        let mut sum = 0;
        for _ in 0..3 {
            sum += match ctx.version("halve instead", 0..=1) {
                0 => ctx.activity(DOUBLE, &1).await?,
                _ => ctx.activity(HALVE, &1).await?,
            };
        }
        Ok(sum)
    });

    let (events, _) = go_on(&completed(events, 2, 2), &*new).expect("it waits");
    let (events, progress) = go_on(&completed(events, 3, 2), &*new).expect("it ends");
    assert_eq!(progress, Progress::Ended(Ending::Output(encode(6))));
    assert!(go_on(&events, &*new).is_ok());
}

#[test]
fn a_run_whose_way_the_code_no_longer_knows_is_named() {
    let (events, _) = go_on(&[started()], &*function(twice)).expect("it waits");

    let newest = function(|ctx: Context| async move {
        ctx.version("halve instead", 2..=3);
        ctx.activity(DOUBLE, &1).await
    });

    let (_, expected, got) = diverged(go_on(&events, &*newest));
    assert_eq!(expected, "version marker `halve instead` 0");
    assert_eq!(got, "2 to 3 of it");
}

/// The first turn of `code` under limits that differ from the defaults.
fn begin_under(limits: Limits, code: &Function) -> (Vec<Event>, Progress) {
    let values = Arc::new(crate::values::Values::new(None, limits));
    let means = (Arc::new(Ids::random()), values);
    let replayed = Code::replay(identity(), means, &[started()], code).expect("a history");
    let (code, state, progress) = replayed.expect("it waits");
    let draft = Draft::new(identity(), state, 0, limits);
    carry_on(vec![started()], (code, draft, progress)).expect("no problem")
}

#[test]
fn what_was_too_large_once_is_so_again_under_wider_limits() {
    const BIG: Activity<String, u32> = Activity::new("big");
    let code = function(|ctx: Context| async move {
        match ctx.activity(BIG, &"x".repeat(100)).await {
            Err(failure) if failure.kind == Failure::PAYLOAD_TOO_LARGE => {
                ctx.activity(DOUBLE, &1).await
            }
            other => other,
        }
    });
    let limits = Limits {
        payload_bytes: 50,
        ..Limits::default()
    };

    let (events, progress) = begin_under(limits, &*code);

    assert_eq!(progress, Progress::Waits);
    assert_eq!(events[1].kind.name(), "OperationRefused");
    let (same, _) = go_on(&events, &*code).expect("it goes the same way");
    assert_eq!(same, events);
}

#[test]
fn what_exceeds_a_limit_fails_where_it_was_asked_for_and_nothing_else_does() {
    let code = function(|ctx: Context| async move {
        let all = join_all((0..3).map(|_| ctx.activity(DOUBLE, &1)));
        let wait = ctx.activity(HALVE, &1);
        match select(all, ctx.sleep(Duration::from_secs(1))).await {
            Either::Left(_) => wait.await,
            Either::Right(_) => Ok(0),
        }
    });
    let limits = Limits {
        pending_activities: 2,
        ..Limits::default()
    };

    let (events, progress) = begin_under(limits, &*code);

    assert_eq!(progress, Progress::Waits);
    let refused: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::OperationRefused(refused) => Some((event.step, refused.failure.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].0, Some(3));
    assert_eq!(refused[0].1.kind, Failure::LIMIT_EXCEEDED);
    assert!(go_on(&events, &*code).is_ok(), "also without the limit");
}

#[test]
fn a_side_effect_that_is_too_large_is_refused_whenever_the_code_runs() {
    let code = function(|ctx: Context| async move {
        match ctx.side_effect("big", || "x".repeat(100)) {
            Ok(_) => ctx.activity(HALVE, &1).await,
            Err(_) => ctx.activity(DOUBLE, &1).await,
        }
    });
    let limits = Limits {
        payload_bytes: 50,
        ..Limits::default()
    };
    let (events, _) = begin_under(limits, &*code);

    let (same, _) = go_on(&events, &*code).expect("it goes the same way");

    assert_eq!(same, events);
}

#[test]
fn a_thousand_timers_in_a_loop_are_told_apart() {
    let code = function(|ctx: Context| async move {
        let all = (0..1000).map(|_| ctx.sleep(Duration::from_micros(1)));
        for slept in join_all(all).await {
            slept?;
        }
        Ok(1)
    });
    let (mut events, _) = go_on(&[started()], &*code).expect("it waits");
    for step in (1..=1000).rev() {
        let fired = Message {
            at: Timestamp::from_micros(2_000_000),
            step: Some(step),
            kind: EventKind::TimerFired(events::Nothing {}),
            payload: None,
        };
        events.push(fired.event(events.len() as u64 + 1));
    }

    let (_, progress) = go_on(&events, &*code).expect("it ends");

    assert_eq!(progress, Progress::Ended(Ending::Output(encode(1))));
}
