//! Asking.

use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Error, ErrorKind, Key, LONGEST_WAIT, Name, Result};
use coord_redis::{Command, Redis};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::blocks::Blocks;
use crate::breaker::{Breakers, is_outage};
use crate::decision::{By, Decision, Standing};
use crate::limit::Limit;
use crate::line::Lines;
use crate::memory::Denials;
use crate::outage::{Policy, WithoutRedis};
use crate::rule::{Level, Rule};
use crate::signals::{SIGNALS, Signal};
use crate::standing;
use crate::subject::Subject;
use crate::wire::{self, Answer};

/// The most limits of one limiter: each costs every call of it some microseconds of the server.
const MAX_LIMITS: usize = 8;

/// What a denied caller waits at least: the unit in which limits count.
pub(crate) const SHORTEST: Duration = Duration::from_micros(1);

/// One limit or several that are checked together, for any number of subjects. Clones are the
/// same.
#[derive(Clone)]
pub struct Limiter(Arc<Inner>);

struct Inner {
    redis: Redis,
    limits: Box<[Limit]>,
    policy: Policy,
    breakers: Arc<Breakers>,
    denials: Denials,
    lines: Lines,
}

impl Limiter {
    /// A limiter that holds all of `limits` at once: permits are taken of each of them, or of
    /// none. `without_redis` decides while Redis cannot be asked. Nothing is sent.
    ///
    /// # Errors
    /// `Invalid` for no limits, more than eight, or two of one name: they would count together.
    pub fn new(
        redis: &Redis,
        limits: impl IntoIterator<Item = Limit>,
        without_redis: WithoutRedis,
    ) -> Result<Self> {
        coord_core::signals::register(SIGNALS);
        let limits: Box<[_]> = limits.into_iter().collect();
        if !(1..=MAX_LIMITS).contains(&limits.len()) {
            return Err(Error::invalid(format!(
                "a limiter of {} limits is not one of 1 to {MAX_LIMITS}",
                limits.len()
            )));
        }
        for (place, limit) in limits.iter().enumerate() {
            if limits[..place]
                .iter()
                .any(|other| other.name() == limit.name())
            {
                let name = limit.name();
                return Err(Error::invalid(format!("two limits are called {name}")));
            }
        }
        Ok(Self(Arc::new(Inner {
            redis: redis.clone(),
            policy: Policy::new(without_redis, &limits),
            limits,
            breakers: Breakers::of(redis),
            denials: Denials::default(),
            lines: Lines::default(),
        })))
    }

    /// Takes `permits` of `subject` if they are there, of all limits or of none.
    ///
    /// One round trip, sent once: no retry counts a caller twice. None at all where an earlier
    /// denial of as many permits or fewer still holds, where more is asked for than ever fits, and
    /// while Redis is known to be away.
    ///
    /// When Redis does not take or answer the call within the client's deadline, the policy
    /// decides. Where it did not take the call, or did not answer two in a row, the policy goes on
    /// to decide at once until Redis is back. A call without an answer may have taken its permits all the same; they come back
    /// by themselves, as all do, so the subject is at worst limited a little early.
    ///
    /// # Errors
    /// `Invalid` for no permits, for a number of subjects that is not that of the limits, on a
    /// cluster for subjects of several groups, and when the ACL user may not run the script or a
    /// command of it.
    /// `Corrupt` when something else is stored under a limit's key: it is left alone.
    ///
    /// # Cancel safety
    /// A dropped call may have taken its permits.
    pub async fn try_acquire(&self, subject: &Subject, permits: u32) -> Result<Decision> {
        let keys = self.keys(subject, permits)?;
        let decision = self.decide(&keys, permits, self.0.redis.deadline()).await?;
        Ok(decision.counted())
    }

