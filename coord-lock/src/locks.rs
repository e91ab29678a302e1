//! The locks of one client.

use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Error, ErrorKind, FencingToken, Key, LONGEST_WAIT, Name, Result};
use coord_lease::{Holder, Leases, Owner};
use coord_redis::{Kept, Redis};
use tokio::time::Instant;

use crate::claim::{self, Attempt, By, Claim, Granted, Released, Terms};
use crate::news::News;
use crate::scripts::{INSPECT, Keys};
use crate::signals::{SIGNALS, Signal};
use crate::{Lock, LockOptions, reentry, wait};

/// The kind of key that the locks of this crate are.
const KIND: &str = "lock";

/// The owner's name where none is given: its host and process stand beside it.
const UNNAMED: &str = "unnamed";

/// The locks in the space of one [`Redis`] client. Clones are the same.
#[derive(Clone)]
pub struct Locks {
    redis: Redis,
    leases: Leases,
    unnamed: Arc<str>,
    news: Arc<News>,
    id: Id,
}

/// Tells the locks of one [`Locks::new`] from those of another, which may be on another server.
#[derive(Debug, Clone)]
pub(crate) struct Id(Arc<()>);

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What an attempt at a lock gave.
#[derive(Debug)]
#[must_use = "dropping a lock releases it"]
pub enum TryAcquire {
    /// The lock is ours.
    Acquired(Lock),
    /// Somebody else has it.
    Held(Holder),
}

impl TryAcquire {
    /// The lock, for those who do not care who else has it.
    pub fn acquired(self) -> Option<Lock> {
        match self {
            Self::Acquired(lock) => Some(lock),
            Self::Held(_) => None,
        }
    }
}

impl Locks {
    /// The locks in the space of `redis`. Nothing is sent before the first is asked for.
    pub fn new(redis: &Redis) -> Self {
        coord_core::signals::register(SIGNALS);
        redis.keeps(Kept::Leases);
        let unnamed = Owner::new(Name::new(UNNAMED).expect("it is short and not empty"));
        Self {
            redis: redis.clone(),
            leases: Leases::new(redis),
            unnamed: unnamed.encode().into(),
            news: redis.shared(News::new),
            id: Id(Arc::new(())),
        }
    }

    /// Takes the lock `name` if it is free, without waiting for its owner.
    ///
    /// In [`Order::Fifo`](crate::Order::Fifo) it also leaves a free lock to those who wait.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout` when Redis did not answer within the client's deadline, or
    /// refused to: what it may have granted is released in the background. `Lost` when the answer
    /// came later than the TTL. `Invalid` inside [`with_lock`](Self::with_lock) of the same name. `Corrupt` when something else is stored
    /// there.
    ///
    /// # Cancel safety
    /// Safe to drop at any point: what it may have been granted is released in the background.
    pub async fn try_acquire(&self, name: &Name, options: &LockOptions) -> Result<TryAcquire> {
        let mut claim = self.claim(name, options)?;
        let start = Instant::now();
        match claim.attempt(false, self.redis.deadline()).await {
            Ok(Attempt::Granted(granted)) => {
                Ok(TryAcquire::Acquired(self.granted(claim, &granted, start)?))
            }
            Ok(Attempt::Held(holder)) => Ok(TryAcquire::Held(holder)),
            Err(error) => Err(failed(&claim, error)),
        }
    }

    /// Takes the lock `name`, and waits for it for up to `wait` in all. With a `wait` of zero it
    /// asks once, within the client's deadline.
    ///
    /// It sleeps until a release is announced, or the lock would end by itself; it does not poll.
    /// An owner that was killed, a key that was deleted and an announcement that was lost all cost
    /// at most the TTL and a second.
    ///
    /// # Errors
    /// `Contended` when others had it for the whole wait. `Unavailable` when Redis was not there,
    /// `Timeout` when it did not answer, at the end of the wait: what it may have granted is
    /// released in the background. `Lost` when the answer came later than the TTL. `Invalid`
    /// inside [`with_lock`](Self::with_lock) of the same name. `Corrupt` when something else is stored there.
    ///
    /// # Cancel safety
    /// Safe to drop at any point: what it may have been granted is released in the background,
    /// and so is its place in the queue.
    pub async fn acquire(
        &self,
        name: &Name,
        wait: Duration,
        options: &LockOptions,
    ) -> Result<Lock> {
        let mut claim = self.claim(name, options)?;
        let start = Instant::now();
        let wait = if wait.is_zero() {
            self.redis.deadline()
        } else {
            wait.min(LONGEST_WAIT)
        };
        match wait::until_granted(&mut claim, start + wait).await {
            Ok(granted) => self.granted(claim, &granted, start),
            Err(error) => Err(failed(&claim, error)),
        }
    }

