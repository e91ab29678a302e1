//! One held lease: until when it may be trusted, and the news that it is lost.

use std::fmt;
use std::sync::Arc;

use coord_core::{ClaimToken, Error, FencingToken, Key, Result, Ttl};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::format;
use crate::lease::RemoveResult;
use crate::schedule::{Id, valid_until};
use crate::signals::Loss;

/// What a grant script gave: for [`Leases::hold`](crate::Leases::hold).
#[derive(Debug, Clone)]
pub struct Grant {
    /// The key that holds `token:fence`.
    pub key: Key,
    /// The key beside it that holds the record of the grant; see [`format::record`].
    pub record: Key,
    /// The token that the grant was made with.
    pub token: ClaimToken,
    /// The number that the script gave.
    pub fence: FencingToken,
    /// The life that the server gave it.
    pub life: Ttl,
    /// The life that each renewal gives it.
    pub ttl: Ttl,
    /// The instant before the request was sent, or a later one before the grant: trust counts from
    /// there.
    pub sent_at: Instant,
    /// Told once, if the lease is found lost: where the service that granted emits its signal, so
    /// that one loss raises one alarm. It runs where the loss was found and must not block.
    pub on_loss: fn(&Key, FencingToken, Loss),
}

/// Whether replicas have a lease.
#[cfg(feature = "replicas")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lease that no replica has is lost in a failover"]
pub enum Replication {
    /// As many as were asked for have it.
    Confirmed,
    /// Fewer had it when the time was up. The others may be behind, or away.
    Short {
        /// How many have it.
        confirmed: u32,
    },
}

/// A held lease that is renewed until it is stopped, dropped or lost.
///
/// Dropping it ends the renewal and releases nothing: that is for the script of whoever granted.
pub struct Hold {
    held: Arc<Held>,
    id: Id,
    engine: Arc<Engine>,
}

impl Hold {
    pub(crate) fn new(held: Arc<Held>, id: Id, engine: Arc<Engine>) -> Self {
        Self { held, id, engine }
    }

    /// The key of the lease.
    pub fn key(&self) -> &Key {
        &self.held.key
    }

    /// The secret of the claim, which a release compares.
    pub fn token(&self) -> &ClaimToken {
        &self.held.token
    }

    /// The number to send along with every write that the lease protects.
    pub fn fence(&self) -> FencingToken {
        self.held.fence
    }

    /// The life that each renewal gives.
    pub fn ttl(&self) -> Ttl {
        self.held.ttl
    }

    /// Until when the lease may be trusted without another word from the server: the sending of
    /// the last request that succeeded, plus the TTL, minus 1 % and 2 ms.
    pub fn valid_until(&self) -> Instant {
        self.held.state.borrow().valid_until
    }

    /// Whether the lease is still held: ask before every step of the protected work.
    ///
    /// It reads the clock, so it tells the truth also when nothing else could run meanwhile.
    ///
    /// # Errors
    /// `Lost` when the lease is lost or was stopped, or [`valid_until`](Self::valid_until) has
    /// passed.
    pub fn check(&self) -> Result<()> {
        self.held.check(Instant::now())
    }

    /// Completes when the lease is lost or stopped: at once when the server says that it is no
    /// longer ours, else when [`valid_until`](Self::valid_until) has passed.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) {
        let mut state = self.held.state.subscribe();
        while self.check().is_ok() {
            let valid_until = state.borrow_and_update().valid_until;
            tokio::select! {
                // The sender lives in `self`.
                _ = state.changed() => {}
                () = tokio::time::sleep_until(valid_until) => {}
            }
        }
    }

    /// Renews the lease now, for its TTL counted from now on the server's clock.
    ///
    /// The automatic renewal does not need it. It compares token and fence, so a late call cannot
    /// renew a successor's lease; and it sends nothing once the lease is lost.
    ///
    /// # Errors
    /// `Lost` when the lease ended first. `Timeout` and `Unavailable` leave
    /// [`valid_until`](Self::valid_until) where it was, and the automatic renewal goes on.
    ///
    /// # Cancel safety
    /// Safe. A dropped call may still have renewed the lease, never shortened it.
    pub async fn renew(&self) -> Result<()> {
        self.check()?;
        self.engine.renew(self.id, &self.held).await
    }

    /// Renews the lease, and waits until `replicas` of the server have it, for at most `within`.
    ///
    /// It narrows what a failover can cost, and does not end it: a replica that has not confirmed
    /// may be promoted all the same. Each call needs a connection of the client's pool.
    ///
    /// # Errors
    /// As [`renew`](Self::renew). Too few replicas are [`Replication::Short`], and the lease stays
    /// held: whether to go on is the caller's to decide.
    ///
    /// # Cancel safety
    /// As [`renew`](Self::renew).
    #[cfg(feature = "replicas")]
    pub async fn replicate(
        &self,
        replicas: std::num::NonZeroU32,
        within: std::time::Duration,
    ) -> Result<Replication> {
        self.check()?;
        let confirmed = self
            .engine
            .replicate(self.id, &self.held, replicas.get(), within);
        Ok(match confirmed.await? {
            confirmed if confirmed >= replicas.get() => Replication::Confirmed,
            confirmed => Replication::Short { confirmed },
        })
    }

    /// Ends the renewal, for the release of the lease.
    pub(crate) fn retire(&self) -> Arc<Held> {
        self.engine.remove(self.id);
        Arc::clone(&self.held)
    }

    /// Ends the renewal, for whoever is about to release the lease. It is not held any more.
    pub fn stop(&self) {
        self.engine.remove(self.id);
        self.held.end(End::Stopped);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.engine.remove(self.id);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hold")
            .field("key", &self.held.key)
            .field("fence", &self.held.fence)
            .field("ttl", &self.held.ttl)
            .finish_non_exhaustive()
    }
}

