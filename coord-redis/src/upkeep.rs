//! One thread of our own for what must go on while the caller's runtime is busy: renewals,
//! releases in the background, subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coord_core::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot, watch};

/// The thread and its runtime. It ends when this is dropped; what is spawned on it ends with it.
pub(crate) struct Upkeep {
    runtime: Handle,
    pending: Arc<Pending>,
    closed: watch::Sender<bool>,
    /// Dropping it stops the thread.
    _stop: oneshot::Sender<()>,
}

#[derive(Default)]
struct Pending {
    count: AtomicUsize,
    none: Notify,
}

impl Upkeep {
    pub(crate) fn start() -> Result<Self> {
        let cannot = |error: std::io::Error| {
            Error::unavailable("starting the upkeep thread").with_source(error)
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        std::thread::Builder::new()
            .name("coord-upkeep".to_owned())
            .spawn(move || {
                // It ends by the drop of the sender: an error is the normal end.
                _ = runtime.block_on(stopped);
            })
            .map_err(cannot)?;
        Ok(Self {
            runtime: handle,
            pending: Arc::default(),
            closed: watch::Sender::new(false),
            _stop: stop,
        })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Runs `work` on the thread; [`drained`](Self::drained) waits for it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let pending = Pending::enter(&self.pending);
        let mut closed = self.closed.subscribe();
        self.runtime.spawn(async move {
            let _pending = pending;
            tokio::select! {
                // First, so that work which comes too late can say that it failed.
                biased;
                () = work => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        });
    }

    /// Ends what is still under way, and what is spawned from now on where it has to wait.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Waits until all spawned work is done, at most for `grace`; says whether it is.
    pub(crate) async fn drained(&self, grace: Duration) -> bool {
        let drained = async {
            loop {
                let none = self.pending.none.notified();
                if self.pending.count.load(Ordering::Acquire) == 0 {
                    return;
                }
                none.await;
            }
        };
        tokio::time::timeout(grace, drained).await.is_ok()
    }
}

impl Pending {
    fn enter(pending: &Arc<Self>) -> Entered {
        pending.count.fetch_add(1, Ordering::AcqRel);
        Entered(Arc::clone(pending))
    }
}

/// One piece of work under way, whether it ends, panics or is dropped.
struct Entered(Arc<Pending>);

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}
