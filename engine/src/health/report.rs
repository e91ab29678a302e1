//! The checks: pure, of one look at the database.

use std::time::Duration;

use coord_core::Error;
use coord_core::signals::{Argument as _, Detail};

use super::{Category, Check, Report, Status, definitions, dispatch};
use crate::builds::Blocked;
use crate::compatibility::{Compatibility, FleetValidation};
use crate::store::{Census, QueueCensus, Role, Tally, Tenant, WorkerRecord};
use crate::wake::{Dispatch, Health, Passing};

/// What was named to carry hints, and carries none to other nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alone {
    /// Its names.
    pub(crate) drivers: String,
    /// Whether several nodes are to work together all the same.
    pub(crate) is_fault: bool,
}

pub(super) const DATABASE: &str = "backend_capabilities";
pub(super) const MIGRATIONS: &str = "schema_migrations";

/// After how long what should have been seen to is late: a look without a hint, a sweep, and some
/// room for both.
const LATE: Duration = Duration::from_secs(15);
/// After how long nobody sees to it.
const STUCK: Duration = Duration::from_mins(5);
/// How long what is past its retention may still be there: it goes in portions, once a minute.
const REMOVED: Duration = Duration::from_mins(15);

/// One look at the database.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) census: Census,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) workers: Vec<WorkerRecord>,
    /// Runs that no live worker could go on with.
    pub(crate) blocked: Blocked,
}

/// What this process keeps to.
pub(crate) struct Kept<'a> {
    pub(crate) compatibility: &'a Compatibility,
    pub(crate) retention: Duration,
}

/// What a look at the database says, whether hints pass, and what was named that carries none.
pub(crate) fn report(
    seen: Result<&Seen, &Error>,
    kept: &Kept<'_>,
    (wake, alone): (&Passing, Option<&Alone>),
    how: &Dispatch,
) -> Report {
    let census = seen.map(|seen| &seen.census);
    let mut checks = vec![database(census)];
    if let Ok(seen) = seen {
        let census = &seen.census;
        checks.extend([
            migrations(census),
            transport(census),
            routing(seen),
            compatibility(seen, kept.compatibility),
            definitions::check(&seen.workers),
            expired(census),
            activities(census),
            set_aside(census),
            retention(seen, kept.retention),
            scheduler(census),
            recovery(census),
        ]);
    }
    checks.push(hints(wake, alone));
    checks.push(dispatch::check(how));
    Report {
        now: census.ok().map(|census| census.now),
        checks,
    }
}

/// Nothing found.
pub(super) fn fine(name: &'static str, message: impl Into<String>) -> Check {
    Check {
        name,
        category: Category::Correctness,
        status: Status::Ok,
        message: message.into(),
        remedy: "",
        count: 0,
        age: Duration::ZERO,
    }
}

fn database(census: Result<&Census, &Error>) -> Check {
    match census {
        Ok(_) => fine(DATABASE, "the database answers"),
        Err(error) => Check {
            status: Status::Error,
            remedy: "see that the database runs, and that this process reaches it as DATABASE_URL or DB_* say",
            count: 1,
            ..fine(
                DATABASE,
                format!("the database does not answer: {}", Detail::error(error)),
            )
        },
    }
}

fn migrations(census: &Census) -> Check {
    let (there, ours) = census.schema;
    if there < ours {
        return Check {
            status: Status::Error,
            remedy: "start an engine of this version: it brings the schema up to date",
            count: u64::from(ours - there),
            ..fine(
                MIGRATIONS,
                format!("the schema is at version {there}, and this program needs {ours}"),
            )
        };
    }
    fine(MIGRATIONS, format!("the schema is at version {there}"))
}

/// By how long the oldest has waited.
fn by_age(tally: Tally, census: &Census) -> Status {
    match tally.age(census.now) {
        age if tally.count > 0 && age > STUCK => Status::Error,
        age if tally.count > 0 && age > LATE => Status::Warning,
        _ => Status::Ok,
    }
}

