//! The HTTP server of a node.

use std::time::Duration;

use coord_core::{Error, Result};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::{Node, router};

/// Serves `node` on `listener` until `end` is ready. Then it says that it is not ready, accepts no
/// more connections, and answers what it has accepted, for at most `drain`.
///
/// # Errors
/// `Timeout` when requests were still under way after `drain`; their connections are closed.
///
/// # Cancel safety
/// Dropped, all connections are closed.
pub async fn serve(
    node: &Node,
    listener: TcpListener,
    end: impl Future<Output = ()> + Send + 'static,
    drain: Duration,
) -> Result<()> {
    let (draining, drained) = oneshot::channel();
    let told = node.clone();
    let server = axum::serve(listener, router(node)).with_graceful_shutdown(async move {
        end.await;
        told.drain();
        _ = draining.send(());
    });
    let overdue = async {
        if drained.await.is_err() {
            // The server has ended by itself, and says why.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        served = server.into_future() => {
            served.map_err(|error| Error::unavailable("serving HTTP").with_source(error))
        }
        () = overdue => Err(Error::timeout(format!(
            "ending: requests were still under way after {drain:?}"
        ))),
    }
}
