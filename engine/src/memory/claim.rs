//! Leases, and the fleet.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::tables::{Member, RunRow, Tables, TaskRow};
use crate::model::{
    Namespace, OwnerId, Record, RunStatus, TaskId, TaskKind, TaskStatus, Timestamp, Wait,
};
use crate::store::{
    BlockedReason, Buried, Claim, Claimed, ClaimedTask, Entered, Heartbeat, Lacking, Overdue,
    Quota, QuotaOf, Registered, Registration, Renewal, Renewed, Role, Roles, Share, StillHeld,
    Sweep, Swept, Term, Unattended, Wanted, charges, portions,
};

impl Tables {
    pub(super) fn claim(&mut self, claim: &Claim) -> Claimed {
        let (mut tasks, mut next_due) = (Vec::new(), None);
        let entered = self.enter(claim);
        let bounded = claim.within(&entered, self.now.as_micros());
        for wanted in &bounded.claim.wanted {
            let (claimed, next) = self.claim_of(claim, wanted);
            if claimed.is_empty() {
                next_due = [next_due, next].into_iter().flatten().min();
            }
            tasks.extend(claimed);
        }
        let claimed = Claimed {
            now: self.now,
            tasks,
            next_due,
            held_back: Vec::new(),
        };
        for it in entered {
            let key = Self::quota_key(claim, it.quota);
            self.paid.insert(key, it.paid(&claimed));
        }
        claimed.within(bounded)
    }

    /// What the quotas of `claim` have to count.
    fn enter(&self, claim: &Claim) -> Vec<Entered> {
        let entered = claim.quotas.iter().map(|quota| {
            let counts = |task: &&TaskRow| {
                task.status == TaskStatus::Leased
                    && task.namespace == claim.namespace
                    && task.kind == quota.kind
                    && (quota.of == QuotaOf::Namespace || task.queue == claim.queue)
                    && task.lease_expires_at > self.now
            };
            let paid_until = self.paid.get(&Self::quota_key(claim, *quota));
            Entered {
                quota: *quota,
                active: self.tasks.values().filter(counts).count() as u64,
                paid_until: paid_until.copied().unwrap_or(0),
            }
        });
        entered.collect()
    }

    fn quota_key(claim: &Claim, quota: Quota) -> (Namespace, String, TaskKind) {
        let queue = quota.of.queue(claim).to_owned();
        (claim.namespace.clone(), queue, quota.kind)
    }

    /// Tasks of one kind, and when the next one will be due.
    fn claim_of(
        &mut self,
        claim: &Claim,
        wanted: &Wanted,
    ) -> (Vec<ClaimedTask>, Option<Timestamp>) {
        let (now, runs) = (self.now, &self.runs);
        let suits = |task: &&mut TaskRow| {
            task.status == TaskStatus::Ready
                && task.namespace == claim.namespace
                && task.queue == claim.queue
                && task.kind == wanted.kind
        };
        let mut ready: Vec<_> = self.tasks.values_mut().filter(suits).collect();
        ready.sort_by(|one, other| {
            let key = |task: &TaskRow| (task.priority, task.available_at);
            key(one)
                .cmp(&key(other))
                .then_with(|| one.id.cmp(&other.id))
        });
        let next_due = ready
            .iter()
            .map(|task| task.available_at)
            .filter(|due| *due > now)
            .min();
        let is_known = |task: &TaskRow| {
            let build = task.build.as_ref().zip(claim.builds.as_ref());
            let is_meant = claim.only.as_ref().is_none_or(|ids| ids.contains(&task.id));
            let is_supported = build.is_none_or(|(build, of)| of.contains(build));
            let began = runs[&task.run].run.fingerprint.as_ref();
            let began = began.filter(|_| task.kind == TaskKind::Workflow);
            let code = began.zip(claim.fingerprints.as_ref());
            let is_like = code.is_none_or(|(began, known)| known.contains(began));
            is_meant && is_supported && is_like && wanted.names.contains(&task.name)
        };
        let due = ready.into_iter();
        let due = due.filter(|task| task.available_at <= now && is_known(task));
        let due = due.map(|task| task.id.clone()).collect();
        let chosen = self.choose(claim, wanted, due);
        let mut attempts = wanted.attempts.iter();
        let mut claimed = Vec::new();
        for id in chosen {
            let Some(task) = self.tasks.get_mut(&id) else {
                continue;
            };
            task.lease(&claim.owner, now.plus(claim.ttl), now);
            if task.kind == TaskKind::Activity {
                task.attempt_id = attempts.next().cloned();
            }
            let scheduled = (task.scheduled_seq, task.available_at);
            claimed.push((task.task(), scheduled, task.progress.clone()));
        }
        let tasks = claimed.into_iter().map(|(task, (seq, due_at), progress)| {
            let scheduled = (task.kind == TaskKind::Activity).then(|| self.event(&task.run, seq));
            ClaimedTask {
                task,
                due_at,
                scheduled,
                progress,
            }
        });
        (tasks.collect(), next_due)
    }

