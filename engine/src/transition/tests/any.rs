//! Whatever happens to a run, in whichever order.

use super::*;

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
