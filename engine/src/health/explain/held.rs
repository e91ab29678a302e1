//! A task that somebody has: who, whether that process still shows that it lives, and when others get
//! the task if it does not.

use std::time::Duration;

use super::{Liveness, Said, Seen, task_row};
use crate::model::Timestamp;
use crate::store::{Description, OpenTask, OwnerRecord, Role};

/// How long it may take until a role that has ended is taken.
const SUCCESSION: Duration = Duration::from_secs(1);

pub(super) fn said(it: &Description, task: &OpenTask, seen: &Seen<'_>, state: Liveness) -> Said {
    let (owner, name) = (task.owner.as_deref().unwrap_or("somebody"), &task.name);
    let holder = it
        .owners
        .iter()
        .find(|holder| holder.incarnation.id.as_str() == owner);
    let said = |since, until, message, action| Said {
        state,
        refusal: None,
        row: task_row(task),
        since,
        until,
        message,
        action,
    };
    let since = task.leased_at.unwrap_or(it.now);
    let ends = task.lease_expires_at;
    let has_ended = ends.is_some_and(|ends| ends <= it.now);
    let Some(silent) = holder.filter(|holder| is_silent(holder, it.now)) else {
        if !has_ended {
            let message = format!("{owner} works on {name}");
            let action = "wait: its lease is renewed while it works, and taken back when its process dies; if it takes too long, look at that process";
            return said(since, ends, message, action.to_owned());
        }
        let taken = taken_back(task, None, it.now, seen);
        let message = format!("{owner} had {name}, and its lease has ended");
        return said(since, ends, message, wait_for(taken, it.now));
    };
    let (node, pid) = (&silent.incarnation.node, silent.incarnation.pid);
    let silence = rounded(it.now.since(silent.heartbeat_at));
    let how = if silent.is_gone {
        "it is gone"
    } else {
        "it was killed, is stopped or blocked, or does not reach the database"
    };
    let message = format!(
        "{owner} has {name} and is silent for {silence:?}: node {node}, process {pid}; {how}"
    );
    let taken = taken_back(task, Some(silent), it.now, seen);
    let action = format!(
        "{}; if process {pid} of {node} is still there, find out what holds it up: it finds its leases lost and writes nothing late",
        wait_for(taken, it.now)
    );
    said(silent.heartbeat_at, taken, message, action)
}

/// What to do until then.
fn wait_for(taken: Option<Timestamp>, now: Timestamp) -> String {
    let Some(taken) = taken else {
        return "start a process with an engine that may take the recovery role: nobody takes back for all".to_owned();
    };
    let within = rounded(taken.since(now));
    format!("wait: it is taken back within {within:?}, and goes on elsewhere")
}

/// Whether two of its signs of life in a row are missing, if it does not show even that it is gone:
/// it counts as alive for at least three.
fn is_silent(holder: &OwnerRecord, now: Timestamp) -> bool {
    let ttl = holder.expires_at.since(holder.heartbeat_at);
    holder.is_gone || now.since(holder.heartbeat_at) >= ttl * 2 / 3
}

/// When the process with the recovery role has taken it back at the latest; `None` when there is no
/// such process.
fn taken_back(
    task: &OpenTask,
    silent: Option<&OwnerRecord>,
    now: Timestamp,
    seen: &Seen<'_>,
) -> Option<Timestamp> {
    let roles = seen.census.roles.iter();
    let mut roles = roles.filter(|held| held.role == Role::Recovery && held.expires_at > now);
    let role = roles.next()?;
    let holder = role.holder.as_ref()?;
    let is_its_own = silent.is_some_and(|silent| silent.incarnation.id == *holder);
    // Whoever gets the role declares nobody dead before all had the time to show that they live.
    let (leads_from, judges_from) = if is_its_own {
        let from = role.expires_at.plus(SUCCESSION);
        (from, from.plus(seen.recovery.ttl))
    } else {
        (now, role.acquired_at.plus(seen.recovery.ttl))
    };
    let of_dead = silent.map(|silent| {
        if silent.is_gone {
            leads_from
        } else {
            silent.expires_at.max(judges_from)
        }
    });
    let from = [of_dead, task.lease_expires_at].into_iter().flatten().min();
    let from = from.unwrap_or(now).max(leads_from).max(now);
    Some(from.plus(seen.recovery.every))
}

/// For people.
fn rounded(span: Duration) -> Duration {
    Duration::from_secs(span.as_millis().div_ceil(1000) as u64)
}
