//! The clients of this node, and how they are told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use socketioxide::SocketIo;
use socketioxide::extract::SocketRef;
use socketioxide::socket::Sid;

use super::event::{MISSED, Missed, RUN, RunEvent};
use super::rooms::Room;
use crate::signals::{Cause, Signal};

/// Where Socket.IO clients meet.
const PATH: &str = "/";

/// All clients of this node. Clones are the same.
#[derive(Clone)]
pub(super) struct Hall {
    io: SocketIo,
    /// Who was too slow, and how much it missed so far without being told.
    slow: Arc<Mutex<HashMap<Sid, u64>>>,
}

impl Hall {
    pub(super) fn new(io: SocketIo) -> Self {
        Self {
            io,
            slow: Arc::default(),
        }
    }

    /// Tells those who want to hear of it.
    pub(super) fn tell(&self, event: &RunEvent) {
        let Some(clients) = self.io.of(PATH) else {
            return;
        };
        let clients = clients.to(Room::of_event(event)).sockets();
        let slow = clients
            .iter()
            .filter(|client| !self.send(client, RUN, event));
        let missed = slow.count() as u64;
        if missed > 0 {
            let cause = Cause::SlowClient;
            Signal::Missed { cause, missed }.emit();
        }
    }

    /// Tells everybody that news are missing, and how many if that is known.
    pub(super) fn tell_missed(&self, cause: Cause, count: Option<u64>) {
        let missed = count.unwrap_or(1);
        Signal::Missed { cause, missed }.emit();
        if let Some(clients) = self.io.of(PATH) {
            for client in clients.sockets() {
                self.send(&client, MISSED, &Missed { count });
            }
        }
    }

    /// Tells those what they missed who were too slow and now take it. Whether all were told.
    pub(super) fn tell_slow(&self) -> bool {
        let Some(clients) = self.io.of(PATH) else {
            return true;
        };
        let waiting: Vec<_> = self.slow().keys().copied().collect();
        let all = clients.sockets();
        for id in waiting {
            match all.iter().find(|client| client.id == id) {
                Some(client) => _ = self.catch_up(client),
                None => _ = self.slow().remove(&id),
            }
        }
        self.slow().is_empty()
    }

    /// Sends `data` to `client`, unless it is too slow for that.
    fn send(&self, client: &SocketRef, name: &str, data: &impl Serialize) -> bool {
        let is_sent = self.catch_up(client) && client.emit(name, data).is_ok();
        // Who has left misses nothing.
        if !is_sent && client.connected() {
            *self.slow().entry(client.id).or_default() += 1;
        }
        is_sent || !client.connected()
    }

    /// Tells `client` first what it missed, if it was too slow. Whether it takes more.
    fn catch_up(&self, client: &SocketRef) -> bool {
        let Some(missed) = self.slow().get(&client.id).copied() else {
            return true;
        };
        let missed = Missed {
            count: Some(missed),
        };
        let is_sent = client.emit(MISSED, &missed).is_ok();
        if is_sent {
            self.slow().remove(&client.id);
        }
        is_sent
    }

    fn slow(&self) -> std::sync::MutexGuard<'_, HashMap<Sid, u64>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes all connections.
    pub(super) async fn close(&self) {
        self.io.close().await;
    }
}
