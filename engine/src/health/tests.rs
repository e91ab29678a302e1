use std::time::Duration;

use coord_core::Error;

use super::{Alone, Category, Kept, Report, Seen, Status};
use crate::builds::Blocked;
use crate::compatibility::{Compatibility, FleetValidation, Supported};
use crate::model::{BuildId, Namespace, Queue, TaskKind, Timestamp, TypeName};
use crate::store::{
    Backlog, Census, NodeCensus, QueueCensus, Role, RoleCensus, ScheduleCensus, Tally, Tenant,
    WorkerRecord,
};
use crate::wake::{Dispatch, Health, Kind, Passing};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// One that has been so for `age`.
fn since(age: Duration) -> Tally {
    let age = i64::try_from(age.as_micros()).expect("short");
    Tally {
        count: 1,
        since: Some(Timestamp::from_micros(NOW.as_micros() - age)),
    }
}

fn queue() -> QueueCensus {
    QueueCensus::empty((Namespace::default(), Queue::default(), TaskKind::Workflow))
}

fn census(queue: QueueCensus) -> Census {
    let held = |role| RoleCensus {
        role,
        holder: Some(crate::model::OwnerId::new("one").expect("an id")),
        acquired_at: NOW,
        expires_at: NOW.plus(Duration::from_secs(1)),
    };
    Census {
        now: NOW,
        schema: (6, 6),
        queues: vec![queue],
        schedules: ScheduleCensus::default(),
        nodes: NodeCensus::default(),
        roles: Role::ALL.map(held).into(),
    }
}

fn passing(health: Health) -> Passing {
    Passing {
        health,
        lost: Vec::new(),
    }
}

fn seen(census: &Census) -> Seen {
    let worker = WorkerRecord::example(NOW);
    Seen {
        census: census.clone(),
        tenants: Vec::new(),
        workers: vec![worker],
        blocked: Blocked {
            now: census.now,
            backlogs: Vec::new(),
        },
    }
}

fn told(seen: Result<&Seen, &Error>, compatibility: &Compatibility, wake: Health) -> Report {
    let kept = Kept {
        compatibility,
        retention: RETENTION,
    };
    super::report(seen, &kept, (&passing(wake), None), &Dispatch::Poll)
}

/// What is said of hints, when nothing else is to be said.
fn told_of_hints(wake: &Passing, alone: Option<&Alone>) -> Report {
    let compatibility = Compatibility::default();
    let kept = Kept {
        compatibility: &compatibility,
        retention: RETENTION,
    };
    super::report(
        Ok(&seen(&census(queue()))),
        &kept,
        (wake, alone),
        &Dispatch::Poll,
    )
}

fn of(census: &Census) -> Report {
    told(
        Ok(&seen(census)),
        &Compatibility::default(),
        Health::Healthy,
    )
}

fn status(report: &Report, name: &str) -> Status {
    report.check(name).expect("it is looked at").status
}

#[test]
fn what_is_late_is_a_warning_and_what_stays_so_an_error() {
    let due = |age| {
        let queue = QueueCensus {
            due: since(age),
            ..queue()
        };
        status(&of(&census(queue)), "task_transport")
    };
    let (late, stuck) = (Duration::from_secs(15), Duration::from_mins(5));
    let ms = Duration::from_millis(1);

    assert_eq!(due(late), Status::Ok);
    assert_eq!(due(late + ms), Status::Warning);
    assert_eq!(due(stuck), Status::Warning);
    assert_eq!(due(stuck + ms), Status::Error);
}

