//! The leases of one client.

use std::fmt;
use std::sync::Arc;

use coord_core::{Error, FencingToken, Key, Name, Result, Ttl};
use coord_redis::{Kept, Receipt, Redis, Reply};

use crate::claim::{Claim, Pending};
use crate::engine::Engine;
use crate::format;
use crate::hold::{Grant, Hold};
use crate::lease::{self, RemoveResult};
use crate::list;
use crate::signals::{Operation, SIGNALS, Signal, reported};
use crate::{Holder, Owner};

/// The kind of key that the leases of this crate are; locks and ticks have their own.
const KIND: &str = "lease";

/// The leases that one [`Redis`] client claims, renews and reads.
///
/// Clones, and all that are made for one client, share one renewal.
#[derive(Clone)]
pub struct Leases {
    engine: Arc<Engine>,
}

impl Leases {
    /// The leases in the space of `redis`. Nothing runs before the first one is held.
    pub fn new(redis: &Redis) -> Self {
        coord_core::signals::register(SIGNALS);
        redis.keeps(Kept::Leases);
        Self {
            engine: redis.shared(|| Engine::new(redis.clone())),
        }
    }

    /// Claims `resource` for `owner`, or says who holds it.
    ///
    /// It is sent again within the client's deadline when its connection breaks, with the same
    /// token: it is never held up by itself, and gets one fence. What is claimed is renewed at a
    /// third of its TTL until the lease is released, dropped or lost.
    ///
    /// # Errors
    /// `Unavailable`: not claimed. `Timeout`: there was no answer, or it came when the lease could
    /// have ended already; what may have been claimed is released in the background, and
    /// [`prepare`](Self::prepare) is for finding out instead. `Corrupt`: something that is no
    /// lease is stored there, and stays.
    ///
    /// # Cancel safety
    /// Safe: what a dropped claim may have claimed is released in the background.
    pub async fn claim(&self, resource: &Name, owner: &Owner, ttl: Ttl) -> Result<Claim> {
        self.prepare(resource, owner, ttl).claim().await
    }

    /// A claim that can be made again with the same token when its outcome is unknown.
    pub fn prepare(&self, resource: &Name, owner: &Owner, ttl: Ttl) -> Pending {
        Pending::new(self.clone(), self.key(resource), owner.encode(), ttl)
    }

    /// Takes a lease that a script granted into the renewal: for services with grants of their
    /// own, in the [stored form](crate::format).
    ///
    /// It is renewed at a third of its TTL, on a thread of its own, together with all leases of
    /// this client.
    pub fn hold(&self, grant: Grant) -> Hold {
        self.engine.hold(grant)
    }

    /// Who holds `resource`, if anybody does.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout`: it is unknown. `Corrupt`: something that is no lease is stored
    /// there.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn inspect(&self, resource: &Name) -> Result<Option<Holder>> {
        let key = self.key(resource);
        let inspect = async {
            let [found] = list::read(self.redis(), &[&key]).await?.array()?;
            match found {
                Reply::Int(_) => Err(Error::corrupt(format!("{key} holds no lease"))),
                found => found.optional().map(Holder::from_reply).transpose(),
            }
        };
        reported(Operation::Inspect, inspect.await)
    }

    /// All resources whose names start with `start` and that are held, with their holders: for
    /// operators. It walks over the whole key space in small steps; what is claimed or released
    /// meanwhile may be missing or there, and what is no lease is left out.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout`.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn list(&self, start: &str) -> Result<Vec<(Name, Holder)>> {
        let held = list::held(self.redis(), KIND, start).await;
        reported(Operation::List, held)
    }

    /// Ends the grant of `resource` that has this `fence`, whoever holds it: for operators, who
    /// have it from [`inspect`](Self::inspect). A later grant is left alone. The holder finds its
    /// lease lost at its next renewal, and may act until then: only the fence stops it.
    ///
    /// The signal `redis.resource_lease.evicted` says so, with the name `by`.
    ///
    /// # Errors
    /// `Unavailable`: not evicted. `Timeout`: it is unknown; another call tells. `Corrupt`:
    /// something that is no lease is stored there, and stays.
    ///
    /// # Cancel safety
    /// Safe to call again. A dropped call may have evicted the holder without the signal.
    pub async fn evict(
        &self,
        resource: &Name,
        fence: FencingToken,
        by: &Name,
    ) -> Result<RemoveResult> {
        let key = self.key(resource);
        let attempts = Receipt::default();
        let removal = lease::remove(&key, &format::record(&key), lease::By::Fence(fence));
        let answer = self.redis().run(&removal.receipt(&attempts)).await;
        let result = RemoveResult::of(answer, &attempts);
        if let Ok(RemoveResult::Removed) = result {
            let (lease, by) = (key, by.clone());
            Signal::Evicted { lease, fence, by }.emit();
        }
        reported(Operation::Evict, result)
    }

    pub(crate) fn redis(&self) -> &Redis {
        self.engine.redis()
    }

    fn key(&self, resource: &Name) -> Key {
        self.redis().keys().key(KIND, &[resource])
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Leases").field(self.redis()).finish()
    }
}
