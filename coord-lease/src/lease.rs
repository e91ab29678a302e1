//! A claimed lease, and its end.

use std::sync::Arc;

use coord_core::signals::Detail;
use coord_core::{ClaimToken, Error, ErrorKind, FencingToken, Key, Result, Ttl};
use coord_redis::{Command, Receipt, Redis, Reply, Script};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::Holder;
use crate::hold::{Held, Hold};
use crate::signals::{Cause, Signal};

/// Ends a lease, only if it is the one that is meant.
static REMOVE: Script = crate::lease_script!("lease.remove", include_str!("lua/remove.lua"));

/// A claimed lease, renewed until it is released, dropped or lost.
///
/// Dropping it releases it in the background; [`release`](Self::release) is the way to know what
/// became of it.
#[derive(Debug)]
#[must_use = "a lease that is dropped is released"]
pub struct Lease {
    redis: Redis,
    hold: Hold,
    /// Which connections carried its claim.
    receipt: Receipt,
    /// Who waits for the release.
    answer: Option<oneshot::Sender<RemoveResult>>,
}

/// What became of a lease that was to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a lease that was not removed may have been lost while it was in use"]
pub enum RemoveResult {
    /// It was there, and is gone; also when it is gone after an attempt that was not answered.
    Removed,
    /// Nothing was there: it had expired, or somebody had removed it.
    NotFound,
    /// Another has it, and keeps it. No holder is known where something else than a lease is.
    NotOwner {
        /// Who has it.
        holder: Option<Holder>,
    },
    /// The server gave no answer. The removal is repeated in the background until it is done or
    /// the lease has ended by its TTL.
    Unknown,
}

impl Lease {
    pub(crate) fn new(redis: Redis, hold: Hold, receipt: Receipt) -> Self {
        Self {
            redis,
            hold,
            receipt,
            answer: None,
        }
    }

    /// The key of the lease.
    pub fn key(&self) -> &Key {
        self.hold.key()
    }

    /// The number to send along with every write that the lease protects: larger than that of
    /// every earlier grant of the resource.
    pub fn fence(&self) -> FencingToken {
        self.hold.fence()
    }

    /// The life that the server gives it at every renewal.
    pub fn ttl(&self) -> Ttl {
        self.hold.ttl()
    }

    /// Until when it may be trusted without another word from the server; see
    /// [`Hold::valid_until`].
    pub fn valid_until(&self) -> Instant {
        self.hold.valid_until()
    }

    /// Whether it is still held: ask before every step of the protected work.
    ///
    /// # Errors
    /// `Lost` when it is lost, or [`valid_until`](Self::valid_until) has passed.
    pub fn check(&self) -> Result<()> {
        self.hold.check()
    }

    /// Completes when it is lost: at once when the server says that it is no longer ours, else
    /// when [`valid_until`](Self::valid_until) has passed.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Renews it now, which the automatic renewal does not need; see [`Hold::renew`].
    ///
    /// # Errors
    /// `Lost` when it ended first. `Timeout` and `Unavailable` leave
    /// [`valid_until`](Self::valid_until) where it was.
    ///
    /// # Cancel safety
    /// Safe. A dropped call may still have renewed the lease, never shortened it.
    pub async fn renew(&self) -> Result<()> {
        self.hold.renew().await
    }

    /// Renews it, and waits until `replicas` of the server have it, for at most `within`; see
    /// [`Hold::replicate`].
    ///
    /// # Errors
    /// As [`renew`](Self::renew). Too few replicas are no error.
    ///
    /// # Cancel safety
    /// As [`renew`](Self::renew).
    #[cfg(feature = "replicas")]
    pub async fn replicate(
        &self,
        replicas: std::num::NonZeroU32,
        within: std::time::Duration,
    ) -> Result<crate::Replication> {
        self.hold.replicate(replicas, within).await
    }

    /// Releases it, unless somebody else has it by now, and says what became of it.
    ///
    /// # Cancel safety
    /// Safe to drop: the release goes on in the background.
    pub async fn release(mut self) -> RemoveResult {
        let (answer, answered) = oneshot::channel();
        self.answer = Some(answer);
        drop(self);
        answered.await.unwrap_or(RemoveResult::Unknown)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let held = self.hold.retire();
        let (receipt, answer) = (self.receipt.clone(), self.answer.take());
        self.redis
            .spawn(release(self.redis.clone(), held, receipt, answer));
    }
}

/// Releases a lease until that is certain, and tells `waiting` the first answer.
async fn release(
    redis: Redis,
    held: Arc<Held>,
    receipt: Receipt,
    waiting: Option<oneshot::Sender<RemoveResult>>,
) {
    let until = Instant::now() + held.ttl.as_duration() + redis.deadline();
    // What ended before is lost, whatever the server says now.
    _ = held.check(Instant::now());
    let attempts = Receipt::default();
    let removal = remove(&held.key, &held.record, By::Token(&held.token)).receipt(&attempts);
    let answer = redis.run_apart(&removal, redis.deadline()).await;
    let result = match RemoveResult::of(answer, &attempts) {
        Ok(result) => result,
        Err(error) if error.kind() == ErrorKind::Corrupt => RemoveResult::NotOwner { holder: None },
        Err(error) => {
            report(&held, &error);
            RemoveResult::Unknown
        }
    };
    // What another attempt may have removed was not lost.
    if !attempts.is_split() {
        held.removed(&result);
    }
    let unknown = result == RemoveResult::Unknown;
    if let Some(waiting) = waiting {
        // It may have stopped waiting.
        _ = waiting.send(result);
    }
    // A claim that was answered is not executed again, unless it went out twice.
    let receipt = match (receipt.is_split(), unknown) {
        (true, _) => receipt,
        (false, true) => Receipt::default(),
        (false, false) => return,
    };
    let removed = RemoveResult::removed;
    // That there is no answer at all is reported there; the lease then ends by its TTL.
    _ = redis.settle(&removal, &receipt, removed, until).await;
}

fn report(held: &Held, error: &Error) {
    let (cause, lease) = (Cause::of(error), held.key.clone());
    let error = Detail::error(error);
    Signal::RemoveFailed {
        cause,
        lease,
        error,
    }
    .emit();
}

/// By what the one lease that is meant is told from others.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    Token(&'a ClaimToken),
    Fence(FencingToken),
}

/// The removal of a lease, harmless to any but the one that is meant.
pub(crate) fn remove(key: &Key, record: &Key, by: By<'_>) -> Command {
    let removal = REMOVE.call(&[key, record]);
    match by {
        By::Token(token) => removal.arg("token").arg(token.as_str()),
        By::Fence(fence) => removal.arg("fence").arg(fence.get()),
    }
    .idempotent()
}

impl RemoveResult {
    /// What `answer` says of a removal that `attempts` carried.
    pub(crate) fn of(answer: Result<Reply>, attempts: &Receipt) -> Result<Self> {
        let reply = answer?;
        let mut items = reply.list()?.into_iter();
        let code = items.next().unwrap_or(Reply::Nil).int()?;
        Ok(match (code, items.next()) {
            (1, None) => Self::Removed,
            // An earlier attempt must have removed it.
            (0, None) if attempts.is_split() => Self::Removed,
            (0, None) => Self::NotFound,
            (-1, Some(holder)) => Self::NotOwner {
                holder: Some(Holder::from_reply(holder)?),
            },
            _ => return Err(Error::corrupt("a removal has a reply of another form")),
        })
    }

    /// Whether a reply says that something was removed.
    pub(crate) fn removed(reply: &Reply) -> bool {
        matches!(reply, Reply::List(items) if items.first() == Some(&Reply::Int(1)))
    }
}
