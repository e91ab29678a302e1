//! Who gets in, and which rooms are for whom.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, header};
use coord_core::Name;
use coord_engine::Engine;
use coord_engine::model::Queue;
use coord_engine::store::Target;
use coord_ratelimit::{Decision, Limiter, Subject};
use serde::{Deserialize, Serialize};
use socketioxide::SocketIo;
use socketioxide::extract::{AckSender, SocketRef, TryData};
use socketioxide::handler::ConnectHandler as _;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};

use super::rooms::{Asked, Of, Room};
use crate::Access;
use crate::access::{Identity, Need};

/// How many rooms a client may be in: more than a page shows at a time.
const MOST_ROOMS: usize = 64;
/// How many requests of a client may wait for each other.
const MOST_WAITING: usize = 64;

/// Who may hear what. Clones are the same door.
#[derive(Clone)]
pub(crate) struct Door {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    access: Access,
    limiter: Option<Limiter>,
    is_closed: AtomicBool,
}

/// What a client sends to be let in.
#[derive(Deserialize)]
struct Handshake {
    token: Option<String>,
}

/// Why a client does not get what it asks for. The words are those of the HTTP interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    Unauthenticated,
    RoleForbidden,
    NamespaceForbidden,
    OriginForbidden,
    Draining,
    InvalidRequest,
    NotFound,
    TooManyRooms,
    TooManyRequests,
    Unavailable,
}

impl Refusal {
    const fn reason(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::RoleForbidden => "role_forbidden",
            Self::NamespaceForbidden => "namespace_forbidden",
            Self::OriginForbidden => "origin_forbidden",
            Self::Draining => "draining",
            Self::InvalidRequest => "invalid_request",
            Self::NotFound => "not_found",
            Self::TooManyRooms => "too_many_rooms",
            Self::TooManyRequests => "too_many_requests",
            Self::Unavailable => "unavailable",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())
    }
}

/// The answer to a request of a client.
#[derive(Serialize)]
struct Answer {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl From<Result<(), Refusal>> for Answer {
    fn from(done: Result<(), Refusal>) -> Self {
        Self {
            ok: done.is_ok(),
            reason: done.err().map(Refusal::reason),
        }
    }
}

/// A client that was let in.
struct Guest {
    door: Door,
    identity: Identity,
    /// Held while it joins or leaves, so that it is in no more rooms than it may be.
    rooms: Mutex<HashSet<Room>>,
    turns: Semaphore,
}

impl Door {
    pub(crate) fn new(engine: Engine, access: Access, limiter: Option<Limiter>) -> Self {
        let is_closed = AtomicBool::new(false);
        Self {
            inner: Arc::new(Inner {
                engine,
                access,
                limiter,
                is_closed,
            }),
        }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// From here on nobody is let in.
    pub(super) fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Release);
    }

    /// Lets clients in through `io`, once `is_open` says that they will hear of other nodes, or that
    /// they are told when they do not.
    pub(super) fn open(&self, io: &SocketIo, is_open: watch::Receiver<bool>) {
        let door = self.clone();
        let admit = move |client: SocketRef, handshake: TryData<Handshake>| async move {
            let token = handshake.0.ok().and_then(|handshake| handshake.token);
            let headers = &client.req_parts().headers;
            let guest = door.admit(token.as_deref(), headers)?;
            let mut is_open = is_open;
            let opened = is_open.wait_for(|is_open| *is_open).await;
            opened.map_err(|_| Refusal::Draining)?;
            // Before it is let in, so that its first request finds them.
            guest.serve(&client);
            Ok::<_, Refusal>(())
        };
        let welcome = async || {};
        io.ns("/", welcome.with(admit));
    }

    fn admit(&self, token: Option<&str>, headers: &HeaderMap) -> Result<Arc<Guest>, Refusal> {
        let Inner {
            access, is_closed, ..
        } = &*self.inner;
        if is_closed.load(Ordering::Acquire) {
            return Err(Refusal::Draining);
        }
        // A page of anybody, in a browser on this machine, reaches a node that asks for no token.
        let origin = headers.get(header::ORIGIN);
        let origin = origin.map(|origin| origin.to_str().unwrap_or_default());
        if access.is_open() && !origin.is_none_or(is_local) {
            return Err(Refusal::OriginForbidden);
        }
        let identity = access.identify(token).ok_or(Refusal::Unauthenticated)?;
        if !identity.role.may(Need::Read) {
            return Err(Refusal::RoleForbidden);
        }
        Ok(Arc::new(Guest {
            door: self.clone(),
            identity,
            rooms: Mutex::default(),
            turns: Semaphore::new(MOST_WAITING),
        }))
    }
}

