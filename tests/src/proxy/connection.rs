//! One connection: two readers that cut the bytes into pieces, two writers that judge them.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    Faults, Shared,
    framing::{Framing, Piece},
    rules::{Action, Matched},
};
/// A piece and when it is due on the other side.
type Pieces = mpsc::UnboundedReceiver<(Instant, Piece)>;

/// Why a connection ends before its client closes it.
enum End {
    Broken,
    /// As announced; the test learns of it when the sockets are closed.
    Announced(Matched),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

/// Passes on what `client` sends and receives until either side, or a fault, ends it.
pub(super) async fn run(client: TcpStream, shared: Arc<Shared>) {
    let (faults, born, token) = {
        // A cut either sees this connection or comes before it: whoever has a token of a
        // generation must know which one it is of, or it outlives the cut that waits for it.
        let tokens = shared.tokens();
        let mut faults = shared.faults.subscribe();
        let born = *faults.borrow_and_update();
        (faults, born, tokens.token.clone())
    };
    shared.made.fetch_add(1, Ordering::SeqCst);
    shared.live.send_modify(|live| *live += 1);
    let end = until_cut(client, (faults, born), &shared).await;
    shared.live.send_modify(|live| *live -= 1);
    drop(token);
    if let Err(End::Announced(matched)) = end {
        matched.done();
    }
}

async fn until_cut(
    client: TcpStream,
    (mut faults, born): (watch::Receiver<Faults>, Faults),
    shared: &Shared,
) -> Result<(), End> {
    tokio::select! {
        _ = faults.wait_for(|now| now.generation != born.generation) => Err(End::Broken),
        end = pass(client, born, shared) => end,
    }
}

async fn pass(client: TcpStream, born: Faults, shared: &Shared) -> Result<(), End> {
    if born.hole_up {
        // Not even the handshake reaches the server; nothing can make this connection whole.
        shared.dropped.store(true, Ordering::SeqCst);
        return swallow(client).await;
    }
    let server = TcpStream::connect(shared.upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (requests, queued_requests) = mpsc::unbounded_channel();
    let (replies, queued_replies) = mpsc::unbounded_channel();
    let link = Link {
        shared,
        pending: Mutex::default(),
    };

    let up = async {
        tokio::try_join!(
            link.read(from_client, requests, |faults| (
                faults.delay_up,
                faults.hole_up
            )),
            link.write_requests(queued_requests, to_server),
        )
    };
    let down = async {
        tokio::try_join!(
            link.read(from_server, replies, |faults| (
                faults.delay_down,
                faults.hole_down
            )),
            link.write_replies(queued_replies, to_client),
        )
    };
    tokio::pin!(up, down);
    tokio::select! {
        // A client that has said all it wants may still listen.
        end = &mut up => { end?; down.await?; }
        // A server never goes on reading after it has closed.
        end = &mut down => { end?; }
    }
    Ok(())
}

async fn swallow(mut client: TcpStream) -> Result<(), End> {
    let mut sink = vec![0; 4096];
    while client.read(&mut sink).await.is_ok_and(|length| length > 0) {}
    std::future::pending().await
}

struct Link<'a> {
    shared: &'a Shared,
    /// One entry for each request without a reply, in order.
    pending: Mutex<VecDeque<Option<Matched>>>,
}

impl Link<'_> {
    fn faults(&self) -> Faults {
        *self.shared.faults.borrow()
    }

    async fn read(
        &self,
        mut from: OwnedReadHalf,
        pieces: mpsc::UnboundedSender<(Instant, Piece)>,
        state: impl Fn(&Faults) -> (std::time::Duration, bool),
    ) -> Result<(), End> {
        let mut framing = Framing::default();
        loop {
            let read = from.read_buf(&mut framing.bytes).await;
            let (delay, hole) = state(&self.faults());
            match read {
                Ok(0) | Err(_) if hole => {
                    // Nor does the other side hear of the end.
                    self.shared.dropped.store(true, Ordering::SeqCst);
                    return std::future::pending().await;
                }
                Ok(0) => return Ok(()),
                read => read?,
            };
            let due = Instant::now() + delay;
            while let Some(piece) = framing.next() {
                if pieces.send((due, piece)).is_err() {
                    return Err(End::Broken);
                }
            }
        }
    }

    async fn write_requests(
        &self,
        mut pieces: Pieces,
        mut server: OwnedWriteHalf,
    ) -> Result<(), End> {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            let mut matched = None;
            if !self.swallows(|faults| faults.hole_up) {
                matched = self.shared.rules.take(&piece.bytes);
            }
            match matched
                .take_if(|matched| matches!(matched.action, Action::Cut | Action::HoldRequest))
            {
                Some(cut) if cut.action == Action::Cut => return Err(End::Announced(cut)),
                Some(held) => held.hold().await,
                None => {}
            }
            if self.swallows(|faults| faults.hole_up) {
                continue;
            }
            let seen = matched.take_if(|matched| matched.action == Action::Pass);
            // In the queue before the server can answer.
            if piece.is_command() {
                self.pending().push_back(matched);
            }
            server.write_all(&piece.bytes).await?;
            if let Some(seen) = seen {
                seen.done();
            }
        }
        Ok(server.shutdown().await?)
    }

    async fn write_replies(
        &self,
        mut pieces: Pieces,
        mut client: OwnedWriteHalf,
    ) -> Result<(), End> {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            let matched = if piece.is_push() {
                None
            } else {
                self.pending().pop_front().flatten()
            };
            match matched {
                Some(lost) if lost.action == Action::LoseReply => {
                    return Err(End::Announced(lost));
                }
                Some(held) => held.hold().await,
                None => {}
            }
            if !self.swallows(|faults| faults.hole_down) {
                client.write_all(&piece.bytes).await?;
            }
        }
        Ok(())
    }

    /// Whether what is about to be written falls into a hole.
    fn swallows(&self, hole: impl Fn(&Faults) -> bool) -> bool {
        let swallows = hole(&self.faults());
        if swallows {
            self.shared.dropped.store(true, Ordering::SeqCst);
        }
        swallows
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, VecDeque<Option<Matched>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
