//! A TCP proxy that breaks connections at the instant a test asks for.
//!
//! It reads the RESP frames that pass, so it knows which reply belongs to which request: it can
//! lose exactly the reply to a claim that was executed, or hold a claim before the server sees it.
//! Bytes of another protocol, such as TLS, pass as they come; only the faults that concern a
//! whole connection apply to them. On a connection with RESP2 subscriptions replies cannot be
//! counted, so no reply should be lost or held there.
//!
//! | fault | what the client sees |
//! |---|---|
//! | [`cut`](FaultProxy::cut) | its connections end, the next one works |
//! | [`refuse`](FaultProxy::refuse) | no new connection; the open ones work |
//! | [`hole`](FaultProxy::hole) | silence, on new connections too |
//! | [`delay`](FaultProxy::delay) | everything works, late |
//! | [`lose_next_reply`](FaultProxy::lose_next_reply) | its connection ends after the request was executed |
//! | [`cut_before`](FaultProxy::cut_before) | its connection ends, the request was never executed |
//! | [`hold_request`](FaultProxy::hold_request), [`hold_reply`](FaultProxy::hold_reply) | silence until the test lets go |

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{child::between_forks, ports, wait};

mod connection;
mod framing;
mod rules;

use rules::{Action, Rules};
pub use rules::{Hold, Seen};

/// Losing this many races for a port in a row means that something else is wrong.
const PORT_TRIES: u32 = 8;
/// Closing and opening sockets on loopback takes no time to speak of.
const CHANGE_WITHIN: Duration = Duration::from_secs(10);

/// What is broken right now.
#[derive(Clone, Copy, Default)]
struct Faults {
    hole_up: bool,
    hole_down: bool,
    delay_up: Duration,
    delay_down: Duration,
    refuse: bool,
    /// Connections of an earlier generation are to end.
    generation: u64,
}

/// What the proxy and its connections share.
struct Shared {
    upstream: SocketAddr,
    faults: watch::Sender<Faults>,
    rules: Rules,
    /// Bytes vanished in a hole: what follows them would be read as the answer to something else.
    dropped: AtomicBool,
    made: AtomicUsize,
    live: watch::Sender<usize>,
    /// A copy is with every connection of the current generation.
    tokens: Mutex<Tokens>,
}

/// Closes when the last holder of a token is gone.
struct Tokens {
    token: mpsc::Sender<()>,
    gone: mpsc::Receiver<()>,
}

impl Tokens {
    fn new() -> Self {
        let (token, gone) = mpsc::channel(1);
        Self { token, gone }
    }
}

/// A proxy on loopback; dropping it closes its port and its connections.
pub struct FaultProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    listening: watch::Receiver<bool>,
    _acceptor: JoinSet<()>,
}