    /// Those of `due`, which are in their order, that a claim takes; what it takes is charged.
    fn choose(&mut self, claim: &Claim, wanted: &Wanted, due: Vec<TaskId>) -> Vec<TaskId> {
        let limit = wanted.limit as usize;
        let mut of_shares: BTreeMap<(String, i16), Vec<TaskId>> = BTreeMap::new();
        for id in &due {
            let (key, priority, _) = self.tasks[id].share();
            of_shares
                .entry((key, priority))
                .or_default()
                .push(id.clone());
        }
        if of_shares.keys().all(|(key, _)| key.is_empty()) {
            return due.into_iter().take(limit).collect();
        }
        let queue = (claim.namespace.clone(), claim.queue.clone(), wanted.kind);
        let served = self.served.entry(queue).or_default();
        let shares: Vec<_> = of_shares
            .keys()
            .map(|share| Share {
                fairness_key: share.0.clone(),
                priority: share.1,
                due: 0,
                fairness_weight: served.get(share).map(|(weight, _)| *weight),
                served: served.get(share).map(|(_, served)| *served),
            })
            .collect();
        let portions = portions(&shares, 0, wanted.limit).into_iter();
        let chosen = portions.flat_map(|portion| {
            let of_share = &of_shares[&(portion.fairness_key, portion.priority)];
            let rest = of_share.iter().skip(portion.beyond.unsigned_abs() as usize);
            rest.take(portion.most.unsigned_abs() as usize).cloned()
        });
        let chosen: Vec<_> = chosen.take(limit).collect();
        let taken: Vec<_> = chosen.iter().map(|id| self.tasks[id].share()).collect();
        let taken = taken
            .iter()
            .map(|(key, priority, weight)| (key.as_str(), *priority, *weight));
        for charge in charges(&shares, taken) {
            let share = (charge.fairness_key, charge.priority);
            let before = served
                .get(&share)
                .map_or(charge.start, |(_, served)| *served);
            let after = before.max(charge.start) + charge.cost;
            served.insert(share, (charge.fairness_weight, after));
        }
        chosen
    }

    fn event(&self, run: &crate::model::RunId, seq: u64) -> Record {
        self.runs[run].history[seq as usize - 1].clone()
    }

    pub(super) fn renew(&mut self, renewal: &Renewal) -> Renewed {
        let now = self.now;
        let mut items = Vec::new();
        for item in &renewal.items {
            let task = self.tasks.get_mut(&item.task).filter(|task| {
                task.epoch == item.epoch
                    && task.owner.as_ref() == Some(&renewal.owner)
                    && task.lease_expires_at > now
            });
            items.push(task.map(|task| {
                task.lease_expires_at = now.plus(renewal.ttl);
                if let Some(progress) = &item.beat {
                    task.heartbeat_at = Some(now);
                    task.progress.clone_from(progress);
                }
                StillHeld {
                    lease_expires_at: task.lease_expires_at,
                    inbox_seq: self.runs[&task.run].run.inbox_seq,
                }
            }));
        }
        Renewed { now, items }
    }

    pub(super) fn overdue(&mut self, limit: u32, scope: Option<&Namespace>) -> Vec<Overdue> {
        let mut tasks: Vec<_> = self
            .tasks
            .values()
            .filter(|task| task.deadline() <= self.now && is_within(&task.namespace, scope))
            .collect();
        tasks.sort_by_key(|task| task.deadline());
        let overdue = tasks.into_iter().take(limit as usize).map(|task| Overdue {
            now: self.now,
            task: task.task(),
            scheduled: self.event(&task.run, task.scheduled_seq),
            scheduled_at: task.scheduled_at,
            started_at: task.started_at,
            heartbeat_at: task.heartbeat_at,
            owner: task.owner.clone(),
        });
        overdue.collect()
    }

