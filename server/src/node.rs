//! What the routes work on.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use coord_core::Result;
use coord_engine::Engine;
use coord_engine::model::{Ids, RequestId, WorkflowId};
use coord_ratelimit::Limiter;
use coord_redis::Redis;

use crate::Access;
use crate::beside::{Ending, Work};
#[cfg(feature = "realtime")]
use crate::realtime::{Door, Realtime};

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
    beside: Mutex<Vec<Work>>,
    #[cfg(feature = "realtime")]
    realtime: Option<Realtime>,
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
            beside: Vec::new(),
            #[cfg(feature = "realtime")]
            is_realtime: false,
        }
    }

    /// The engine of this process.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// From here on it says that it is not ready, so that a load balancer sends its traffic
    /// elsewhere, and lets no Socket.IO client in. What else arrives nevertheless is answered. Said
    /// again it changes nothing.
    pub fn drain(&self) {
        self.inner.is_draining.store(true, Ordering::Release);
        #[cfg(feature = "realtime")]
        if let Some(realtime) = &self.inner.realtime {
            realtime.close_door();
        }
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

    /// What is to run beside it, once.
    pub(crate) fn take_beside(&self) -> Vec<Work> {
        let beside = self.inner.beside.lock();
        mem::take(&mut *beside.unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(feature = "realtime")]
    pub(crate) fn realtime(&self) -> Option<&Realtime> {
        self.inner.realtime.as_ref()
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
    beside: Vec<Work>,
    #[cfg(feature = "realtime")]
    is_realtime: bool,
}

impl NodeBuilder {
    /// Shows and releases the locks and leases in `redis`, which [`serve`](crate::serve) shuts down
    /// last. Default: it knows of none.
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

    /// Runs `work` beside the node while [`serve`](crate::serve) does: workers, consumers of queues,
    /// ticks. It is to end once it is told so: then requests are answered, and the engine and Redis
    /// are still there. Work that fails ends the node.
    ///
    /// ```
    /// # use coord_engine::{Engine, flow::{Context, Workflow}, model::{Failure, Namespace, Queue}};
    /// # const ECHO: Workflow<u32, u32> = Workflow::new("echo");
    /// # async fn echo(_: Context, number: u32) -> Result<u32, Failure> { Ok(number) }
    /// # fn node(engine: &Engine, node: coord_server::NodeBuilder) -> coord_server::NodeBuilder {
    /// let worker = engine.worker(Namespace::default(), Queue::default());
    /// let worker = worker.workflow(ECHO, echo).start();
    /// let node = node.beside(async |ending| {
    ///     worker.shutdown(ending.told().await).await;
    ///     Ok(())
    /// });
    /// # node
    /// # }
    /// ```
    pub fn beside<F>(mut self, work: impl FnOnce(Ending) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.beside
            .push(Box::new(move |ending| Box::pin(work(ending))));
        self
    }

    /// Tells Socket.IO clients what happens to runs, and through Redis, if it has one, those of other
    /// nodes under the same key prefix. Default: it does not.
    #[cfg(feature = "realtime")]
    pub const fn realtime(mut self) -> Self {
        self.is_realtime = true;
        self
    }

    /// The node. In a runtime of Tokio.
    pub fn build(self) -> Node {
        #[cfg(feature = "realtime")]
        let realtime = self.is_realtime.then(|| {
            let (engine, access) = (self.engine.clone(), self.access.clone());
            let door = Door::new(engine, access, self.limiter.clone());
            Realtime::begin(door, self.redis.as_ref())
        });
        Node {
            inner: Arc::new(Inner {
                engine: self.engine,
                access: self.access,
                redis: self.redis,
                limiter: self.limiter,
                metrics: self.metrics,
                beside: Mutex::new(self.beside),
                #[cfg(feature = "realtime")]
                realtime,
                ids: Ids::random(),
                is_draining: AtomicBool::new(false),
            }),
        }
    }
}
