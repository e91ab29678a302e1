//! The end of the process, for whoever waits for it.

use coord_core::{Error, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// It comes with SIGTERM or SIGINT.
#[derive(Clone)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    #[expect(
        clippy::disallowed_methods,
        reason = "the task ends with the process it ends"
    )]
    pub(crate) fn on_signals() -> Result<Self> {
        let cannot =
            |error: std::io::Error| Error::unavailable("waiting for signals").with_source(error);
        let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        let (end, ended) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            end.send_replace(true);
            // Kept alive, so that nobody takes its end for the signal.
            std::future::pending::<()>().await;
        });
        Ok(Self(ended))
    }

    pub(crate) fn wait(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.0.clone();
        async move {
            // The sender goes with the task that waits for the signal, at the very end.
            _ = ended.wait_for(|ended| *ended).await;
        }
    }
}
