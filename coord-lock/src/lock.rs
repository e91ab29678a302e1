//! A held lock.

use std::fmt;

use coord_core::{Error, FencingToken, Key, Result};
use coord_lease::{Grant, Hold, Leases, Loss as LeaseLoss};
use tokio::time::Instant;

use crate::claim::{Claim, Granted, Released};
use crate::signals::{Loss, Signal};

/// A lock that is held, and renewed at a third of its TTL, until it is released, dropped or lost.
///
/// Dropping it stops the renewal and releases in the background: at once where Redis answers, by
/// the TTL where it does not. [`release`](Self::release) is the way to know. A lock that is
/// forgotten (`std::mem::forget`) is renewed as long as the process lives.
///
/// The drop needs no runtime. At the end of a process, [`Redis::shutdown`] waits for releases
/// that are under way; a process that ends without it leaves its locks to their TTL.
///
/// [`Redis::shutdown`]: coord_redis::Redis::shutdown
#[must_use = "dropping a lock releases it"]
pub struct Lock {
    // First, so that no renewal is started once the release is under way.
    hold: Hold,
    claim: Claim,
    since: Instant,
}

impl Lock {
    pub(crate) fn new(leases: &Leases, claim: Claim, granted: &Granted) -> Self {
        let hold = leases.hold(Grant {
            key: claim.keys().lock.clone(),
            record: claim.keys().record.clone(),
            token: claim.token().clone(),
            fence: granted.fence,
            life: granted.life,
            ttl: claim.ttl(),
            sent_at: granted.sent_at,
            on_loss: lost,
        });
        Self {
            hold,
            claim,
            since: Instant::now(),
        }
    }

    /// The number to send along with every write that the lock protects: larger at every grant
    /// of the name.
    pub fn fence(&self) -> FencingToken {
        self.hold.fence()
    }

    /// Until when the lock may be trusted without another word from the server: the sending of
    /// the last request that succeeded, plus the TTL, minus 1 % and 2 ms.
    pub fn valid_until(&self) -> Instant {
        self.hold.valid_until()
    }

    /// Whether the lock is still held: ask before every step of the protected work.
    ///
    /// # Errors
    /// `Lost` when the server says that it is no longer ours, or when
    /// [`valid_until`](Self::valid_until) has passed.
    pub fn check(&self) -> Result<()> {
        self.hold.check()
    }

    /// Completes when the lock is lost: at once when the server says so, else when
    /// [`valid_until`](Self::valid_until) has passed, never later.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Renews the lock now, for its TTL counted from now on the server's clock.
    ///
    /// The automatic renewal does not need it.
    ///
    /// # Errors
    /// `Lost` when the lock ended first; nothing was written then. `Timeout` and `Unavailable`
    /// leave [`valid_until`](Self::valid_until) where it was, and the lock held. `Corrupt` when
    /// something else is stored there, which also ends the lock.
    ///
    /// # Cancel safety
    /// Safe. A dropped call may still have renewed the lock, never shortened it.
    pub async fn renew(&self) -> Result<()> {
        self.hold.renew().await
    }

    /// Renews the lock, and waits until `replicas` of the server have it, for at most `within`; see
    /// [`Hold::replicate`](coord_lease::Hold::replicate).
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
    ) -> Result<coord_lease::Replication> {
        self.hold.replicate(replicas, within).await
    }

    /// Releases the lock and says what was found.
    ///
    /// It compares the token, so it never frees a lock that somebody else has got meanwhile. A
    /// repetition after a lost reply counts as [`Released::Freed`] if the lock was valid when the
    /// release began.
    ///
    /// # Errors
    /// `Timeout` and `Unavailable` when Redis did not answer within the client's deadline; the
    /// release goes on in the background. `Corrupt` when something else is stored there.
    ///
    /// # Cancel safety
    /// Safe to drop: the release finishes in the background.
    pub async fn release(mut self) -> Result<Released> {
        let held = self.hold.check().is_ok();
        self.hold.stop();
        let released = self.claim.end(held).await;
        if let Ok(outcome) = released {
            let lock = self.hold.key().clone();
            Signal::Released { outcome, lock }.emit();
            // One that was not held any more was reported when that was found.
            if held && outcome != Released::Freed {
                report(self.hold.key(), self.hold.fence(), Loss::Revoked);
            }
        }
        released
    }

    /// The error of a lock that is lost.
    pub(crate) fn loss(&self) -> Error {
        match self.check() {
            Err(error) => error,
            Ok(()) => Error::lost(format!("the lock {}", self.hold.key())),
        }
    }

    pub(crate) fn key(&self) -> &Key {
        self.hold.key()
    }
}

/// Reports what became of the lease under a lock.
fn lost(lock: &Key, fence: FencingToken, cause: LeaseLoss) {
    let cause = match cause {
        LeaseLoss::Expired => Loss::Expired,
        LeaseLoss::Gone | LeaseLoss::Taken | LeaseLoss::Foreign => Loss::Revoked,
    };
    report(lock, fence, cause);
}

fn report(lock: &Key, fence: FencingToken, cause: Loss) {
    let lock = lock.clone();
    Signal::Lost { cause, lock, fence }.emit();
}

impl Drop for Lock {
    fn drop(&mut self) {
        // One whose time is up is reported, unless it was released or reported before.
        _ = self.hold.check();
        let (elapsed_ms, lock) = (self.since.elapsed(), self.hold.key().clone());
        Signal::Held { elapsed_ms, lock }.emit();
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Lock")
            .field("key", self.hold.key())
            .field("fence", &self.hold.fence())
            .finish_non_exhaustive()
    }
}
