//! The connection to one master that tells of its changed keys, and its supervisor.

use std::sync::Arc;

use coord_core::signals::Detail;
use coord_core::{Error, Result};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::Wanted;
use crate::config::{Address, Config};
use crate::dial::{Dialed, Target, dial};
use crate::error::not_connected;
use crate::lane::Lane;
use crate::link::{RECONNECT, silence};
use crate::signals::{Loss, Purpose, Signal};

/// What a connection tells.
pub(super) enum Heard {
    /// From here on it tells of every change of what is wanted.
    Tracking(Wanted),
    /// It tells of nothing any more.
    Nothing,
    Keys(Vec<String>),
    Everything,
}

pub(super) struct Node {
    pub(super) config: Arc<Config>,
    /// The connection for commands, which knows where the master is.
    pub(super) lane: Lane,
    pub(super) target: Target,
    pub(super) tell: Box<dyn Fn(Heard) + Send + Sync>,
}

impl Node {
    /// Connects and tracks for ever; its owner ends it.
    pub(super) async fn run(self, mut wanted: watch::Receiver<Wanted>) {
        let mut attempt = 0;
        loop {
            let (push, pushes) = mpsc::unbounded_channel();
            match dial(&self.config, &self.target, Purpose::Tracking, Some(push)).await {
                Ok(mut dialed) => {
                    let up_since = Instant::now();
                    let end = self.serve(&mut dialed, pushes, &mut wanted).await;
                    (self.tell)(Heard::Nothing);
                    match end {
                        Ok(cause) => Signal::ConnectionLost {
                            purpose: Purpose::Tracking,
                            cause,
                            address: Detail::new(&dialed.address),
                        }
                        .emit(),
                        Err(error) => failed(&error),
                    }
                    attempt = if up_since.elapsed() > RECONNECT.cap() {
                        0
                    } else {
                        attempt + 1
                    };
                }
                Err(error) => {
                    failed(&error);
                    attempt += 1;
                }
            }
            tokio::time::sleep(RECONNECT.jittered(attempt)).await;
        }
    }

    /// Tells of changes until the connection is lost, or refuses to track.
    async fn serve(
        &self,
        dialed: &mut Dialed,
        mut pushes: mpsc::UnboundedReceiver<PushInfo>,
        wanted: &mut watch::Receiver<Wanted>,
    ) -> Result<Loss> {
        let silence = silence(dialed.connection.clone(), self.config.ping_interval, || {});
        let moved = self.moved(dialed.address.clone());
        tokio::pin!(silence, moved);
        self.track(dialed, wanted).await?;
        loop {
            tokio::select! {
                Some(push) = pushes.recv() => {
                    if let Some(heard) = heard(push) {
                        (self.tell)(heard);
                    }
                }
                Ok(()) = wanted.changed() => self.track(dialed, wanted).await?,
                () = dialed.driver.ended() => return Ok(Loss::Closed),
                () = &mut silence => return Ok(Loss::Silent),
                () = &mut moved => return Ok(Loss::ReadOnly),
            }
        }
    }

    /// Ends when the commands have gone to another master for a whole ping interval: the one that
    /// this connection goes to may have been replaced without an end of its own.
    async fn moved(&self, here: Address) {
        loop {
            tokio::time::sleep(self.config.ping_interval).await;
            if self.lane.current().is_some_and(|there| *there != here) {
                return;
            }
        }
    }

    /// Turned off first, since a pattern that is there already may not be added.
    async fn track(&self, dialed: &Dialed, wanted: &mut watch::Receiver<Wanted>) -> Result<()> {
        let what = format!("tracking keys at {}", dialed.address);
        let wanted = Arc::clone(&wanted.borrow_and_update());
        let mut connection = dialed.connection.clone();
        let mut off = redis::cmd("CLIENT");
        off.arg("TRACKING").arg("OFF");
        let mut on = redis::cmd("CLIENT");
        on.arg("TRACKING").arg("ON").arg("BCAST");
        for start in wanted.iter() {
            on.arg("PREFIX").arg(&**start);
        }
        let asking = async {
            for cmd in [off, on] {
                let answer = connection.send_packed_command(&cmd).await;
                answer
                    .and_then(Value::extract_error)
                    .map_err(|error| not_connected(&what, error))?;
            }
            Ok(())
        };
        let limit = self.config.connect_timeout;
        let Ok(answered) = tokio::time::timeout(limit, asking).await else {
            let message = format!("{what}: no answer within {limit:?}");
            return Err(Error::unavailable(message));
        };
        answered?;
        (self.tell)(Heard::Tracking(wanted));
        Ok(())
    }
}

fn failed(error: &Error) {
    Signal::ConnectionFailed {
        purpose: Purpose::Tracking,
        error: Detail::error(error),
    }
    .emit();
}

/// What a push says of keys: a list of them, or nil for all.
fn heard(push: PushInfo) -> Option<Heard> {
    if push.kind != PushKind::Invalidate {
        return None;
    }
    match push.data.into_iter().next() {
        Some(Value::Array(keys)) => {
            let text = |key| match key {
                // A key that is not UTF-8 is none of ours.
                Value::BulkString(key) => String::from_utf8(key).ok(),
                _ => None,
            };
            Some(Heard::Keys(keys.into_iter().filter_map(text).collect()))
        }
        _ => Some(Heard::Everything),
    }
}