impl Guest {
    fn serve(self: Arc<Self>, client: &SocketRef) {
        let guest = Arc::clone(&self);
        client.on(
            "join",
            async move |client: SocketRef, asked: TryData<Asked>, answer: AckSender| {
                let joined = guest.join(&client, asked.0.ok()).await;
                // Who has left has no use for it.
                _ = answer.send(&Answer::from(joined));
            },
        );
        client.on(
            "leave",
            async move |client: SocketRef, asked: TryData<Asked>, answer: AckSender| {
                let left = self.leave(&client, asked.0.ok()).await;
                _ = answer.send(&Answer::from(left));
            },
        );
    }

    /// The room that is asked for, and the turn of this request among those that wait.
    fn asked(&self, asked: Option<Asked>) -> Result<(Room, SemaphorePermit<'_>), Refusal> {
        let turn = self.turns.try_acquire();
        let turn = turn.map_err(|_| Refusal::TooManyRequests)?;
        let room = asked.and_then(Room::read);
        Ok((room.ok_or(Refusal::InvalidRequest)?, turn))
    }

    async fn join(&self, client: &SocketRef, asked: Option<Asked>) -> Result<(), Refusal> {
        let (room, _turn) = self.asked(asked)?;
        if !self.identity.reaches(&room.namespace) {
            return Err(Refusal::NamespaceForbidden);
        }
        self.within_limit().await?;
        let mut rooms = self.rooms.lock().await;
        if rooms.contains(&room) {
            return Ok(());
        }
        if rooms.len() >= MOST_ROOMS {
            return Err(Refusal::TooManyRooms);
        }
        self.is_there(&room).await?;
        client.join(room.name());
        rooms.insert(room);
        Ok(())
    }

    async fn leave(&self, client: &SocketRef, asked: Option<Asked>) -> Result<(), Refusal> {
        let (room, _turn) = self.asked(asked)?;
        if self.rooms.lock().await.remove(&room) {
            client.leave(room.name());
        }
        Ok(())
    }

    /// A request costs as much as one over HTTP.
    async fn within_limit(&self) -> Result<(), Refusal> {
        let Some(limiter) = &self.door.inner.limiter else {
            return Ok(());
        };
        let name = Name::new(&*self.identity.name).map_err(|_| Refusal::InvalidRequest)?;
        match limiter.try_acquire(&Subject::new(&name), 1).await {
            Ok(Decision::Denied { .. }) => Err(Refusal::TooManyRequests),
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal::Unavailable),
        }
    }

    /// A run is heard by who may read its namespace: so it has to be there, and in that one.
    async fn is_there(&self, room: &Room) -> Result<(), Refusal> {
        let Of::Run(run) = &room.of else {
            return Ok(());
        };
        let engine = self.door.engine();
        let client = engine.client(room.namespace.clone(), Queue::default());
        match client.untyped().find(&Target::Run(run.clone())).await {
            Ok(Some(found)) if found.namespace == room.namespace => Ok(()),
            Ok(_) => Err(Refusal::NotFound),
            Err(_) => Err(Refusal::Unavailable),
        }
    }
}

/// Whether a page of this machine asks.
fn is_local(origin: &str) -> bool {
    let Some((_, host)) = origin.split_once("://") else {
        return false;
    };
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    let host = host.unwrap_or_default();
    let ip = host.parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_this_machine_is_told_from_others() {
        for local in [
            "http://localhost:3000",
            "http://127.0.0.1",
            "https://127.0.0.2:1",
            "http://[::1]:8080",
        ] {
            assert!(is_local(local), "{local}");
        }
        for other in [
            "https://example.com",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com:80",
            "http://10.0.0.1",
            "null",
            "",
        ] {
            assert!(!is_local(other), "{other}");
        }
    }
}