fn transport(census: &Census) -> Check {
    let due = census.total(|queue| queue.due);
    let retrying = census.total(|queue| queue.retrying);
    let status = by_age(due, census);
    if status == Status::Ok {
        let message = format!("{} tasks wait, none for long", due.count);
        return Check {
            count: due.count,
            age: due.age(census.now),
            ..fine("task_transport", message)
        };
    }
    let oldest = census.queues.iter().filter(|queue| queue.due.count > 0);
    let oldest = oldest.min_by_key(|queue| queue.due.since);
    let place = oldest.map_or_else(String::new, |queue| {
        let kind = queue.kind.as_str();
        format!(" ({kind} tasks of {} in {})", queue.queue, queue.namespace)
    });
    Check {
        status,
        remedy: "start workers for that queue that know the types of its tasks, or give those that run more slots",
        count: due.count,
        age: due.age(census.now),
        ..fine(
            "task_transport",
            format!(
                "{} tasks wait to be claimed, the oldest for {:?}{place}; {} of all failed before",
                due.count,
                rounded(due.age(census.now)),
                retrying.count
            ),
        )
    }
}

/// Whether somebody serves each queue in which tasks wait, and each build whose runs do.
fn routing(seen: &Seen) -> Check {
    const NAME: &str = "routing_health";
    let census = &seen.census;
    let is_served = |queue: &QueueCensus| {
        let mut workers = seen.workers.iter();
        workers.any(|worker| {
            let of = &worker.enlistment;
            of.namespace == queue.namespace && of.queue == queue.queue
        })
    };
    let unserved: Vec<_> = census
        .queues
        .iter()
        .filter(|queue| queue.due.count > 0 && !is_served(queue))
        .collect();
    let due = unserved.iter().map(|queue| queue.due);
    let due = due.fold(Tally::default(), Tally::and);
    let blocked = Tally {
        count: seen.blocked.runs(),
        since: seen.blocked.oldest(),
    };
    let (of_queues, of_builds) = (by_age(due, census), by_age(blocked, census));
    let all = due.and(blocked);
    let status = of_queues.max(of_builds);
    if status == Status::Ok {
        return Check {
            count: all.count,
            age: all.age(census.now),
            ..fine(NAME, "whatever waits for long has workers that could do it")
        };
    }
    let mut said = Vec::new();
    if let (Some(queue), true) = (unserved.first(), of_queues > Status::Ok) {
        said.push(format!(
            "{} tasks wait in {} queues that no worker serves, such as {} of {}",
            due.count,
            unserved.len(),
            queue.queue,
            queue.namespace
        ));
    }
    if of_builds > Status::Ok {
        said.push(format!(
            "{} runs wait for a worker that supports their build",
            blocked.count
        ));
    }
    Check {
        status,
        remedy: "start workers for those queues, and for those builds ones that support them",
        count: all.count,
        age: all.age(census.now),
        ..fine(NAME, said.join("; "))
    }
}

/// Whether some worker could go on with what this process starts.
fn compatibility(seen: &Seen, own: &Compatibility) -> Check {
    const NAME: &str = "worker_compatibility";
    let Some(required) = own.current() else {
        return fine(NAME, "this process marks no runs with a build");
    };
    let workers = seen.workers.len();
    let supports = |worker: &&WorkerRecord| worker.enlistment.supported.holds(Some(required));
    let supporting = seen.workers.iter().filter(supports).count();
    if supporting > 0 || workers == 0 {
        let message = format!("{supporting} of {workers} workers support build {required}");
        return fine(NAME, message);
    }
    Check {
        status: match own.validation() {
            FleetValidation::Warn => Status::Warning,
            FleetValidation::Fail => Status::Error,
        },
        remedy: "deploy workers that support it, or promote a build that those who live support",
        count: workers as u64,
        ..fine(
            NAME,
            format!(
                "none of {workers} workers supports build {required}, with which this process marks runs"
            ),
        )
    }
}

