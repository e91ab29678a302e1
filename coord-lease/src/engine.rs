//! The renewal of all leases of a client: one loop on the upkeep thread, one call for many.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, Result};
use coord_redis::{Command, Redis, Reply, Script};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::batch::by_call;
use crate::hold::{Grant, Held, Hold};
use crate::schedule::{Id, Schedule};
use crate::signals::{Loss, Signal};

/// Renews leases, each only if it is still the caller's.
static RENEW: Script = crate::lease_script!("lease.renew", include_str!("lua/renew.lua"));

/// Between two attempts to renew. A lease that lives shorter retries faster.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// What the script says of each lease; anything else means that something foreign is stored.
const RENEWED: i64 = 1;
const GONE: i64 = 0;
const TAKEN: i64 = -1;

/// The leases of one client. It ends, and its loop with it, when its last user is gone.
pub(crate) struct Engine {
    redis: Redis,
    plan: Mutex<Plan>,
    running: AtomicBool,
    /// Outside, so that the waiting loop does not keep the engine alive.
    wake: Arc<Notify>,
}

#[derive(Default)]
struct Plan {
    schedule: Schedule<Arc<Held>>,
    /// Until when the loop sleeps; nothing when only a wake ends its sleep.
    asleep_until: Option<Instant>,
}

/// One call under way.
struct Renewal {
    leases: Vec<(Id, Arc<Held>)>,
    sent_at: Instant,
    replies: Result<Vec<i64>>,
}

impl Engine {
    pub(crate) fn new(redis: Redis) -> Self {
        Self {
            redis,
            plan: Mutex::default(),
            running: AtomicBool::new(false),
            wake: Arc::default(),
        }
    }

    pub(crate) fn hold(self: &Arc<Self>, grant: Grant) -> Hold {
        if !self.running.swap(true, Ordering::AcqRel) {
            let run = run(Arc::downgrade(self), Arc::clone(&self.wake));
            self.redis.tend(run);
        }
        let (lives, sent_at) = ((grant.life, grant.ttl), grant.sent_at);
        let held = Arc::new(Held::new(grant));
        let (id, is_next) = {
            let mut plan = self.plan();
            let id = plan.schedule.add(Arc::clone(&held), lives, sent_at);
            let next = plan.schedule.next();
            (id, plan.asleep_until.is_none() || plan.asleep_until > next)
        };
        if is_next {
            self.wake.notify_one();
        }
        Hold::new(held, id, Arc::clone(self))
    }

    pub(crate) fn redis(&self) -> &Redis {
        &self.redis
    }

    pub(crate) fn remove(&self, id: Id) {
        // Whether it was still there is no matter to one who gives it up.
        _ = self.plan().schedule.remove(id);
    }

    /// Renews one lease now.
    pub(crate) async fn renew(&self, id: Id, held: &Arc<Held>) -> Result<()> {
        let sent_at = Instant::now();
        let answer = self.redis.run(&command([held])).await;
        self.settle_one(id, held, answer, sent_at)
    }

    /// Renews one lease now and waits for replicas; gives how many have it.
    #[cfg(feature = "replicas")]
    pub(crate) async fn replicate(
        &self,
        id: Id,
        held: &Arc<Held>,
        replicas: u32,
        within: Duration,
    ) -> Result<u32> {
        let sent_at = Instant::now();
        let renewal = command([held]);
        let answer = self.redis.run_replicated(&renewal, replicas, within);
        let (answer, confirmed) = match answer.await {
            Ok((reply, confirmed)) => (Ok(reply), confirmed),
            Err(error) => (Err(error), 0),
        };
        self.settle_one(id, held, answer, sent_at)?;
        Ok(confirmed)
    }

