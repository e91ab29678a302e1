//! What stands where.

use super::claim::is_within;
use super::tables::{Tables, TaskRow};
use crate::model::{Namespace, TaskKind, TaskStatus, Timestamp};
use crate::store::{Census, NodeCensus, QueueCensus, Role, RoleCensus, Tally};

impl Tables {
    pub(super) fn census(&self, scope: Option<&Namespace>) -> Census {
        let mut queues: Vec<QueueCensus> = Vec::new();
        let tasks = self.tasks.values();
        for task in tasks.filter(|task| is_within(&task.namespace, scope)) {
            let is_same = |queue: &QueueCensus| {
                let place = (&queue.namespace, &queue.queue, queue.kind);
                place == (&task.namespace, &task.queue, task.kind)
            };
            let place = queues.iter().position(is_same).unwrap_or_else(|| {
                queues.push(QueueCensus::empty((
                    task.namespace.clone(),
                    task.queue.clone(),
                    task.kind,
                )));
                queues.len() - 1
            });
            self.note(&mut queues[place], task);
        }
        let key = |queue: &QueueCensus| {
            let kind = matches!(queue.kind, TaskKind::Workflow);
            (queue.namespace.clone(), queue.queue.clone(), kind)
        };
        queues.sort_by_key(key);
        let members = self.fleet.values();
        let members =
            members.filter(|member| member.is_live && is_seen(member.scope.as_ref(), scope));
        let mut nodes = NodeCensus::default();
        for member in members {
            if member.expires_at > self.now {
                nodes.live += 1;
            } else {
                nodes.silent = nodes.silent.and(one(member.expires_at));
            }
        }
        let roles = Role::ALL.into_iter().filter_map(|role| {
            let term = self.roles.get(&role.key(scope))?;
            Some(RoleCensus {
                role,
                holder: Some(term.holder.clone()),
                acquired_at: term.acquired_at,
                expires_at: term.expires_at,
            })
        });
        Census {
            now: self.now,
            schema: (0, 0),
            queues,
            schedules: self.schedule_census(scope),
            nodes,
            roles: roles.collect(),
        }
    }

    fn note(&self, queue: &mut QueueCensus, task: &TaskRow) {
        let add = |tally: &mut Tally, since| *tally = tally.and(one(since));
        queue.open += 1;
        queue.most_attempts = queue.most_attempts.max(task.attempt);
        queue.most_recoveries = queue.most_recoveries.max(task.recoveries);
        if task.deadline() <= self.now {
            add(&mut queue.overdue, task.deadline());
        }
        match task.status {
            TaskStatus::Ready => {
                if task.available_at <= self.now {
                    add(&mut queue.due, task.available_at);
                } else {
                    queue.later += 1;
                }
                if task.last_error.is_some() {
                    add(&mut queue.retrying, task.scheduled_at);
                }
            }
            TaskStatus::Leased => {
                add(&mut queue.leased, task.started_at.unwrap_or(self.now));
                if task.lease_expires_at <= self.now {
                    add(&mut queue.expired, task.lease_expires_at);
                }
            }
            TaskStatus::Blocked => match task.blocked {
                Some("poison") => add(&mut queue.blocked_poison, task.available_at),
                Some("imported") => add(&mut queue.blocked_imported, task.available_at),
                _ => add(&mut queue.blocked_replay, task.available_at),
            },
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => {}
        }
    }
}

/// Whether a process that keeps to `kept` is one of those in `scope`.
fn is_seen(kept: Option<&Namespace>, scope: Option<&Namespace>) -> bool {
    kept.is_none_or(|kept| is_within(kept, scope))
}

pub(super) fn one(since: Timestamp) -> Tally {
    Tally {
        count: 1,
        since: Some(since),
    }
}