/// What the handle and the renewals share of one lease.
pub(crate) struct Held {
    pub(crate) key: Key,
    pub(crate) record: Key,
    pub(crate) value: String,
    pub(crate) ttl: Ttl,
    pub(crate) token: ClaimToken,
    fence: FencingToken,
    on_loss: fn(&Key, FencingToken, Loss),
    state: watch::Sender<State>,
}

struct State {
    valid_until: Instant,
    end: Option<End>,
}

#[derive(Clone, Copy)]
enum End {
    Stopped,
    Lost(Loss),
}

impl Held {
    pub(crate) fn new(grant: Grant) -> Self {
        Self {
            record: grant.record,
            value: format::value(&grant.token, grant.fence),
            ttl: grant.ttl,
            token: grant.token,
            fence: grant.fence,
            on_loss: grant.on_loss,
            state: watch::Sender::new(State {
                valid_until: valid_until(grant.sent_at, grant.life),
                end: None,
            }),
            key: grant.key,
        }
    }

    pub(crate) fn valid_until(&self) -> Instant {
        self.state.borrow().valid_until
    }

    /// Says that a request of `sent_at` renewed the lease, as is known at `now`; and whether that
    /// counts. An answer after the end revives nothing: somebody may have acted on the loss.
    pub(crate) fn extend(&self, sent_at: Instant, now: Instant) -> bool {
        let later = valid_until(sent_at, self.ttl);
        let mut held = false;
        self.state.send_if_modified(|state| {
            held = state.end.is_none() && now < state.valid_until;
            let moves = held && later > state.valid_until;
            if moves {
                state.valid_until = later;
            }
            moves
        });
        held
    }

    pub(crate) fn check(&self, now: Instant) -> Result<()> {
        let (end, valid_until) = {
            let state = self.state.borrow();
            (state.end, state.valid_until)
        };
        match end {
            Some(end) => Err(self.ended(end)),
            None if now < valid_until => Ok(()),
            None => Err(self.lose(Loss::Expired)),
        }
    }

    /// Ends the lease as lost, and says so, unless it has ended before.
    pub(crate) fn lose(&self, cause: Loss) -> Error {
        let lost = End::Lost(cause);
        if self.end(lost) {
            (self.on_loss)(&self.key, self.fence, cause);
        }
        self.ended(lost)
    }

    /// The error of a lease that nobody renews any more: why it is over.
    pub(crate) fn over(&self) -> Error {
        let end = self.state.borrow().end;
        self.ended(end.unwrap_or(End::Stopped))
    }

    /// Ends it by the answer to its release. One that the server no longer had was lost before.
    pub(crate) fn removed(&self, result: &RemoveResult) {
        match result {
            RemoveResult::Removed => _ = self.end(End::Stopped),
            RemoveResult::NotFound => _ = self.lose(Loss::Gone),
            RemoveResult::NotOwner { holder: Some(_) } => _ = self.lose(Loss::Taken),
            RemoveResult::NotOwner { holder: None } => _ = self.lose(Loss::Foreign),
            RemoveResult::Unknown => {}
        }
    }

    fn end(&self, end: End) -> bool {
        self.state.send_if_modified(|state| {
            let ends = state.end.is_none();
            if ends {
                state.end = Some(end);
            }
            ends
        })
    }

    fn ended(&self, end: End) -> Error {
        let why = match end {
            End::Stopped => "it was given up",
            End::Lost(Loss::Expired) => "its time ran out before a renewal succeeded",
            End::Lost(Loss::Gone) => "its key is gone",
            End::Lost(Loss::Taken) => "another owner has it",
            End::Lost(Loss::Foreign) => "something else is stored there",
        };
        Error::lost(format!("the lease {}: {why}", self.key))
    }
}
