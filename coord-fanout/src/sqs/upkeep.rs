//! A thread for what must go on while the caller's runtime is busy: the extensions.

use coord_core::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The thread and its runtime. It ends when this is dropped; what runs on it ends with it.
#[derive(Debug)]
pub(super) struct Upkeep {
    runtime: Handle,
    /// Dropping it stops the thread.
    _stop: oneshot::Sender<()>,
}

impl Upkeep {
    pub(super) fn start() -> Result<Self> {
        let cannot = |error: std::io::Error| {
            Error::unavailable("starting the upkeep thread").with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        std::thread::Builder::new()
            .name("coord-sqs".to_owned())
            .spawn(move || {
                // It ends by the drop of the sender: an error is the normal end.
                _ = runtime.block_on(stopped);
            })
            .map_err(cannot)?;
        Ok(Self {
            runtime: handle,
            _stop: stop,
        })
    }

    pub(super) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }
}
