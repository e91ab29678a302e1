use super::*;
use crate::schedule::Schedule;

const SECOND: Duration = Duration::from_secs(1);

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn job() -> Job {
    let schedule = Schedule::every(10 * SECOND).expect("in range");
    Job::message(name("job"), schedule, |_, _| Vec::new())
}

fn at(seconds: i64) -> TickTime {
    TickTime::from_millis(seconds * 1000)
}

fn id() -> Id {
    (0, name("org"))
}

/// A table of one tenant; it is second 1003 on the server.
fn roster(job: Job, start: Instant) -> Roster {
    let keys = KeySpace::new("test").expect("a valid prefix");
    let mut roster = Roster::new(keys, vec![Arc::new(job)]);
    roster.set_orgs(&[name("org")], start);
    roster.clock.observe(at(1003), start, start);
    roster
}

/// The same, once it has asked and heard that the last tick was at second 1000.
fn rested(job: Job, start: Instant) -> Roster {
    let mut roster = roster(job, start);
    roster.take(start, 1);
    roster.answered(&id(), &Answer::Idle(Some(at(1000))), None, start);
    roster
}

fn busy(left: Duration, is_pause: bool) -> Answer {
    Answer::Busy {
        last: Some(at(1000)),
        left,
        is_pause,
    }
}

#[test]
fn a_new_tenant_is_asked_for_at_once_and_without_an_instant() {
    let start = Instant::now();
    let mut roster = roster(job().first_run(FirstRun::AtOnce), start);

    let wanted = roster.take(start, 10);

    assert_eq!(wanted.len(), 1);
    assert_eq!(wanted[0].ask.due, None);
    assert_eq!(roster.next_wake(), None, "until it is answered");
}

#[test]
fn a_tenant_rests_until_its_next_instant_and_then_asks_for_it() {
    let start = Instant::now();
    let mut roster = rested(job(), start);

    assert_eq!(roster.next_wake(), Some(start + 7 * SECOND));
    assert!(roster.take(start + 6 * SECOND, 1).is_empty());
    let wanted = roster.take(start + 7 * SECOND, 1);
    let due = wanted[0].ask.due.as_ref().expect("it is due");
    assert_eq!(
        (due.upto, due.cover.as_slice()),
        (at(1010), &[at(1010)][..])
    );
}

#[test]
fn the_spread_shifts_when_a_tenant_asks_and_not_its_instant() {
    let start = Instant::now();
    let mut roster = rested(job().spread(5 * SECOND), start);
    let shift = due::jitter(&name("job"), &name("org"), 5 * SECOND);
    assert!(!shift.is_zero());

    let wake = roster.next_wake().expect("it rests");
    assert_eq!(wake, start + 7 * SECOND + shift);
    let wanted = roster.take(wake, 1);
    assert_eq!(
        wanted[0].ask.due.as_ref().expect("it is due").upto,
        at(1010)
    );
}

#[test]
fn a_first_run_at_once_is_asked_for_when_nothing_ran_before() {
    let start = Instant::now();
    let mut roster = roster(job().first_run(FirstRun::AtOnce), start);
    roster.take(start, 1);

    roster.answered(&id(), &Answer::Idle(None), None, start);

    let wanted = roster.take(start, 1);
    assert_eq!(
        wanted[0].ask.due.as_ref().expect("it is due").upto,
        at(1000)
    );
}

#[test]
fn nobody_sleeps_longer_than_a_nap_and_asks_only_when_it_heard_nothing_meanwhile() {
    let start = Instant::now();
    let hourly = Schedule::every(3600 * SECOND).expect("in range");
    let job = Job::message(name("job"), hourly, |_, _| Vec::new());
    let mut roster = roster(job, start);
    roster.take(start, 1);
    roster.answered(&id(), &Answer::Idle(Some(at(0))), None, start);

    let nap = start + NAP;
    assert_eq!(roster.next_wake(), Some(nap));
    roster.clock.observe(at(1032), nap - SECOND, nap - SECOND);
    assert!(roster.take(nap, 1).is_empty(), "the clock is fresh");
    assert_eq!(roster.next_wake(), Some(nap + NAP));
    let wanted = roster.take(nap + NAP, 1);
    assert_eq!(wanted[0].ask.due, None, "it only asks for the time");
}

