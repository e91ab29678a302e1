//! A thread and database connections of our own for what must go on while this process is busy:
//! heartbeats and renewals.
//!
//! A service whose runtime is occupied, or whose connections are all taken, still holds what it
//! has: it is slow, and to be taken for dead would have others do its work once more.

use std::sync::Arc;

use coord_core::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::store::Store;

/// Where heartbeats and renewals run. Dropped, the thread ends, and what runs on it.
pub(crate) struct Aside {
    runtime: Handle,
    store: Arc<dyn Store>,
    is_apart: bool,
    /// Dropping it stops the thread.
    _stop: oneshot::Sender<()>,
}

impl Aside {
    /// Beside the work on `store`; among it, on the caller's runtime, when the calls of that store
    /// wait for nothing.
    pub(crate) fn start(store: &Arc<dyn Store>) -> Result<Self> {
        let cannot = |error: std::io::Error| {
            Error::unavailable("starting the thread for heartbeats").with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(cannot)?;
        let (stop, stopped) = oneshot::channel();
        // Its connections belong to the runtime on which they are opened.
        let apart = {
            let _context = runtime.enter();
            store.apart()
        };
        let Some(apart) = apart else {
            runtime.shutdown_background();
            return Ok(Self {
                runtime: Handle::current(),
                store: Arc::clone(store),
                is_apart: false,
                _stop: stop,
            });
        };
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("coord-engine".to_owned())
            .spawn(move || {
                // It ends by the drop of the sender: an error is the normal end.
                _ = runtime.block_on(stopped);
            })
            .map_err(cannot)?;
        Ok(Self {
            runtime: handle,
            store: apart,
            is_apart: true,
            _stop: stop,
        })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether it is another thread than the caller's.
    pub(crate) const fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// The database, through the connections of the thread. To be called on its runtime alone.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
