//! The control plane of a node, for those who want to look at the run from outside.

use std::net::SocketAddr;

use coord_core::{Error, Result};
use coord_engine::Engine;
use coord_redis::Redis;
use coord_server::{Access, Node};
use tokio::net::TcpListener;

use crate::LIFE;
use crate::said::{Event, say};

/// Serves HTTP, if it was asked to.
pub(crate) struct ControlPlane(Option<(TcpListener, Node)>);

impl ControlPlane {
    /// Listens, and says where.
    ///
    /// # Errors
    /// `Unavailable` if it cannot listen there.
    pub(crate) async fn bind(
        address: Option<SocketAddr>,
        engine: &Engine,
        redis: Option<&Redis>,
    ) -> Result<Self> {
        let Some(address) = address else {
            return Ok(Self(None));
        };
        let busy = |error| Error::unavailable(format!("listening on {address}")).with_source(error);
        let listener = TcpListener::bind(address).await.map_err(busy)?;
        let address = listener.local_addr().map_err(busy)?;
        say(&Event::Serving { address });
        let mut node = Node::builder(engine.clone(), Access::open());
        if let Some(redis) = redis {
            node = node.redis(redis.clone());
        }
        Ok(Self(Some((listener, node.build()))))
    }

    /// Serves until `end`.
    ///
    /// # Errors
    /// `Timeout` if requests were still under way long after it.
    pub(crate) async fn serve(self, end: impl Future<Output = ()>) -> Result<()> {
        match self.0 {
            Some((listener, node)) => coord_server::serve(&node, listener, end, LIFE * 2).await,
            None => Ok(()),
        }
    }
}

pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "it is an address and a port, such as 127.0.0.1:0".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("it asks nobody for a token, so it serves this machine alone".to_owned())
    }
}