    fn settle_one(
        &self,
        id: Id,
        held: &Held,
        answer: Result<Reply>,
        sent_at: Instant,
    ) -> Result<()> {
        let reply = answer.and_then(|reply| {
            let [reply] = reply.array()?;
            reply.int()
        });
        match reply {
            Ok(reply) => self.settle(id, held, reply, sent_at),
            Err(error) => {
                renewal_failed(1, &error);
                Err(error)
            }
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        // A panic elsewhere cannot leave half a change: nothing in there calls out.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts what is due at `now`; gives the instant of what comes next.
    fn step(&self, now: Instant, calls: &mut JoinSet<Renewal>) -> Option<Instant> {
        let (due, next) = {
            let mut plan = self.plan();
            let due = plan.schedule.due(now);
            let next = plan.schedule.next();
            plan.asleep_until = next;
            (due, next)
        };
        for held in due.expired {
            // It is told to whoever holds the lease, and emitted once.
            _ = held.check(now);
        }
        for leases in by_call(&self.redis, due.renew, |(_, held)| &held.key) {
            calls.spawn(renewal(self.redis.clone(), leases));
        }
        next
    }

    fn finish(&self, renewal: Renewal) {
        let error = match renewal.replies {
            Ok(replies) if replies.len() == renewal.leases.len() => {
                for ((id, held), reply) in renewal.leases.into_iter().zip(replies) {
                    // Whoever holds the lease learns of its loss there.
                    _ = self.settle(id, &held, reply, renewal.sent_at);
                }
                return;
            }
            Ok(_) => Error::corrupt("a renewal has not as many replies as leases"),
            Err(error) => error,
        };
        let ids: Vec<_> = renewal.leases.iter().map(|&(id, _)| id).collect();
        let backoff = |failures| RETRY.jittered(failures);
        self.plan().schedule.failed(&ids, Instant::now(), backoff);
        renewal_failed(ids.len(), &error);
    }

    /// Applies what the server said of one lease to a renewal of `sent_at`.
    ///
    /// A lease that is not in the schedule any more is given up or was found lost before: whatever
    /// the server says of it now is no news, and may be the work of its release.
    fn settle(&self, id: Id, held: &Held, reply: i64, sent_at: Instant) -> Result<()> {
        let loss = match reply {
            RENEWED => None,
            GONE => Some(Loss::Gone),
            TAKEN => Some(Loss::Taken),
            _ => Some(Loss::Foreign),
        };
        let now = Instant::now();
        let is_kept = {
            let mut plan = self.plan();
            match loss {
                Some(_) => plan.schedule.remove(id),
                None if held.extend(sent_at, now) => plan.schedule.renewed(id, sent_at),
                None => plan.schedule.contains(id),
            }
        };
        match loss {
            _ if !is_kept => Err(held.over()),
            Some(loss) => Err(held.lose(loss)),
            None => held.check(now),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

/// Renews what is due until the engine is gone. It owns the calls under way, which end with it.
async fn run(engine: Weak<Engine>, wake: Arc<Notify>) {
    let mut calls = JoinSet::new();
    loop {
        let next = match engine.upgrade() {
            Some(engine) => engine.step(Instant::now(), &mut calls),
            None => return,
        };
        let due = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wake.notified() => {}
            () = due => {}
            Some(renewal) = calls.join_next() => {
                if let (Some(engine), Ok(renewal)) = (engine.upgrade(), renewal) {
                    engine.finish(renewal);
                }
            }
        }
    }
}

fn renewal_failed(leases: usize, error: &Error) {
    let (leases, error) = (leases as u64, Detail::error(error));
    Signal::RenewFailed { leases, error }.emit();
}

async fn renewal(redis: Redis, leases: Vec<(Id, Arc<Held>)>) -> Renewal {
    let sent_at = Instant::now();
    // The call goes on for as long as its answer can help one of them: a reply that comes late on
    // the same connection still counts, and a second call would queue up behind the first.
    let valid_until = leases.iter().map(|(_, held)| held.valid_until()).max();
    let remaining = valid_until.map_or(Duration::ZERO, |until| until.duration_since(sent_at));
    let limit = remaining.min(redis.deadline());
    let command = command(leases.iter().map(|(_, held)| held));
    let replies = redis.run_apart(&command, limit).await.and_then(|reply| {
        let replies = reply.list()?;
        replies.into_iter().map(Reply::int).collect()
    });
    Renewal {
        leases,
        sent_at,
        replies,
    }
}

fn command<'a>(leases: impl IntoIterator<Item = &'a Arc<Held>>) -> Command {
    let leases: Vec<_> = leases.into_iter().collect();
    let keys: Vec<_> = leases
        .iter()
        .flat_map(|held| [&held.key, &held.record])
        .collect();
    leases
        .iter()
        .fold(RENEW.call(&keys), |call, held| {
            call.arg(&held.value).arg(held.ttl.as_millis())
        })
        .idempotent()
}
