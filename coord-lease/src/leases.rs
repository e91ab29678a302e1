//! The leases of one client.

use std::sync::Arc;

use coord_redis::{Kept, Redis};

use crate::engine::Engine;
use crate::hold::{Grant, Hold};
use crate::signals::SIGNALS;

/// The leases that one [`Redis`] client claims, renews and reads. Clones, and all that are made
/// for one client, share one renewal.
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

    /// Takes a lease that a script granted into the renewal: for services with grants of their
    /// own, in the [stored form](crate::format).
    ///
    /// It is renewed at a third of its TTL, on a thread of its own, together with all leases of
    /// this client.
    pub fn hold(&self, grant: Grant) -> Hold {
        self.engine.hold(grant)
    }
}
