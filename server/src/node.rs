//! What the routes work on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coord_engine::Engine;

/// A node of the cluster: its engine, and whether it takes traffic. Clones are the same node.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    is_draining: AtomicBool,
}

impl Node {
    /// A node on `engine`.
    pub fn new(engine: Engine) -> Self {
        Self {
            inner: Arc::new(Inner {
                engine,
                is_draining: AtomicBool::new(false),
            }),
        }
    }

    /// The engine of this process.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// From here on it says that it is not ready, so that a load balancer sends its traffic
    /// elsewhere. What arrives nevertheless is answered.
    pub fn drain(&self) {
        self.inner.is_draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.inner.is_draining.load(Ordering::Acquire)
    }
}
