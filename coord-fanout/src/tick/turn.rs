//! A claim on its way, and a tick that is ours: whatever becomes of them, what may be held is
//! released.

use std::time::Duration;

use coord_core::{Backoff, ClaimToken, Error, ErrorKind, FencingToken, Ttl};
use coord_lease::{Grant, Hold, Leases};
use coord_redis::{Receipt, Redis, Reply};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::place::Place;
use crate::schedule::TickTime;
use crate::signals::Loss;

/// Between two attempts to finish a tick.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// A claim that may be granted without our knowing. Dropping it then undoes it in the background.
pub(crate) struct Claim {
    redis: Redis,
    place: Place,
    ttl: Ttl,
    pub(crate) token: ClaimToken,
    receipt: Receipt,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Never sent, or settled.
    Closed,
    Sent,
    /// An attempt got no answer: it may be executed still, whatever a later one is answered.
    Unanswered,
}

impl Claim {
    pub(crate) fn new(redis: &Redis, place: &Place, ttl: Ttl) -> Self {
        Self {
            redis: redis.clone(),
            place: place.clone(),
            ttl,
            token: ClaimToken::random(),
            receipt: Receipt::default(),
            state: State::Closed,
        }
    }

    /// Says that it is about to be sent, with this receipt.
    pub(crate) fn sends(&mut self, receipt: &Receipt) {
        if self.state == State::Closed {
            self.state = State::Sent;
        }
        self.receipt = receipt.clone();
    }

    /// Says that an attempt failed.
    pub(crate) fn failed(&mut self, error: &Error) {
        let never_ran = error.kind() == ErrorKind::Unavailable && !self.receipt.is_split();
        self.state = match self.state {
            State::Sent if never_ran => State::Closed,
            _ => State::Unanswered,
        };
    }

    /// Says that the tick was not granted.
    pub(crate) fn refused(mut self) {
        if self.state == State::Sent && !self.receipt.is_split() {
            self.state = State::Closed;
        }
    }

    /// Says that the tick was granted, by an answer to what was sent at `sent_at`.
    pub(crate) fn granted(
        mut self,
        leases: &Leases,
        fence: FencingToken,
        sent_at: Instant,
    ) -> Turn {
        self.state = State::Closed;
        let hold = leases.hold(Grant {
            key: self.place.lock.clone(),
            record: self.place.record.clone(),
            token: self.token.clone(),
            fence,
            life: self.ttl,
            ttl: self.ttl,
            sent_at,
            // Whoever scans or finishes finds the loss and reports it as that of the tick.
            on_loss: |_, _, _| (),
        });
        Turn {
            redis: self.redis.clone(),
            place: self.place.clone(),
            receipt: self.receipt.clone(),
            hold,
            is_over: false,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.state != State::Closed && !self.receipt.is_empty() {
            release(
                &self.redis,
                &self.place,
                &self.token,
                &self.receipt,
                (self.ttl, Duration::ZERO),
            );
        }
    }
}

/// A tick that is ours until it is finished, released or lost. Dropping it releases it in the
/// background.
pub(crate) struct Turn {
    redis: Redis,
    place: Place,
    receipt: Receipt,
    pub(crate) hold: Hold,
    is_over: bool,
}

impl Turn {
    /// How long one call may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.redis.deadline()
    }

    /// Finishes the tick, as often as it takes while the lease lasts.
    ///
    /// Dropped on the way, it releases the tick if it is not finished.
    pub(crate) async fn finish(
        mut self,
        upto: TickTime,
        cooldown_end: TickTime,
    ) -> Result<(), Loss> {
        self.hold.check().map_err(|_| Loss::Lease)?;
        let valid_until = self.hold.valid_until();
        // A renewal after the end of the lease would report it as lost.
        self.hold.stop();
        let mut attempt = 0;
        while Instant::now() < valid_until {
            let holder = (self.hold.token(), self.hold.fence());
            let times = (upto, cooldown_end);
            if let Ok(is_ours) = self.place.finish(&self.redis, holder, times).await {
                self.is_over = true;
                return if is_ours { Ok(()) } else { Err(Loss::Refused) };
            }
            let again = Instant::now() + AGAIN.jittered(attempt);
            tokio::time::sleep_until(again.min(valid_until)).await;
            attempt += 1;
        }
        Err(Loss::Unanswered)
    }

    /// Gives the tick up; nobody gets it for `pause`. Waits for the release, but not longer than
    /// one call may take: it goes on in the background.
    pub(crate) async fn release(mut self, pause: Duration) {
        self.is_over = true;
        self.hold.stop();
        let times = (self.hold.ttl(), pause);
        let released = release(
            &self.redis,
            &self.place,
            self.hold.token(),
            &self.receipt,
            times,
        );
        _ = tokio::time::timeout(self.redis.deadline(), released).await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            let times = (self.hold.ttl(), Duration::ZERO);
            self.hold.stop();
            release(
                &self.redis,
                &self.place,
                self.hold.token(),
                &self.receipt,
                times,
            );
        }
    }
}

/// Releases in the background; the receiver completes when it is done.
fn release(
    redis: &Redis,
    place: &Place,
    token: &ClaimToken,
    receipt: &Receipt,
    (ttl, pause): (Ttl, Duration),
) -> oneshot::Receiver<()> {
    let (done, released) = oneshot::channel();
    let undo = place.release(token, pause);
    let (client, receipt) = (redis.clone(), receipt.clone());
    let until = Instant::now() + ttl.as_duration() + redis.deadline();
    redis.spawn(async move {
        // What is left when it fails is reported there, and ends by its TTL.
        _ = client.settle(&undo, &receipt, undid, until).await;
        // Nobody waits where a drop released.
        _ = done.send(());
    });
    released
}

fn undid(reply: &Reply) -> bool {
    *reply == Reply::Int(1)
}