    pub(super) fn sweep(&mut self, sweep: Sweep, scope: Option<&Namespace>) -> Swept {
        let (now, fleet) = (self.now, &self.fleet);
        let is_gone = |owner: &OwnerId| fleet.get(owner).is_some_and(|member| !member.is_live);
        let lives = |owner: &OwnerId| {
            let member = fleet.get(owner);
            member.is_some_and(|member| member.is_live && member.expires_at > now)
        };
        let mut swept = Swept::default();
        let stuck = self.tasks.values_mut().filter(|task| {
            task.status == TaskStatus::Leased
                && is_within(&task.namespace, scope)
                && (task.lease_expires_at <= now || task.owner.as_ref().is_some_and(is_gone))
        });
        let mut places = HashMap::new();
        let mut stuck: Vec<_> = stuck
            .map(|task| {
                let queue = (task.namespace.clone(), task.queue.clone());
                let place: &mut u32 = places.entry(queue).or_default();
                *place += 1;
                (*place, task)
            })
            .collect();
        stuck.sort_by_key(|(place, _)| *place);
        for (_, task) in stuck.into_iter().take(sweep.limit as usize) {
            let is_slow = task.owner.as_ref().is_some_and(lives);
            task.recoveries += u32::from(!is_slow);
            if task.recoveries > sweep.poison_after {
                task.free(TaskStatus::Blocked, now);
                task.blocked = Some(BlockedReason::Poison.as_str());
                swept.poisoned.push(task.id.clone());
                continue;
            }
            task.free(TaskStatus::Ready, now);
            swept.ready += 1;
            swept.of_living += u64::from(is_slow);
            let queue = (task.namespace.clone(), task.queue.clone(), task.kind);
            if !swept.queues.contains(&queue) {
                swept.queues.push(queue);
            }
        }
        swept
    }

    pub(super) fn unattended(&self, page: &Unattended) -> Lacking {
        let open = self.runs.values().filter(|row| {
            let after = page.after.as_ref();
            row.run.closed_at.is_none()
                && row.run.namespace == page.namespace
                && after.is_none_or(|(_, run)| row.run.run > *run)
        });
        let looked: Vec<_> = open.take(page.limit as usize).collect();
        let is_full = looked.len() >= page.limit as usize;
        let last = looked.last().filter(|_| is_full);
        let next = last.map(|row| (row.run.started_at, row.run.run.clone()));
        let lacking = looked.iter().filter(|row| self.lacks_task(row));
        let stands = looked.iter().filter(|row| self.waits_for_nothing(row));
        Lacking {
            runs: lacking.map(|row| row.run.run.clone()).collect(),
            of_activities: stands.map(|row| row.run.run.clone()).collect(),
            next,
        }
    }

    /// Whether nothing but a workflow task goes on with an open run, and it has none.
    pub(super) fn lacks_task(&self, row: &RunRow) -> bool {
        let is_due = matches!(row.run.status, RunStatus::Pending | RunStatus::Running)
            || row.run.wait == Some(Wait::Timer)
            || !row.inbox.is_empty();
        is_due && !self.tasks.contains_key(&TaskId::of(&row.run.run, 0))
    }

    /// Whether an open run waits for an activity and has no task.
    fn waits_for_nothing(&self, row: &RunRow) -> bool {
        row.run.wait == Some(Wait::Activity)
            && row.run.status == RunStatus::Waiting
            && row.inbox.is_empty()
            && !self.tasks.values().any(|task| task.run == row.run.run)
    }

