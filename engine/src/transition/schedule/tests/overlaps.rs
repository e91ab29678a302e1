//! What becomes of an occurrence while others are open.

use super::*;

#[test]
fn skip_leaves_out_what_would_overlap() {
    let first = due(minutely(Overlap::Skip), at(1));

    let second = due(first.record.clone(), at(2));
    assert_eq!((second.fires.len(), second.skipped), (0, 1));

    let later = due(ended(second.record), at(3));
    assert_eq!(instants(&later), [at(3)]);
}

#[test]
fn one_is_buffered_and_fires_when_the_open_one_has_ended() {
    let first = due(minutely(Overlap::BufferOne), at(1));
    let waiting = due(first.record, at(3));
    assert_eq!((waiting.fires.len(), waiting.skipped), (0, 1));
    assert_eq!(
        waiting.record.look_at,
        Timestamp::default(),
        "it is watched"
    );

    let plan = due(ended(waiting.record), at(3).plus(SECOND));

    assert_eq!(instants(&plan), [at(2)]);
    assert_eq!(plan.record.look_at, at(4), "nothing is watched any more");
}

#[test]
fn all_are_buffered_and_fire_in_order_one_at_a_time() {
    let mut record = due(minutely(Overlap::BufferAll), at(4)).record;
    let mut fires = Vec::new();
    for _ in 0..4 {
        let plan = due(ended(record), at(4).plus(SECOND));
        fires.extend(instants(&plan));
        record = plan.record;
    }

    assert_eq!(fires, [at(2), at(3), at(4)]);
}

#[test]
fn a_buffer_that_is_full_takes_no_more() {
    let mut record = due(minutely(Overlap::BufferAll), at(1)).record;
    record.schedule.catch_up = Duration::from_hours(100);
    let most = MOST_BUFFERED as u64;

    let full = due(record.clone(), at(1 + most));
    assert_eq!(
        (full.record.state.buffered.len(), full.skipped),
        (MOST_BUFFERED, 0)
    );

    let beyond = due(record, at(2 + most));
    assert_eq!(
        (beyond.record.state.buffered.len(), beyond.skipped),
        (MOST_BUFFERED, 1)
    );
}

#[test]
fn cancel_other_asks_the_open_one_to_end_and_fires_after_it() {
    let first = due(minutely(Overlap::CancelOther), at(1));

    let asked = due(first.record, at(2));
    assert_eq!(
        (asked.cancels.as_slice(), asked.fires.len()),
        ([at(1)].as_slice(), 0)
    );
    let newer = due(asked.record, at(3));
    assert_eq!((newer.fires.len(), newer.skipped), (0, 1));

    let plan = due(ended(newer.record), at(3).plus(SECOND));
    assert_eq!(instants(&plan), [at(3)]);
}

#[test]
fn terminate_other_ends_the_open_one_and_fires() {
    let first = due(minutely(Overlap::TerminateOther), at(1));

    let plan = due(first.record, at(2));

    assert_eq!(plan.terminates, [at(1)]);
    assert_eq!(instants(&plan), [at(2)]);
    assert_eq!(plan.record.state.running, [at(2)]);
}

#[test]
fn what_ends_others_waits_until_they_are_there() {
    let plan = due(minutely(Overlap::TerminateOther), at(2));

    assert_eq!(instants(&plan), [at(1)]);
    assert!(plan.is_partial);
    let next = due(plan.record, at(2));
    assert_eq!(
        (next.terminates.as_slice(), instants(&next)),
        ([at(1)].as_slice(), vec![at(2)])
    );
}
