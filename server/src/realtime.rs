//! News of runs over Socket.IO, for browsers and whoever else speaks it.
//!
//! Each node tells its own clients what it has committed, and has it broadcast to the other nodes,
//! which tell theirs. So a node needs no memory of who is connected where, its own clients hear of
//! its own work while Redis is away, and what is missed is known and told.

mod door;
mod event;
mod hall;
mod rooms;
mod spread;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coord_redis::Redis;
use socketioxide::layer::SocketIoLayer;
use socketioxide::{SocketIo, TransportType};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::signals::SIGNALS;
pub(crate) use door::Door;
use hall::Hall;

/// The largest packet that a client may send: far above what it has to say.
const MOST_BYTES: usize = 16 * 1024;
/// How many packets may wait for a client before it is too slow.
const BUFFERED: usize = 512;
/// How long a connection may take to say who it is.
const ADMISSION: Duration = Duration::from_secs(10);

/// The Socket.IO side of a node.
pub(crate) struct Realtime {
    layer: SocketIoLayer,
    hall: Hall,
    door: Door,
    spreading: Mutex<JoinSet<()>>,
}

impl Realtime {
    /// Begins to tell what `door`'s engine commits: to clients here, and through `redis` to those of
    /// other nodes.
    pub(crate) fn begin(door: Door, redis: Option<&Redis>) -> Self {
        coord_core::signals::register(SIGNALS);
        // By WebSocket alone: the requests of long polling would reach different nodes.
        let (layer, io) = SocketIo::builder()
            .transports([TransportType::Websocket])
            .max_payload(MOST_BYTES as u64)
            .ws_max_message_size(MOST_BYTES)
            .ws_max_frame_size(MOST_BYTES)
            .max_buffer_size(BUFFERED)
            .connect_timeout(ADMISSION)
            .build_layer();
        let (opens, is_open) = watch::channel(false);
        door.open(&io, is_open);
        let hall = Hall::new(io);
        let mut spreading = JoinSet::new();
        spread::begin(&mut spreading, (&door, &hall), redis, opens);
        Self {
            layer,
            hall,
            door,
            spreading: Mutex::new(spreading),
        }
    }

    /// What takes the requests of Socket.IO, under `/socket.io`.
    pub(crate) fn layer(&self) -> SocketIoLayer {
        self.layer.clone()
    }

    /// Lets nobody in any more.
    pub(crate) fn close_door(&self) {
        self.door.close();
    }

    /// Closes all connections, on which clients connect elsewhere, and tells nothing more.
    pub(crate) async fn end(&self, within: Duration) {
        self.close_door();
        // A client that does not read may keep its connection from closing; it ends with the process.
        _ = tokio::time::timeout(within, self.hall.close()).await;
        let spreading = self.spreading.lock();
        let mut spreading = std::mem::take(&mut *spreading.unwrap_or_else(PoisonError::into_inner));
        spreading.shutdown().await;
    }
}
