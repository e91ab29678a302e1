//! What the routes work on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coord_engine::Engine;
use coord_engine::model::{Ids, RequestId, WorkflowId};
use coord_ratelimit::Limiter;
use coord_redis::Redis;

use crate::Access;

/// A node of the cluster: its engine, who may call it, and whether it takes traffic. Clones are the
/// same node.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    access: Access,
    redis: Option<Redis>,
    limiter: Option<Limiter>,
    metrics: Option<Render>,
    ids: Ids,
    is_draining: AtomicBool,
}

type Render = Box<dyn Fn() -> String + Send + Sync>;

impl Node {
    /// A node on `engine` for those whom `access` knows, to be told what else it has and then built.
    pub const fn builder(engine: Engine, access: Access) -> NodeBuilder {
        NodeBuilder {
            engine,
            access,
            redis: None,
            limiter: None,
            metrics: None,
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

    pub(crate) fn access(&self) -> &Access {
        &self.inner.access
    }

    pub(crate) fn redis(&self) -> Option<&Redis> {
        self.inner.redis.as_ref()
    }

    pub(crate) fn limiter(&self) -> Option<&Limiter> {
        self.inner.limiter.as_ref()
    }

    pub(crate) fn has_metrics(&self) -> bool {
        self.inner.metrics.is_some()
    }

    pub(crate) fn render_metrics(&self) -> String {
        self.inner
            .metrics
            .as_ref()
            .map_or_else(String::new, |render| render())
    }

    /// An id for what a caller named nothing.
    pub(crate) fn make_id(&self) -> WorkflowId {
        self.inner.ids.workflow()
    }

    /// An id for a command whose caller gave none.
    pub(crate) fn make_request(&self) -> RequestId {
        self.inner.ids.request()
    }
}

/// A node to be.
#[must_use = "it is no node before it is built"]
pub struct NodeBuilder {
    engine: Engine,
    access: Access,
    redis: Option<Redis>,
    limiter: Option<Limiter>,
    metrics: Option<Render>,
}

impl NodeBuilder {
    /// Shows and releases the locks and leases in `redis`. Default: it knows of none.
    pub fn redis(mut self, redis: Redis) -> Self {
        self.redis = Some(redis);
        self
    }

    /// Takes a permit of `limiter` for each request, each token by itself. Default: no limit.
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Serves what `render` writes, in the text format of Prometheus, under `/metrics`. Default:
    /// there is no such route.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Box::new(render));
        self
    }

    /// The node.
    pub fn build(self) -> Node {
        Node {
            inner: Arc::new(Inner {
                engine: self.engine,
                access: self.access,
                redis: self.redis,
                limiter: self.limiter,
                metrics: self.metrics,
                ids: Ids::random(),
                is_draining: AtomicBool::new(false),
            }),
        }
    }
}
