use std::time::Duration;

use super::*;
use crate::compatibility::Supported;
use crate::quotas::Bound;
use crate::store::{Paid, Types, UnderWay};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn name(name: &str) -> TypeName {
    TypeName::new(name).expect("a name")
}

fn build(name: &str) -> BuildId {
    BuildId::new(name).expect("a build")
}

/// A worker of the default queue that knows `work` and supports every build.
fn worker() -> WorkerRecord {
    let types = Types {
        workflows: [name("work")].into(),
        activities: [name("charge")].into(),
        ..Types::default()
    };
    let mut worker = WorkerRecord::example(NOW);
    worker.enlistment.types = Some(types);
    worker
}

fn backlog(of: &str, mark: Option<&str>) -> Backlog {
    Backlog {
        namespace: Namespace::default(),
        queue: Queue::default(),
        kind: TaskKind::Workflow,
        name: name(of),
        build: mark.map(build),
        fingerprint: None,
        tasks: 3,
        runs: 3,
        since: Timestamp::from_micros(NOW.as_micros() - 5_000_000),
    }
}

/// Why three tasks wait.
fn why(of: Backlog, workers: &[WorkerRecord], quotas: &Quotas, more: Backlogs) -> Refusal {
    let backlogs = Backlogs {
        backlogs: vec![of],
        ..more
    };
    let refusals = Refusals::of(&backlogs, workers, quotas);
    let [refused] = refusals.refused.as_slice() else {
        panic!("one for one, not {refusals:?}");
    };
    let total = refusals.total(refused.refusal);
    assert_eq!((total.count, total.age(NOW)), (3, Duration::from_secs(5)));
    refused.refusal
}

fn unbounded(of: Backlog, workers: &[WorkerRecord]) -> Refusal {
    why(of, workers, &Quotas::default(), Backlogs::none(NOW))
}

#[test]
fn the_first_reason_that_holds_is_told() {
    let elsewhere = |of: &WorkerRecord| {
        let mut worker = of.clone();
        worker.enlistment.namespace = Namespace::new("elsewhere").expect("a namespace");
        worker
    };
    let of_queue = |of: &WorkerRecord| {
        let mut worker = of.clone();
        worker.enlistment.queue = Queue::new("other").expect("a queue");
        worker
    };
    let mut of_build = worker();
    of_build.enlistment.supported = Supported::Only(vec![build("new")]);
    let mut draining = worker();
    draining.is_draining = true;
    let plain = worker();
    let work = || backlog("work", Some("old"));

    assert_eq!(unbounded(work(), &[]), Refusal::NamespaceUnserved);
    assert_eq!(
        unbounded(work(), &[elsewhere(&plain)]),
        Refusal::NamespaceUnserved
    );
    assert_eq!(
        unbounded(work(), &[of_queue(&plain)]),
        Refusal::QueueUnserved
    );
    assert_eq!(
        unbounded(backlog("other", None), std::slice::from_ref(&plain)),
        Refusal::TypeUnknown
    );
    // A workflow and an activity of one name are two types.
    assert_eq!(
        unbounded(backlog("charge", None), std::slice::from_ref(&plain)),
        Refusal::TypeUnknown
    );
    assert_eq!(
        unbounded(work(), std::slice::from_ref(&of_build)),
        Refusal::CompatibilityUnsupported
    );
    assert_eq!(
        unbounded(work(), &[of_build.clone(), draining.clone()]),
        Refusal::WorkersDraining
    );
    assert_eq!(unbounded(work(), &[draining, plain]), Refusal::WorkersBusy);
    assert_eq!(
        unbounded(backlog("work", None), &[of_build]),
        Refusal::WorkersBusy,
        "what has no mark suits all"
    );
}

#[test]
fn a_run_stays_with_the_code_with_which_it_began() {
    let of = |definition: &str| Fingerprint::of(&name("work"), definition).expect("a fingerprint");
    let with = |definition: &str, is_pinned| {
        let mut worker = worker();
        if let Some(types) = &mut worker.enlistment.types {
            types.definitions = [of(definition)].into();
            types.is_pinned = is_pinned;
        }
        worker
    };
    let began = |definition: Option<&str>| Backlog {
        fingerprint: definition.map(of),
        ..backlog("work", None)
    };

    let other = with("two", true);
    assert_eq!(
        unbounded(began(Some("one")), std::slice::from_ref(&other)),
        Refusal::FingerprintDiffers
    );
    for able in [with("one", true), with("two", false), worker()] {
        let workers = [other.clone(), able];
        assert_eq!(
            unbounded(began(Some("one")), &workers),
            Refusal::WorkersBusy
        );
    }
    assert_eq!(unbounded(began(None), &[other]), Refusal::WorkersBusy);
}

#[test]
fn a_worker_that_does_not_say_what_it_knows_may_know_it() {
    let mut before = worker();
    before.enlistment.types = None;

    assert_eq!(
        unbounded(backlog("whatever", None), &[before]),
        Refusal::WorkersBusy
    );
}

#[test]
fn both_sides_of_every_bound_are_told() {
    let kind = TaskKind::Workflow;
    let queue = Queue::default();
    let under_way = |queue: &str, tasks| UnderWay {
        namespace: Namespace::default(),
        queue: Queue::new(queue).expect("a queue"),
        kind,
        tasks,
    };
    let paid = |queue: &str| Paid {
        namespace: Namespace::default(),
        queue: queue.to_owned(),
        kind,
        until: NOW.plus(Duration::from_secs(90)),
    };
    let judge = |quotas: &Quotas, under_way: Vec<UnderWay>, paid: Vec<Paid>| {
        let more = Backlogs {
            under_way,
            paid,
            ..Backlogs::none(NOW)
        };
        why(backlog("work", None), &[worker()], quotas, more)
    };
    let two = Quotas::default().queue(queue.clone(), kind, Bound::active(2));
    let of_all = Quotas::default().namespace(kind, Bound::active(2));
    let rate = Quotas::default().queue(queue, kind, Bound::per_minute(1));
    let rate_of_all = Quotas::default().namespace(kind, Bound::per_minute(1));

    let default = |tasks| vec![under_way("default", tasks)];
    assert_eq!(judge(&two, default(1), vec![]), Refusal::WorkersBusy);
    assert_eq!(judge(&two, default(2), vec![]), Refusal::QueueActiveLimit);
    let other = vec![under_way("other", 2)];
    assert_eq!(judge(&two, other.clone(), vec![]), Refusal::WorkersBusy);
    assert_eq!(judge(&of_all, other, vec![]), Refusal::NamespaceActiveLimit);
    assert_eq!(judge(&rate, vec![], vec![paid("")]), Refusal::WorkersBusy);
    assert_eq!(
        judge(&rate, vec![], vec![paid("default")]),
        Refusal::QueueRateLimit
    );
    assert_eq!(
        judge(&rate_of_all, vec![], vec![paid("")]),
        Refusal::NamespaceRateLimit
    );
}

#[test]
fn every_reason_has_words_of_its_own() {
    let mut words: Vec<_> = Refusal::ALL.iter().map(|it| it.as_str()).collect();
    for refusal in Refusal::ALL {
        let written = serde_json::to_value(refusal).expect("a word");
        assert_eq!(written, refusal.as_str(), "one word wherever it is shown");
        assert!(!refusal.why().is_empty() && !refusal.remedy().is_empty());
    }
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Refusal::ALL.len());
}