    /// Runs `body` with the lock `name`, as [`acquire`](Self::acquire) takes it, and releases it.
    ///
    /// When the lock is lost, `body` is dropped where it stands and the error is `Lost`. Whatever
    /// `body` returns is returned, also when the release fails or finds the lock gone; then the
    /// signals `redis.lock.released` and `redis.lock.lost` tell. The lock is released as well when
    /// `body` panics, and when the call is dropped.
    ///
    /// Inside of `body`, the task that runs it is refused the same lock with `Invalid` at once,
    /// instead of waiting for itself. Tasks that it spawns are not: they wait like anybody else.
    ///
    /// # Errors
    /// Those of `body`; those of [`acquire`](Self::acquire); `Lost`.
    ///
    /// # Cancel safety
    /// `body` is dropped where it stands, and the lock is released in the background.
    pub async fn with_lock<T, E>(
        &self,
        name: &Name,
        wait: Duration,
        options: &LockOptions,
        body: impl AsyncFnOnce(&Lock) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<Error>,
    {
        let lock = self.acquire(name, wait, options).await?;
        let running = async {
            tokio::select! {
                // What is done is done, also if the lock was lost in the same moment.
                biased;
                done = body(&lock) => Some(done),
                () = lock.lost() => None,
            }
        };
        let key = lock.key().clone();
        let Some(done) = reentry::within(self.id.clone(), key, running).await else {
            return Err(lock.loss().into());
        };
        // The body's result stands, whatever became of the lock: its signals tell.
        _ = lock.release().await;
        done
    }

    /// Who holds the lock `name`, if anybody does.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout` when Redis did not answer within the client's deadline;
    /// `Corrupt` when something else is stored there.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn inspect(&self, name: &Name) -> Result<Option<Holder>> {
        let keys = self.keys(name);
        let command = INSPECT.call(&[&keys.lock, &keys.record]).idempotent();
        let reply = self.redis.run(&command).await?;
        reply.optional().map(Holder::from_reply).transpose()
    }

    /// All locks whose names start with `start` and that somebody has, with their owners, by name:
    /// for operators. It walks over the whole key space in small steps; what is acquired or released
    /// meanwhile may be missing or there, and what is no lock is left out.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout`.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn list(&self, start: &str) -> Result<Vec<(Name, Holder)>> {
        coord_lease::format::held(&self.redis, KIND, start).await
    }

    /// Ends the grant of `name` that has this `fence`, whoever holds it, as if its owner had
    /// released it: for operators, who have the fence from [`inspect`](Self::inspect). A later
    /// grant is left alone. The owner finds its lock lost at its next renewal, a third of its TTL
    /// later at most, and may act until then: only the fence stops it.
    ///
    /// The signal `redis.lock.forced` says so, with the name `by`.
    ///
    /// # Errors
    /// `Unavailable`: not done. `Timeout`: it is unknown; another call tells. `Corrupt`: something
    /// else is stored there, and stays.
    ///
    /// # Cancel safety
    /// Safe to call again. A dropped call may have ended the grant without the signal.
    pub async fn force_release(
        &self,
        name: &Name,
        fence: FencingToken,
        by: &Name,
    ) -> Result<Released> {
        let keys = self.keys(name);
        let command = claim::release(&self.redis, &keys, By::Fence(fence)).idempotent();
        let released = claim::released(self.redis.run(&command).await?)?;
        if released == Released::Freed {
            let (lock, by) = (keys.lock, by.clone());
            Signal::Forced { lock, fence, by }.emit();
        }
        Ok(released)
    }

    fn claim(&self, name: &Name, options: &LockOptions) -> Result<Claim> {
        let keys = self.keys(name);
        reentry::refuse(&self.id, &keys.lock)?;
        let owner = options.owner.as_ref().unwrap_or(&self.unnamed);
        let terms = Terms {
            ttl: options.ttl,
            owner: Arc::clone(owner),
            order: options.order,
            news: Arc::clone(&self.news),
        };
        Ok(Claim::new(&self.redis, keys, terms))
    }

    fn granted(&self, claim: Claim, granted: &Granted, start: Instant) -> Result<Lock> {
        let lock: Key = claim.keys().lock.clone();
        let (order, elapsed_ms) = (claim.order(), start.elapsed());
        Signal::Wait {
            order,
            elapsed_ms,
            lock,
        }
        .emit();
        let lock = Lock::new(&self.leases, claim, granted);
        // An answer that came too late is no ground to act on: the lock may have ended.
        lock.check().map(|()| lock)
    }

    fn keys(&self, name: &Name) -> Keys {
        Keys::new(self.redis.keys().key(KIND, &[name]), &self.redis)
    }
}

/// Reports why `claim` was not granted.
fn failed(claim: &Claim, error: Error) -> Error {
    let lock = claim.keys().lock.clone();
    match error.kind() {
        ErrorKind::Contended => {
            let order = claim.order();
            Signal::Timeout { order, lock }.emit();
        }
        ErrorKind::Unavailable | ErrorKind::Timeout => {
            let error = Detail::error(&error);
            Signal::Unavailable { lock, error }.emit();
        }
        ErrorKind::Lost | ErrorKind::Invalid | ErrorKind::Corrupt => {}
    }
    error
}