    /// Takes `permits` of `subject`, and waits for them for up to `wait` in all. With a `wait` of
    /// zero it asks once, within the client's deadline.
    ///
    /// Within this process those who wait for one subject are served in the order in which they
    /// came, whatever they ask for; [`try_acquire`](Self::try_acquire) does not stand in line. It
    /// sleeps until the permits are there, and does not poll. It is denied as soon as it is known
    /// that they will not be there in time.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// A dropped call gives up its place in line. It may have taken its permits if it was dropped
    /// while Redis was asked, not while it waited.
    pub async fn acquire(
        &self,
        subject: &Subject,
        permits: u32,
        wait: Duration,
    ) -> Result<Decision> {
        let keys = self.keys(subject, permits)?;
        let start = Instant::now();
        let decision = self.wait(&keys, permits, start, wait).await?;
        let limit = keys[0].clone();
        match &decision {
            Decision::Allowed(_) => {
                let elapsed_ms = start.elapsed();
                Signal::Wait { elapsed_ms, limit }.emit();
            }
            Decision::Denied { .. } => Signal::Timeout { limit }.emit(),
            Decision::NeverAllowed { .. } => {}
        }
        Ok(decision.counted())
    }

    /// Where the tightest limit of `subject` stands; nothing is taken.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout` when Redis did not answer within the client's deadline; the
    /// others as [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn peek(&self, subject: &Subject) -> Result<Standing> {
        let keys = self.keys(subject, 1)?;
        let command = wire::peek(&self.0.limits, &keys);
        let answer = self.ask(&keys, &command, self.0.redis.deadline()).await?;
        Ok(standing::after(self.each(&answer), 0, By::Redis))
    }

    /// Gives `permits` back to `subject`, of all limits: what was taken was not used. It never has
    /// more than it would have if nothing had been taken.
    ///
    /// Give back only what Redis counted: not what was decided without it, and nothing after an
    /// error of [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// `Unavailable`: not done. `Timeout`: it may have been done, and is not repeated, since a
    /// second time would give twice. The others as [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// A dropped call may have given them back.
    pub async fn refund(&self, subject: &Subject, permits: u32) -> Result<()> {
        let keys = self.keys(subject, permits)?;
        let command = wire::take(&self.0.limits, &keys, -i64::from(permits));
        self.ask(&keys, &command, self.0.redis.deadline()).await?;
        self.0.denials.forget(&keys);
        Ok(())
    }

    /// Forgets what `subject` has taken, of all limits. Other processes that know it as denied
    /// learn of it within a second.
    ///
    /// # Errors
    /// `Unavailable`: not done. `Timeout`: it may have been done; call again. `Invalid` as
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// Safe to call again. A dropped call may have done it.
    pub async fn reset(&self, subject: &Subject) -> Result<()> {
        let keys = self.keys(subject, 1)?;
        let forget = Command::new("UNLINK").idempotent();
        let forget = keys.iter().fold(forget, Command::key);
        self.0.redis.run(&forget).await?;
        self.0.denials.forget(&keys);
        Ok(())
    }

    /// The same limiter, drawing `block` permits of a subject at a time and handing them out from
    /// memory: for subjects that take so often that a round trip for each is too many.
    ///
    /// # Errors
    /// `Invalid` for a block that never fits, or of fewer than two permits.
    pub fn in_blocks(&self, block: u32) -> Result<Blocks> {
        Blocks::new(self.clone(), block)
    }

    /// Its limits.
    pub fn limits(&self) -> &[Limit] {
        &self.0.limits
    }

    /// The most permits that all limits give at once.
    pub(crate) fn capacity(&self) -> u32 {
        let capacities = self.0.limits.iter().map(Limit::capacity);
        capacities.min().expect("a limiter has a limit")
    }

    /// How long a call of Redis may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.0.redis.deadline()
    }

    /// Whether Redis is known to be away for `keys`.
    pub(crate) fn is_degraded(&self, keys: &[Key]) -> bool {
        self.0.breakers.is_open(&keys[0])
    }

    /// The keys of `subject`, one a limit.
    pub(crate) fn keys(&self, subject: &Subject, permits: u32) -> Result<Vec<Key>> {
        if permits == 0 {
            return Err(Error::invalid("no permits were asked for"));
        }
        let keys = subject.keys(self.0.redis.keys(), &self.0.limits)?;
        let slot = self.0.redis.slot(&keys[0]);
        if keys[1..].iter().any(|key| self.0.redis.slot(key) != slot) {
            return Err(Error::invalid(
                "on a cluster the limits of one call lie in one slot: make the subjects one group and its members",
            ));
        }
        Ok(keys)
    }

    /// Decides about `keys`, within `limit`.
    pub(crate) async fn decide(
        &self,
        keys: &[Key],
        permits: u32,
        limit: Duration,
    ) -> Result<Decision> {
        let this = &self.0;
        if let Some(limit) = this.limits.iter().find(|limit| limit.capacity() < permits) {
            return Ok(Decision::NeverAllowed {
                capacity: limit.capacity(),
                limit: limit.name().clone(),
            });
        }
        if let Some(denied) = this.denials.recall(keys, permits) {
            return Ok(denied);
        }
        let without = || this.policy.decide(&this.limits, keys, permits);
        if this.breakers.is_open(&keys[0]) {
            return Ok(without());
        }
        let sent_at = Instant::now();
        let command = wire::take(&this.limits, keys, permits.into());
        match self.ask(keys, &command, limit).await {
            Ok(answer) if answer.taken => {
                let standing = standing::after(self.each(&answer), permits, By::Redis);
                Ok(Decision::Allowed(standing))
            }
            Ok(answer) => Ok(self.denied(keys, permits, sent_at, &answer)),
            Err(error) if is_outage(&error) => {
                // The end of a wait cut it short, which says nothing about Redis.
                if limit < this.redis.deadline() {
                    return Ok(self.out_of_time());
                }
                this.breakers.failed(&keys[0], &error);
                Ok(without())
            }
            Err(error) => Err(error),
        }
    }

    async fn wait(
        &self,
        keys: &[Key],
        permits: u32,
        start: Instant,
        wait: Duration,
    ) -> Result<Decision> {
        let deadline = start + wait.min(LONGEST_WAIT);
        let place = self.0.lines.join(&keys[0]);
        let patience = self.0.redis.deadline();
        let (turn_by, patience) = if wait.is_zero() {
            (start + patience, patience)
        } else {
            (deadline, patience.min(wait))
        };
        let Ok(_turn) = timeout_at(turn_by, place.turn()).await else {
            return Ok(self.out_of_time());
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = if wait.is_zero() {
                patience
            } else {
                patience.min(left)
            };
            let decision = self.decide(keys, permits, limit).await?;
            let Some(retry_after) = decision.retry_after() else {
                return Ok(decision);
            };
            // Counted from the answer, so that the time has passed at the server too.
            let at = Instant::now() + retry_after;
            if at >= deadline {
                return Ok(decision);
            }
            sleep_until(at).await;
        }
    }

    /// The wait ended before Redis could decide: those before still waited, or no answer came.
    fn out_of_time(&self) -> Decision {
        let limit = &self.0.limits[0];
        let quota = limit.quota();
        Decision::Denied {
            // Nobody knows how many wait for how much: the time in which one permit comes back.
            retry_after: (quota.period() / quota.permits()).max(SHORTEST),
            standing: Standing {
                limit: limit.name().clone(),
                remaining: 0,
                reset_after: quota.period(),
                by: By::Line,
            },
        }
    }

    async fn ask(&self, keys: &[Key], command: &Command, limit: Duration) -> Result<Answer> {
        let reply = self.0.redis.run_within(command, limit).await;
        if !reply.as_ref().is_err_and(is_outage) {
            self.0.breakers.answered(&keys[0]);
        }
        let answer = reply.and_then(|reply| wire::answer(reply, &self.0.limits));
        if let Err(error) = &answer
            && error.kind() == ErrorKind::Corrupt
        {
            let error = Detail::error(error);
            Signal::Corrupt { error }.emit();
        }
        answer
    }

    fn denied(&self, keys: &[Key], permits: u32, sent_at: Instant, answer: &Answer) -> Decision {
        let (retry_after, standing) = standing::denied(self.each(answer), permits, By::Redis);
        let retry_after = retry_after.max(SHORTEST);
        let name: Name = standing.limit.clone();
        let decision = Decision::Denied {
            retry_after,
            standing,
        };
        let place = self.0.limits.iter().position(|limit| *limit.name() == name);
        let key = &keys[place.expect("the limit is one of these")];
        self.0.denials.keep(key, permits, sent_at, &decision);
        decision
    }

    fn each<'a>(
        &'a self,
        answer: &'a Answer,
    ) -> impl Iterator<Item = (&'a Limit, &'a Rule, Level)> {
        let levels = self.0.limits.iter().zip(&answer.before);
        levels.map(|(limit, level)| (limit, limit.rule(), *level))
    }
}