impl FaultProxy {
    /// Listens on a free port and passes everything on to `upstream`.
    ///
    /// A connection is accepted even if `upstream` then refuses it; it is closed at once.
    ///
    /// # Panics
    /// When no port can be had.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn start(upstream: SocketAddr) -> Self {
        for _ in 0..PORT_TRIES {
            let addr = ports::loopback(ports::free());
            if let Ok(listener) = TcpListener::bind(addr).await {
                return Self::with(listener, addr, upstream);
            }
        }
        panic!("no port for a proxy in {PORT_TRIES} tries")
    }

    fn with(listener: TcpListener, addr: SocketAddr, upstream: SocketAddr) -> Self {
        let shared = Arc::new(Shared {
            upstream,
            faults: watch::Sender::default(),
            rules: Rules::default(),
            dropped: AtomicBool::new(false),
            made: AtomicUsize::new(0),
            live: watch::Sender::new(0),
            tokens: Mutex::new(Tokens::new()),
        });
        let (opened, listening) = watch::channel(true);
        // The proxy owns its acceptor, and the acceptor its connections.
        let mut acceptor = JoinSet::new();
        acceptor.spawn(accept(listener, addr, Arc::clone(&shared), opened));
        Self {
            addr,
            shared,
            listening,
            _acceptor: acceptor,
        }
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The port of [`addr`](Self::addr).
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// How many connections were ever accepted.
    pub fn connections_made(&self) -> usize {
        self.shared.made.load(Ordering::SeqCst)
    }

    /// How many connections are open. One that a client closes during a hole stays open, because
    /// the server never hears of it.
    pub fn live_connections(&self) -> usize {
        *self.shared.live.borrow()
    }

    /// Closes all connections; they are closed when this returns.
    ///
    /// # Cancel safety
    /// Safe: they will be closed.
    pub async fn cut(&self) {
        let mut old = {
            let mut tokens = self.shared.tokens();
            self.shared
                .faults
                .send_modify(|faults| faults.generation += 1);
            std::mem::replace(&mut *tokens, Tokens::new())
        };
        drop(old.token);
        let closed = tokio::time::timeout(CHANGE_WITHIN, old.gone.recv()).await;
        closed.expect("the proxy's runtime runs its connections");
        // Nor does a half-born child have a copy of their sockets.
        between_forks(|| ());
    }

    /// Closes the port, so that new connections are refused. Open ones go on.
    ///
    /// # Cancel safety
    /// Safe: the port will be closed.
    pub async fn refuse(&self) {
        self.shared
            .faults
            .send_modify(|faults| faults.refuse = true);
        self.listening_is(false).await;
    }

    /// Swallows all bytes both ways and closes nothing. New connections are accepted and never
    /// answered; the server hears of none of this.
    pub fn hole(&self) {
        self.shared.faults.send_modify(|faults| {
            faults.hole_up = true;
            faults.hole_down = true;
        });
    }

    /// Swallows what clients send.
    pub fn hole_up(&self) {
        self.shared
            .faults
            .send_modify(|faults| faults.hole_up = true);
    }

    /// Swallows what the server sends: requests are executed, and nobody learns of it.
    pub fn hole_down(&self) {
        self.shared
            .faults
            .send_modify(|faults| faults.hole_down = true);
    }

    /// Waits until bytes have vanished in a hole.
    ///
    /// # Panics
    /// When nobody sends any.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn swallows(&self) {
        wait::eventually(CHANGE_WITHIN, "bytes vanish in the hole", || async {
            self.shared.dropped.load(Ordering::SeqCst)
        })
        .await;
    }

    /// Delays every request by `time`, and every reply by as much again.
    pub fn delay(&self, time: Duration) {
        self.delay_requests(time);
        self.delay_replies(time);
    }

    /// Delays every request by `time`.
    pub fn delay_requests(&self, time: Duration) {
        self.shared
            .faults
            .send_modify(|faults| faults.delay_up = time);
    }

    /// Delays every reply by `time`.
    pub fn delay_replies(&self, time: Duration) {
        self.shared
            .faults
            .send_modify(|faults| faults.delay_down = time);
    }

    /// Resolves when the next request that contains `bytes` was passed on to the server.
    ///
    /// It is watched for from this call on, not from the first poll.
    pub fn next_request_containing(&self, bytes: impl AsRef<[u8]>) -> Seen {
        self.shared.rules.watch(bytes.as_ref(), Action::Pass)
    }

    /// Passes the next request on, and closes its connection instead of passing its reply back.
    ///
    /// A fresh connection may begin with requests of the client library;
    /// [`lose_reply_to`](Self::lose_reply_to) tells them from the one that is meant.
    ///
    /// Ignoring the returned future leaves the fault armed.
    #[expect(
        clippy::must_use_candidate,
        reason = "the fault is armed, whether awaited or not"
    )]
    pub fn lose_next_reply(&self) -> Seen {
        self.lose_reply_to(b"")
    }

    /// Passes the next request that contains `bytes` on, and closes its connection instead of
    /// passing its reply back. Replies to earlier requests pass.
    ///
    /// The returned future resolves when the request has been executed and the connection closed;
    /// ignoring it leaves the fault armed.
    pub fn lose_reply_to(&self, bytes: impl AsRef<[u8]>) -> Seen {
        self.shared.rules.watch(bytes.as_ref(), Action::LoseReply)
    }

    /// Closes the connection of the next request that contains `bytes`, and never passes it on.
    ///
    /// Ignoring the returned future leaves the fault armed.
    pub fn cut_before(&self, bytes: impl AsRef<[u8]>) -> Seen {
        self.shared.rules.watch(bytes.as_ref(), Action::Cut)
    }

    /// Keeps the next request that contains `bytes`, and what its connection sends after it, until
    /// the returned hold is released or dropped.
    #[must_use = "dropping the hold releases it"]
    pub fn hold_request(&self, bytes: impl AsRef<[u8]>) -> Hold {
        self.shared.rules.hold(bytes.as_ref(), Action::HoldRequest)
    }

    /// Keeps the reply to the next request that contains `bytes`, and what the server sends on
    /// that connection after it, until the returned hold is released or dropped.
    #[must_use = "dropping the hold releases it"]
    pub fn hold_reply(&self, bytes: impl AsRef<[u8]>) -> Hold {
        self.shared.rules.hold(bytes.as_ref(), Action::HoldReply)
    }

    /// Ends every fault: what is armed is disarmed, the port is open when this returns. Only what
    /// is held already waits for the release of its hold.
    ///
    /// After a hole that swallowed bytes all connections are cut first. Going on with them would
    /// take one answer for another, which no real network does.
    ///
    /// # Cancel safety
    /// Unsafe: some faults may remain. Another call ends them.
    pub async fn heal(&self) {
        self.shared.rules.clear();
        if self.shared.dropped.swap(false, Ordering::SeqCst) {
            self.cut().await;
        }
        self.shared.faults.send_modify(|faults| {
            *faults = Faults {
                generation: faults.generation,
                ..Faults::default()
            };
        });
        self.listening_is(true).await;
    }

    async fn listening_is(&self, wanted: bool) {
        let mut listening = self.listening.clone();
        let changed = listening.wait_for(|&now| now == wanted);
        let changed = tokio::time::timeout(CHANGE_WITHIN, changed).await;
        changed
            .expect("the proxy's port can be had again")
            .expect("the acceptor never ends");
    }
}

impl Shared {
    fn tokens(&self) -> std::sync::MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts until it is dropped, with pauses while connections are refused.
async fn accept(
    listener: TcpListener,
    addr: SocketAddr,
    shared: Arc<Shared>,
    open: watch::Sender<bool>,
) {
    let mut listener = Some(listener);
    let mut faults = shared.faults.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let refuse = faults.borrow_and_update().refuse;
        if refuse {
            between_forks(|| listener = None);
        } else if listener.is_none() {
            listener = bind_again(addr).await.ok();
        }
        open.send_replace(listener.is_some());
        tokio::select! {
            accepted = next_client(listener.as_ref()) => {
                connections.spawn(connection::run(accepted, Arc::clone(&shared)));
            }
            Ok(()) = faults.changed() => {}
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn bind_again(addr: SocketAddr) -> io::Result<TcpListener> {
    let bound = wait::poll(CHANGE_WITHIN, || async {
        TcpListener::bind(addr).await.ok()
    });
    bound.await.ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

async fn next_client(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        // A client that is gone before it was accepted is no reason to stop.
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
    }
}

#[cfg(test)]
mod tests;