#[test]
fn each_thing_that_can_be_stuck_is_found_by_the_check_that_names_its_remedy() {
    let old = since(Duration::from_mins(1));
    for (name, queue) in [
        (
            "lease_recovery",
            QueueCensus {
                expired: old,
                ..queue()
            },
        ),
        (
            "activity_path",
            QueueCensus {
                overdue: old,
                ..queue()
            },
        ),
        (
            "durable_resume_paths",
            QueueCensus {
                blocked_replay: old,
                ..queue()
            },
        ),
        (
            "durable_resume_paths",
            QueueCensus {
                blocked_poison: old,
                ..queue()
            },
        ),
    ] {
        let report = of(&census(queue));

        let found: Vec<_> = report
            .checks
            .iter()
            .filter(|check| check.status != Status::Ok)
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].name, found[0].status), (name, Status::Warning));
        assert!(!found[0].remedy.is_empty() && found[0].count == 1);
        assert_eq!(found[0].age, Duration::from_mins(1));
    }
    assert_eq!(of(&census(queue())).status(), Status::Ok);
}

#[test]
fn schedules_that_nobody_fires_and_tasks_that_nobody_takes_back_are_found_before_they_are_late() {
    let vacant = |change: fn(&mut Census)| {
        let mut census = census(queue());
        census.roles.clear();
        change(&mut census);
        of(&census)
    };

    let idle = vacant(|_| ());
    assert_eq!(idle.status(), Status::Ok, "nobody needs the roles");
    let scheduled = vacant(|census| census.schedules.active = 1);
    assert_eq!(status(&scheduled, "scheduler_role"), Status::Warning);
    let busy = vacant(|census| census.queues[0].leased = since(Duration::ZERO));
    assert_eq!(status(&busy, "recovery_role"), Status::Warning);
}

#[test]
fn hints_are_never_more_than_a_warning_and_keep_no_process_from_being_ready() {
    for (wake, status) in [
        (Health::Healthy, Status::Ok),
        (Health::Alone, Status::Info),
        (Health::Degraded, Status::Warning),
    ] {
        let seen = seen(&census(queue()));
        let report = told(Ok(&seen), &Compatibility::default(), wake);

        assert_eq!(report.category(Category::Acceleration), status);
        assert_eq!(report.category(Category::Correctness), Status::Ok);
        assert!(report.is_ready());
    }
}

#[test]
fn hints_that_do_not_pass_say_through_what_and_for_how_long() {
    let wake = Passing {
        health: Health::Degraded,
        lost: vec![
            (
                Kind::Redis,
                Duration::from_millis(2500),
                "no answer".to_owned(),
            ),
            (Kind::Nats, Duration::from_mins(2), "no answer".to_owned()),
        ],
    };

    let report = told_of_hints(&wake, None);

    let check = report.check("long_poll_wake_acceleration").expect("there");
    assert!(
        check
            .message
            .contains("through redis for 2s (no answer), through nats for 120s (no answer)"),
        "{check:?}"
    );
    assert_eq!((check.count, check.age), (2, Duration::from_mins(2)));
    assert_eq!(check.status, Status::Warning);
    assert!(!check.remedy.is_empty());
}

#[test]
fn what_reaches_no_other_node_is_named_and_is_a_warning_where_there_are_others() {
    let of = |is_fault| {
        let alone = Alone {
            drivers: "file".to_owned(),
            is_fault,
        };
        told_of_hints(&passing(Health::Alone), Some(&alone))
    };

    for (is_fault, status) in [(false, Status::Info), (true, Status::Warning)] {
        let report = of(is_fault);
        let check = report.check("long_poll_wake_acceleration").expect("there");
        assert!(check.message.contains("CACHE_DRIVER is file"), "{check:?}");
        assert_eq!((check.status, check.remedy.is_empty()), (status, !is_fault));
        assert_eq!(report.category(Category::Correctness), Status::Ok);
        assert!(report.is_ready());
    }
}

#[test]
fn a_database_that_is_away_or_behind_is_an_error_and_not_ready() {
    let error = Error::unavailable("connecting");

    let away = told(Err(&error), &Compatibility::default(), Health::Healthy);
    let mut behind = census(queue());
    behind.schema = (5, 6);
    let behind = of(&behind);

    assert_eq!(status(&away, "backend_capabilities"), Status::Error);
    assert_eq!(away.now, None);
    assert_eq!(status(&behind, "schema_migrations"), Status::Error);
    assert!(!away.is_ready() && !behind.is_ready());
    let mut ahead = census(queue());
    ahead.schema = (7, 6);
    assert!(of(&ahead).is_ready(), "it leaves this version working");
}

