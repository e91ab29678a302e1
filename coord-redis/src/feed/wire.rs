//! The sending half of a feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coord_core::{Channel, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::topic::Kind;
use crate::command::{Command, Reply};
use crate::lane::Lane;
use crate::link::RECONNECT;

/// The answer to a request to subscribe, where it is an error.
pub(super) type Rejection = (Channel, RedisError);

/// What the check of one round found.
pub(super) type Found = (Channel, u64, Result<Reply>);

/// Requests go out in order, and their errors come back.
pub(super) struct Wire {
    pub(super) connection: MultiplexedConnection,
    pub(super) sharded: bool,
    pub(super) rejected: mpsc::UnboundedSender<Rejection>,
    pub(super) found: mpsc::UnboundedSender<Found>,
    /// Where checks are run, and how long one may take.
    pub(super) lane: Lane,
    pub(super) deadline: Duration,
}

impl Wire {
    pub(super) fn subscribe(&self, kind: Kind, channel: Channel) {
        let verb = match (kind, self.sharded) {
            (Kind::Pattern, _) => "PSUBSCRIBE",
            (Kind::Channel, true) => "SSUBSCRIBE",
            (Kind::Channel, false) => "SUBSCRIBE",
        };
        self.request(verb, channel);
    }

    pub(super) fn unsubscribe(&self, kind: Kind, channel: Channel) {
        let verb = match (kind, self.sharded) {
            (Kind::Pattern, _) => "PUNSUBSCRIBE",
            (Kind::Channel, true) => "SUNSUBSCRIBE",
            (Kind::Channel, false) => "UNSUBSCRIBE",
        };
        self.request(verb, channel);
    }

    /// A confirmation arrives as a push; the reply is of interest only as an error, since another
    /// push may have taken its place.
    #[expect(
        clippy::disallowed_methods,
        reason = "it ends with its connection, which the feed owns"
    )]
    fn request(&self, verb: &'static str, channel: Channel) {
        let (mut connection, rejected) = (self.connection.clone(), self.rejected.clone());
        tokio::spawn(async move {
            let mut cmd = redis::cmd(verb);
            cmd.arg(channel.as_str());
            let answer = connection.send_packed_command(&cmd).await;
            if let Err(error) = answer.and_then(Value::extract_error) {
                _ = rejected.send((channel, error));
            }
        });
    }

    /// Runs `check` elsewhere, and says what it found once everything that was published before it
    /// looked has arrived here.
    #[expect(
        clippy::disallowed_methods,
        reason = "it ends with its connection, which the feed owns"
    )]
    pub(super) fn check(&self, channel: Channel, round: u64, check: Arc<Command>) {
        let (connection, found) = (self.connection.clone(), self.found.clone());
        let (lane, deadline) = (self.lane.clone(), self.deadline);
        tokio::spawn(async move {
            let mut attempt = 0;
            let reply = loop {
                match lane.run(&check, Instant::now() + deadline).await {
                    Err(error) if !is_final(error.kind()) => {}
                    reply => break reply,
                }
                if found.is_closed() {
                    return;
                }
                tokio::time::sleep(RECONNECT.jittered(attempt)).await;
                attempt += 1;
            };
            if passed(connection).await {
                _ = found.send((channel, round, reply));
            }
        });
    }
}

fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::Corrupt)
}

/// Waits for the answer to a ping: the connection delivers in order, so what was published before
/// is there. The ping carries a mark, since a push may take the place of an answer.
async fn passed(mut connection: MultiplexedConnection) -> bool {
    static MARK: AtomicU64 = AtomicU64::new(1);
    let mark = MARK.fetch_add(1, Ordering::Relaxed).to_string();
    let mut ping = redis::cmd("PING");
    ping.arg(&mark);
    loop {
        let answer = connection.send_packed_command(&ping).await;
        match answer.and_then(Value::extract_error) {
            Ok(Value::BulkString(said)) if said == mark.as_bytes() => return true,
            Ok(_) => {}
            // A refusal is an answer, too.
            Err(error) => return error.code().is_some(),
        }
    }
}