#[test]
fn a_last_tick_in_the_future_is_asked_for_again_after_a_nap() {
    let start = Instant::now();
    let mut roster = roster(job(), start);
    roster.take(start, 1);

    roster.answered(&id(), &Answer::Idle(Some(at(9000))), None, start);

    let nap = start + NAP;
    assert_eq!(roster.next_wake(), Some(nap));
    roster.clock.observe(at(1033), nap, nap);
    assert_eq!(roster.take(nap, 1).len(), 1);
}

#[test]
fn a_tick_of_another_node_is_looked_at_within_its_lease_and_at_the_next_instant() {
    let start = Instant::now();
    let look = |left, is_pause| {
        let mut roster = rested(job(), start);
        let now = start + 7 * SECOND;
        roster.take(now, 1);
        roster.answered(&id(), &busy(left, is_pause), None, now);
        roster.next_wake().expect("it looks again") - now
    };

    // A third of the lease of 30 s is when the next instant comes.
    assert_eq!(look(29 * SECOND, false), 10 * SECOND);
    assert_eq!(look(4 * SECOND, false), 4 * SECOND);
    assert_eq!(look(Duration::ZERO, false), SOONEST);
    assert_eq!(look(Duration::MAX, true), 10 * SECOND);
    assert_eq!(look(SECOND, true), SECOND);
}

#[test]
fn what_was_passed_over_is_done_with() {
    let start = Instant::now();
    let mut roster = rested(job(), start);
    let now = start + 7 * SECOND;
    let due = roster.take(now, 1).remove(0).ask.due;

    roster.answered(&id(), &Answer::Passed(Some(at(1000))), due.as_ref(), now);

    assert_eq!(roster.next_wake(), Some(now + 10 * SECOND));
}

#[test]
fn a_finished_tick_is_followed_by_the_next_instant_and_a_failed_one_by_a_pause() {
    let start = Instant::now();
    let wake = |end| {
        let mut roster = rested(job(), start);
        let now = start + 7 * SECOND;
        roster.take(now, 1);
        roster.ended(&id(), end, now);
        roster.next_wake().map(|wake| wake - now)
    };

    assert_eq!(wake(End::Finished(at(1010))), Some(10 * SECOND));
    assert_eq!(wake(End::Failed(2 * SECOND)), Some(2 * SECOND));
    assert_eq!(wake(End::Lost), Some(SOONEST));
    assert_eq!(wake(End::Stopped), None);
}

#[test]
fn a_tenant_that_is_gone_is_asked_for_no_more_and_one_that_returns_is_new() {
    let start = Instant::now();
    let mut roster = rested(job(), start);

    roster.set_orgs(&[], start);
    assert_eq!(roster.next_wake(), None);
    roster.ended(&id(), End::Lost, start);
    assert_eq!(roster.next_wake(), None);

    roster.set_orgs(&[name("org")], start);
    assert_eq!(roster.take(start, 1)[0].ask.last, None);
}

#[test]
fn no_more_ticks_are_claimed_than_may_be_granted_and_what_is_unknown_is_asked_for_at_once() {
    let start = Instant::now();
    let mut roster = roster(job(), start);
    let orgs: Vec<_> = (0..70).map(|org| name(&format!("org-{org}"))).collect();
    roster.set_orgs(&orgs, start);

    let mut asked = roster.take(start, 1);
    assert_eq!(asked.len(), CLAIMS);
    asked.extend(roster.take(start, 1));
    assert_eq!(asked.len(), 70);
    for wanted in &asked {
        roster.answered(&wanted.id, &Answer::Idle(Some(at(1000))), None, start);
    }

    let due = start + 7 * SECOND;
    assert_eq!(roster.take(due, 3).len(), 3);
    assert_eq!(roster.take(due, 100).len(), CLAIMS);
    assert_eq!(roster.take(due, 100).len(), 3);
}