    pub(super) fn register(
        &mut self,
        registration: &Registration,
        scope: Option<&Namespace>,
    ) -> Registered {
        let who = &registration.incarnation;
        let mut buried = 0;
        for (id, member) in &mut self.fleet {
            let is_meant = registration.alone
                || (registration.exclusive
                    && member.node == who.node
                    && member.scope.as_ref() == scope);
            if is_meant && member.is_live && *id != who.id {
                member.is_live = false;
                buried += 1;
                for term in self.roles.values_mut().filter(|term| term.holder == *id) {
                    term.expires_at = term.expires_at.min(self.now);
                }
            }
        }
        let expires_at = self.now.plus(registration.ttl);
        let member = Member {
            node: who.node.clone(),
            is_live: true,
            scope: scope.cloned(),
            began_at: self.now,
            beat_at: self.now,
            pid: who.pid,
            build: who.build.clone(),
            figures: None,
            is_draining: false,
            expires_at,
        };
        self.fleet.insert(who.id.clone(), member);
        Registered { expires_at, buried }
    }

    pub(super) fn forget(&mut self, idle: Duration, limit: u32, scope: Option<&Namespace>) -> u64 {
        let (now, tasks) = (self.now, &self.tasks);
        let has_lease = |id: &OwnerId| tasks.values().any(|task| task.owner.as_ref() == Some(id));
        let ended = self.fleet.iter().filter(|(id, member)| {
            let of = member.scope.as_ref();
            of.is_none_or(|of| is_within(of, scope))
                && !member.is_live
                && member.beat_at.plus(idle) <= now
                && !has_lease(id)
        });
        let ended: Vec<_> = ended
            .map(|(id, _)| id.clone())
            .take(limit as usize)
            .collect();
        for id in &ended {
            self.fleet.remove(id);
        }
        ended.len() as u64
    }

    pub(super) fn roles(&self, scope: Option<&Namespace>) -> Roles {
        let terms = Role::ALL
            .iter()
            .filter_map(|role| self.roles.get(&role.key(scope)));
        Roles {
            now: self.now,
            terms: terms.cloned().collect(),
            has_schedules: self.has_schedules(scope),
        }
    }

    pub(super) fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Option<Timestamp> {
        let member = self
            .fleet
            .get_mut(&heartbeat.id)
            .filter(|member| member.is_live)?;
        member.is_live = !heartbeat.stopped;
        member.beat_at = self.now;
        member.is_draining = heartbeat.draining;
        if heartbeat.figures.is_some() {
            member.figures.clone_from(&heartbeat.figures);
        }
        member.expires_at = self.now.plus(heartbeat.ttl);
        Some(member.expires_at)
    }

    pub(super) fn bury(&mut self, term: &Term, scope: Option<&Namespace>) -> Vec<Buried> {
        let holds = self.roles.get(&term.role.key(scope)).is_some_and(|held| {
            held.holder == term.holder && held.number == term.number && held.expires_at > self.now
        });
        if !holds {
            return Vec::new();
        }
        let now = self.now;
        let overdue = self
            .fleet
            .iter_mut()
            .filter(|(_, member)| member.is_live && member.expires_at <= now)
            .filter(|(_, member)| {
                let of = member.scope.as_ref();
                of.is_none_or(|of| is_within(of, scope))
            });
        overdue
            .map(|(id, member)| {
                member.is_live = false;
                Buried {
                    id: id.clone(),
                    silent_for: now.since(member.beat_at),
                }
            })
            .collect()
    }

    pub(super) fn elect(
        &mut self,
        (role, scope): (Role, Option<&Namespace>),
        holder: &OwnerId,
        ttl: Duration,
    ) -> Option<Term> {
        let now = self.now;
        let held = self.roles.get(&role.key(scope));
        let mut term = match held {
            Some(term) if term.expires_at > now && term.holder != *holder => return None,
            Some(term) if term.expires_at > now => term.clone(),
            other => Term {
                role,
                holder: holder.clone(),
                number: other.map_or(0, |term| term.number) + 1,
                acquired_at: now,
                expires_at: now,
                now,
            },
        };
        (term.expires_at, term.now) = (now.plus(ttl), now);
        self.roles.insert(role.key(scope), term.clone());
        Some(term)
    }

    pub(super) fn resign(&mut self, term: &Term, scope: Option<&Namespace>) {
        if let Some(held) = self.roles.get_mut(&term.role.key(scope))
            && held.holder == term.holder
            && held.number == term.number
        {
            held.expires_at = held.expires_at.min(self.now);
        }
    }
}

/// Whether a call that keeps to `scope` is for `namespace`.
pub(super) fn is_within(namespace: &Namespace, scope: Option<&Namespace>) -> bool {
    scope.is_none_or(|scope| scope == namespace)
}