#[test]
fn an_imported_run_that_waits_is_worth_knowing_and_no_warning() {
    let queue = QueueCensus {
        blocked_imported: since(Duration::from_hours(1)),
        ..queue()
    };

    let report = of(&census(queue));

    assert_eq!(status(&report, "durable_resume_paths"), Status::Info);
}

const RETENTION: Duration = Duration::from_hours(24);

#[test]
fn tasks_in_a_queue_that_nobody_serves_are_found_apart_from_slow_ones() {
    let late = QueueCensus {
        due: since(Duration::from_mins(1)),
        ..queue()
    };

    let mut unserved = seen(&census(late));
    assert_eq!(status(&of(&unserved.census), "routing_health"), Status::Ok);
    unserved.workers.clear();

    let report = told(Ok(&unserved), &Compatibility::default(), Health::Healthy);
    let check = report.check("routing_health").expect("looked at");
    assert_eq!((check.status, check.count), (Status::Warning, 1));
    assert_eq!(check.age, Duration::from_mins(1));
}

#[test]
fn runs_whose_build_nobody_supports_are_found_with_their_age() {
    let build = BuildId::new("old").expect("a build");
    let mut blocked = seen(&census(queue()));
    blocked.blocked.backlogs.push(Backlog {
        namespace: Namespace::default(),
        queue: Queue::default(),
        kind: TaskKind::Workflow,
        name: TypeName::new("work").expect("a name"),
        build: Some(build),
        fingerprint: None,
        tasks: 3,
        runs: 3,
        since: Timestamp::from_micros(NOW.as_micros() - 600_000_000),
    });

    let report = told(Ok(&blocked), &Compatibility::default(), Health::Healthy);

    let check = report.check("routing_health").expect("looked at");
    assert_eq!((check.status, check.count), (Status::Error, 3));
    assert!(check.message.contains("build"), "{check:?}");
}

#[test]
fn a_build_that_no_worker_supports_is_a_warning_or_an_error_as_was_said() {
    let own = BuildId::new("new").expect("a build");
    let other = BuildId::new("old").expect("a build");
    let of = |mode, supported: Option<Supported>| {
        let marks = Compatibility::of(own.clone()).validating(mode);
        let mut seen = seen(&census(queue()));
        match supported {
            Some(supported) => seen.workers[0].enlistment.supported = supported,
            None => seen.workers.clear(),
        }
        let report = told(Ok(&seen), &marks, Health::Healthy);
        status(&report, "worker_compatibility")
    };
    let only = |build: &BuildId| Some(Supported::Only(vec![build.clone()]));

    assert_eq!(of(FleetValidation::Fail, only(&own)), Status::Ok);
    assert_eq!(of(FleetValidation::Warn, only(&other)), Status::Warning);
    assert_eq!(of(FleetValidation::Fail, only(&other)), Status::Error);
    assert_eq!(
        of(FleetValidation::Fail, None),
        Status::Ok,
        "it may be on its way"
    );
}

#[test]
fn closed_runs_that_stay_beyond_their_retention_are_found() {
    let tenant = |age: Duration, retention| {
        let age = i64::try_from(age.as_micros()).expect("short");
        let mut seen = seen(&census(queue()));
        seen.tenants.push(Tenant {
            namespace: Namespace::default(),
            retention,
            oldest_closed: Some(Timestamp::from_micros(NOW.as_micros() - age)),
        });
        let report = told(Ok(&seen), &Compatibility::default(), Health::Healthy);
        status(&report, "history_retention_invariant")
    };
    let (grace, ms) = (Duration::from_mins(15), Duration::from_millis(1));

    assert_eq!(tenant(RETENTION + grace, None), Status::Ok);
    assert_eq!(tenant(RETENTION + grace + ms, None), Status::Warning);
    assert_eq!(tenant(grace + ms, Some(Duration::ZERO)), Status::Warning);
}