/// Whether closed runs go when their time has come.
fn retention(seen: &Seen, default: Duration) -> Check {
    const NAME: &str = "history_retention_invariant";
    let now = seen.census.now;
    let overdue = |tenant: &Tenant| {
        let kept = tenant.retention.unwrap_or(default);
        let age = now.since(tenant.oldest_closed?);
        age.checked_sub(kept).filter(|over| *over > REMOVED)
    };
    let late = seen.tenants.iter();
    let late: Vec<_> = late
        .filter_map(|tenant| Some((overdue(tenant)?, tenant)))
        .collect();
    let Some((age, worst)) = late.iter().max_by_key(|(age, _)| *age) else {
        return fine(NAME, "closed runs go when their time has come");
    };
    Check {
        status: Status::Warning,
        remedy: "see that a process with an engine runs, since one of them removes for all; where histories are archived first, see why that fails (engine.archive.failed)",
        count: late.len() as u64,
        age: *age,
        ..fine(
            NAME,
            format!(
                "{} namespaces keep closed runs for longer than they are to, {} by {:?}",
                late.len(),
                worst.namespace,
                rounded(*age)
            ),
        )
    }
}

fn expired(census: &Census) -> Check {
    let expired = census.total(|queue| queue.expired);
    let status = by_age(expired, census);
    let message = match status {
        Status::Ok => "no lease has ended that nobody took back".to_owned(),
        _ => format!(
            "{} leases have ended and were not taken back, the oldest {:?} ago",
            expired.count,
            rounded(expired.age(census.now))
        ),
    };
    Check {
        status,
        remedy: remedy(
            status,
            "see that a process with an engine runs that may take the recovery role: one of them takes back for all",
        ),
        count: expired.count,
        age: expired.age(census.now),
        ..fine("lease_recovery", message)
    }
}

fn activities(census: &Census) -> Check {
    let overdue = census.total(|queue| queue.overdue);
    let status = by_age(overdue, census);
    let message = match status {
        Status::Ok => "no activity is past its time".to_owned(),
        _ => format!(
            "{} activities are past their time and were not ended, the oldest by {:?}",
            overdue.count,
            rounded(overdue.age(census.now))
        ),
    };
    Check {
        status,
        remedy: remedy(
            status,
            "see that a process with an engine runs that may take the recovery role: one of them ends what is overdue for all",
        ),
        count: overdue.count,
        age: overdue.age(census.now),
        ..fine("activity_path", message)
    }
}

fn set_aside(census: &Census) -> Check {
    let replay = census.total(|queue| queue.blocked_replay);
    let poison = census.total(|queue| queue.blocked_poison);
    let imported = census.total(|queue| queue.blocked_imported);
    let stuck = replay.and(poison);
    if stuck.count == 0 {
        let status = if imported.count > 0 {
            Status::Info
        } else {
            Status::Ok
        };
        return Check {
            status,
            count: imported.count,
            age: imported.age(census.now),
            ..fine(
                "durable_resume_paths",
                format!(
                    "no run is set aside, but for {} imported ones",
                    imported.count
                ),
            )
        };
    }
    Check {
        status: Status::Warning,
        remedy: "explain one of them: mend its code, or what it took processes down with, and resume it",
        count: stuck.count,
        age: stuck.age(census.now),
        ..fine(
            "durable_resume_paths",
            format!(
                "runs are set aside: {} whose code goes another way than their history, {} that \
                 took their processes down",
                replay.count, poison.count
            ),
        )
    }
}

