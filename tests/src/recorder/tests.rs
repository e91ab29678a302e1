use std::fs;

use coord_core::Name;
use coord_core::signals::register;

use super::*;

enum Signal {
    Lost { lock: Name },
    Held { locks: u64 },
}
coord_core::declare! { "test.recorder.";
    Lost { lock } => "test.recorder.lost", "A lock was lost.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("lost"));
    Held { locks } => "test.recorder.held", "How many locks there are.",
        Gauge, Debug, Unmonitored("nobody could do anything about it");
}
const CRATES: &[(&str, &[Declaration])] = &[("test", SIGNALS)];

/// Not the recorder of the process: what is declared here is no part of the contract.
fn recording(recorder: &Recorder, act: impl FnOnce()) {
    tracing::subscriber::with_default(recorder.log.clone(), || {
        metrics::with_local_recorder(&recorder.observer, act);
    });
}

fn lose(lock: &'static str) {
    let lock = Name::new(lock).expect("a valid name");
    Signal::Lost { lock }.emit();
}

#[test]
fn a_key_is_written_to_the_file_of_the_process_when_it_is_first_seen() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(CRATES, Some(folder.path().to_owned()));
    let written = || {
        let file = folder.path().join(file_name());
        fs::read_to_string(file).unwrap_or_default()
    };

    recording(&recorder, || {
        register(SIGNALS);
        assert_eq!(written(), "");
        lose("a");
        assert_eq!(written(), "test.recorder.lost\n");
        lose("b");
        Signal::Held { locks: 0 }.emit();
    });

    assert_eq!(written(), "test.recorder.lost\ntest.recorder.held\n");
    assert!(file_name().starts_with("coord_tests-"), "{}", file_name());
    assert!(recorder.observed("test.recorder.held"));
    assert_eq!(recorder.count("test.recorder.lost", &[]), 2);
}

#[test]
fn a_line_is_found_by_its_key_and_its_fields() {
    let recorder = Recorder::new(CRATES, None);

    recording(&recorder, || {
        lose("a");
        Signal::Held { locks: 3 }.emit();
        lose("b");
        tracing::error!(key = "test.recorder.lost", lock = "c", "of somebody else");
    });

    let lost = recorder.seen("test.recorder.lost", &[]);
    let locks: Vec<_> = lost.iter().map(|event| event.field("lock")).collect();
    assert_eq!(locks, [Some("a"), Some("b")]);
    assert_eq!(
        recorder.seen("test.recorder.held", &[("locks", "3")]).len(),
        1
    );
    assert_eq!(
        recorder.seen("test.recorder.held", &[("locks", "4")]).len(),
        0
    );
}

#[tokio::test]
async fn a_test_can_await_a_line_that_comes_later_and_one_that_came_before() {
    let recorder = Recorder::new(CRATES, None);
    let within = Duration::from_secs(5);
    let fields = [("lock", "mine")];

    let (event, ()) = tokio::join!(
        recorder.event("test.recorder.lost", &fields, within),
        async { recording(&recorder, || ["theirs", "mine"].into_iter().for_each(lose)) },
    );
    assert_eq!(event.field("lock"), Some("mine"));

    let all = recorder.events("test.recorder.lost", &[], 2, within).await;
    assert_eq!(all.len(), 2);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "0 of 1 lines of test.recorder.lost")]
async fn a_line_that_does_not_come_fails_the_test() {
    let recorder = Recorder::new(CRATES, None);
    let _ = recorder
        .event("test.recorder.lost", &[], Duration::from_mins(1))
        .await;
}

#[test]
fn the_oldest_lines_make_room() {
    let recorder = Recorder::new(CRATES, None);

    recording(&recorder, || {
        lose("first");
        (0..KEPT).for_each(|_| lose("later"));
    });

    assert_eq!(
        recorder.seen("test.recorder.lost", &[("lock", "first")]),
        []
    );
    assert_eq!(recorder.log.lock().len(), KEPT);
}