fn scheduler(census: &Census) -> Check {
    const NAME: &str = "scheduler_role";
    let schedules = &census.schedules;
    let overdue = schedules.overdue;
    let age = overdue.age(census.now);
    let mut status = by_age(overdue, census);
    let is_vacant = schedules.active > 0 && !census.is_held(Role::Scheduler);
    if is_vacant {
        status = status.max(Status::Warning);
    }
    let message = match (is_vacant, status) {
        (true, _) => format!(
            "{} schedules are active and nobody fires them; {} are overdue",
            schedules.active, overdue.count
        ),
        (false, Status::Ok) => {
            format!("{} schedules are active, none is overdue", schedules.active)
        }
        (false, _) => format!(
            "{} schedules are overdue, the oldest by {:?}",
            overdue.count,
            rounded(age)
        ),
    };
    Check {
        status,
        remedy: remedy(
            status,
            "see that a process with an engine runs and reaches the database: one of them fires for all",
        ),
        count: overdue.count,
        age,
        ..fine(NAME, message)
    }
}

fn recovery(census: &Census) -> Check {
    const NAME: &str = "recovery_role";
    let leased = census.total(|queue| queue.leased);
    let silent = census.nodes.silent;
    // While nothing is leased nobody needs it.
    let is_vacant = leased.count > 0 && !census.is_held(Role::Recovery);
    let is_stale = by_age(silent, census) > Status::Ok;
    let status = if is_vacant || is_stale {
        Status::Warning
    } else {
        Status::Ok
    };
    let message = match status {
        Status::Ok => format!("{} processes live", census.nodes.live),
        _ if is_vacant => format!(
            "{} tasks are leased, and nobody takes back for all",
            leased.count
        ),
        _ => format!(
            "{} processes are silent and were not declared dead",
            silent.count
        ),
    };
    Check {
        status,
        remedy: remedy(
            status,
            "see that a process with an engine runs that may take the recovery role",
        ),
        count: silent.count,
        age: silent.age(census.now),
        ..fine(NAME, message)
    }
}

fn hints(wake: &Passing, alone: Option<&Alone>) -> Check {
    const NAME: &str = "long_poll_wake_acceleration";
    const LOOKS: &str = "each process looks for the others' work once a second";
    let check = match wake.health {
        Health::Healthy => fine(NAME, "hints pass between processes"),
        Health::Alone => {
            let message = match alone {
                Some(Alone { drivers, .. }) => {
                    format!("CACHE_DRIVER is {drivers}, which reaches no other node: {LOOKS}")
                }
                None => format!("nothing carries hints: {LOOKS}"),
            };
            let is_fault = alone.is_some_and(|alone| alone.is_fault);
            let (status, remedy) = if is_fault {
                let remedy = "name in CACHE_DRIVER what all nodes reach, such as redis, memcached, \
                              nats or database; nothing is lost meanwhile";
                (Status::Warning, remedy)
            } else {
                (Status::Info, "")
            };
            Check {
                status,
                remedy,
                ..fine(NAME, message)
            }
        }
        Health::Degraded => {
            let lost = wake.lost.iter();
            let lost = lost.map(|(kind, age, cause)| {
                format!(
                    " through {} for {:?} ({cause})",
                    kind.logged(),
                    rounded(*age)
                )
            });
            let lost: Vec<_> = lost.collect();
            let where_to = match lost.as_slice() {
                // Nothing has failed, and nothing has come back yet.
                [] => " yet".to_owned(),
                lost => lost.join(","),
            };
            Check {
                status: Status::Warning,
                remedy: "see that what CACHE_DRIVER names runs and lets this process in; nothing is lost meanwhile",
                count: wake.lost.len() as u64,
                age: wake
                    .lost
                    .iter()
                    .map(|(_, age, _)| *age)
                    .max()
                    .unwrap_or_default(),
                ..fine(NAME, format!("hints do not pass{where_to}: {LOOKS}"))
            }
        }
    };
    Check {
        category: Category::Acceleration,
        ..check
    }
}

const fn remedy(status: Status, remedy: &'static str) -> &'static str {
    if matches!(status, Status::Ok) {
        ""
    } else {
        remedy
    }
}

pub(super) fn rounded(age: Duration) -> Duration {
    Duration::from_secs(age.as_secs())
}
