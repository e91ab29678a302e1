//! One claim on a lock: what the server may hold under its token, and how that is undone.

use std::sync::Arc;
use std::time::Duration;

use coord_core::{Channel, ClaimToken, Error, ErrorKind, FencingToken, Result, Ttl};
use coord_lease::Holder;
use coord_redis::{Command, Receipt, Redis, Reply, Script};
use tokio::time::Instant;

use crate::Order;
use crate::news::News;
use crate::scripts::{ACQUIRE, Keys, LINE_UP, RELEASE};

/// How long an offer stands: a waiter that lives takes or confirms it within a round trip, and one that
/// died holds the others up for no longer than this.
pub(crate) const OFFER: Duration = Duration::from_secs(1);

/// How long a place in the queue is kept without a refresh.
const PLACE: Duration = Duration::from_secs(15);

/// How often a place in the queue is refreshed: two refreshes may fail in a row.
pub(crate) const REFRESH: Duration = Duration::from_secs(5);

/// One claim, made before its first request is sent. Dropping it undoes, in the background,
/// whatever the server may hold under its token.
pub(crate) struct Claim {
    redis: Redis,
    keys: Keys,
    token: ClaimToken,
    terms: Terms,
    /// Where the attempts went that may still be executed, or were and left something behind.
    receipt: Receipt,
    /// Whether the server holds something under the token: the lock, or a place in the queue.
    stored: bool,
    /// The last time that somebody else had the lock.
    denied: Option<Denied>,
}

/// An answer that somebody else had the lock.
struct Denied {
    /// The instant before it was asked for.
    sent_at: Instant,
    /// The grant of whoever had it then.
    fence: FencingToken,
}

/// How a claim is made, and who hears of it.
pub(crate) struct Terms {
    pub(crate) ttl: Ttl,
    pub(crate) owner: Arc<str>,
    pub(crate) order: Order,
    pub(crate) news: Arc<News>,
}

/// What became of an attempt.
pub(crate) enum Attempt {
    Granted(Granted),
    Held(Holder),
}

/// A granted lock.
pub(crate) struct Granted {
    pub(crate) fence: FencingToken,
    /// For how long.
    pub(crate) life: Ttl,
    /// An instant before that: mostly that at which the request was sent.
    pub(crate) sent_at: Instant,
}

/// What a release found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// The lock was ours, and is free or handed to the next in line.
    Freed,
    /// Nobody had the lock: it had expired, or somebody deleted it.
    Gone,
    /// Somebody else had it, and still has.
    HeldByOther,
}

/// What a message means to one who waits.
pub(crate) enum Heard {
    /// The lock may be free, or offered to this claim.
    Ask,
    /// The lock is offered to this claim, for long enough to be taken as it is.
    Granted(Granted),
    /// The lock is offered to another claim.
    Offered,
    /// The lock may be free, and another client asks first.
    After,
}

impl Claim {
    pub(crate) fn new(redis: &Redis, keys: Keys, terms: Terms) -> Self {
        Self {
            redis: redis.clone(),
            keys,
            token: ClaimToken::random(),
            terms,
            receipt: Receipt::default(),
            stored: false,
            denied: None,
        }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn token(&self) -> &ClaimToken {
        &self.token
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.terms.ttl
    }

    pub(crate) fn order(&self) -> Order {
        self.terms.order
    }

    pub(crate) fn news(&self) -> &Arc<News> {
        &self.terms.news
    }

    /// Where this claim is told that it is worth while to ask.
    pub(crate) fn channel(&self) -> Channel {
        match self.terms.order {
            Order::Any => self.keys.channel.clone(),
            Order::Fifo => {
                let client = self.terms.news.client();
                self.keys.channel_of(client, &self.redis)
            }
        }
    }

    pub(crate) fn redis(&self) -> &Redis {
        &self.redis
    }

    /// Asks once, within `limit`. One that `waits` is told by a message when it is worth while to
    /// ask again; in order, it keeps its place until then.
    pub(crate) async fn attempt(&mut self, waits: bool, limit: Duration) -> Result<Attempt> {
        if waits && self.terms.order == Order::Fifo {
            self.stored = true;
        }
        let command = self.asking(waits).receipt(&self.receipt);
        let sent_at = Instant::now();
        let reply = self.redis.run_within(&command, limit).await?;
        if !self.receipt.is_split() {
            // Whatever went before the answer on its connection has been executed as well.
            self.receipt = Receipt::default();
        }
        match reply {
            Reply::List(_) => {
                let holder = Holder::from_reply(reply)?;
                let fence = holder.fence;
                self.denied = Some(Denied { sent_at, fence });
                Ok(Attempt::Held(holder))
            }
            fence => {
                self.stored = true;
                let fence = fence.text()?.parse()?;
                let life = self.terms.ttl;
                Ok(Attempt::Granted(Granted {
                    fence,
                    life,
                    sent_at,
                }))
            }
        }
    }

    /// Gives up whatever the server holds under the token, and says what it was.
    ///
    /// `held` says that the lock was still valid. Then one that is gone after a first request got
    /// no answer was freed by that request.
    pub(crate) async fn end(&mut self, held: bool) -> Result<Released> {
        let end = Instant::now() + self.redis.deadline();
        let mut repeated = false;
        loop {
            let limit = end.saturating_duration_since(Instant::now());
            match self.redis.run_within(&self.undoing(), limit).await {
                Ok(reply) => {
                    self.stored = false;
                    return Ok(match released(reply)? {
                        Released::Gone | Released::HeldByOther if held && repeated => {
                            Released::Freed
                        }
                        released => released,
                    });
                }
                Err(error) if error.kind() == ErrorKind::Timeout && Instant::now() < end => {
                    repeated = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What `message` on the lock's channel means to this claim: it is empty, or names the client
    /// that is to ask first, or says to whom the lock is offered, `token:fence`.
    ///
    /// An offer that is larger than the grant that stood in the way was made after that was seen,
    /// so it stands for its time from then on at least. If half of that is left, it is as good as
    /// a grant: its renewal gives it the whole TTL. Otherwise asking confirms it.
    pub(crate) fn heard(&self, message: &[u8], now: Instant) -> Heard {
        if message.is_empty() || message == self.terms.news.client().as_str().as_bytes() {
            return Heard::Ask;
        }
        if !message.contains(&b':') {
            return Heard::After;
        }
        let Some(fence) = self.offered(message) else {
            return Heard::Offered;
        };
        match &self.denied {
            Some(Denied {
                sent_at,
                fence: was,
            }) if fence > *was && now < *sent_at + OFFER / 2 => Heard::Granted(Granted {
                fence,
                life: Ttl::new(OFFER).expect("a second is a TTL"),
                sent_at: *sent_at,
            }),
            _ => Heard::Ask,
        }
    }

    /// The fence of an offer to this claim.
    fn offered(&self, message: &[u8]) -> Option<FencingToken> {
        let fence = message.strip_prefix(self.token.as_str().as_bytes())?;
        let fence = std::str::from_utf8(fence.strip_prefix(b":")?).ok()?;
        fence.parse().ok()
    }

    fn asking(&self, waits: bool) -> Command {
        let Keys {
            lock,
            record,
            queue,
            ..
        } = &self.keys;
        let Terms {
            ttl,
            owner,
            order,
            news,
        } = &self.terms;
        let command = match order {
            Order::Any => ACQUIRE
                .call(&[lock, record, queue])
                .arg(self.token.as_str())
                .arg(ttl.as_millis())
                .arg(&**owner)
                .arg(if waits { news.client().as_str() } else { "" }),
            Order::Fifo => {
                let place = if waits { PLACE } else { Duration::ZERO };
                queueing(&LINE_UP, &self.redis, &self.keys, self.token.as_str())
                    .arg(ttl.as_millis())
                    .arg(&**owner)
                    .arg(place.as_millis() as u64)
                    .arg(news.client().as_str())
            }
        };
        command.idempotent()
    }

    fn undoing(&self) -> Command {
        release(&self.redis, &self.keys, By::Token(&self.token))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.stored && self.receipt.is_empty() {
            return;
        }
        let (redis, receipt) = (self.redis.clone(), self.receipt.clone());
        let undo = self.undoing().idempotent();
        // By then what the claim may have left has ended by itself.
        let ttl = self.terms.ttl.as_duration();
        let life = match self.terms.order {
            Order::Any => ttl,
            Order::Fifo => ttl.max(PLACE),
        };
        let until = Instant::now() + life;
        self.redis.spawn(async move {
            let undid = |reply: &Reply| matches!(reply, Reply::Int(1));
            // What could not be undone is told by the signal redis.release.abandoned.
            _ = redis.settle(&undo, &receipt, undid, until).await;
        });
    }
}

/// By what the one grant that is meant is told from others.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    Token(&'a ClaimToken),
    Fence(FencingToken),
}

/// The end of a claim, harmless to any but the one that is meant.
pub(crate) fn release(redis: &Redis, keys: &Keys, by: By<'_>) -> Command {
    match by {
        By::Token(token) => queueing(&RELEASE, redis, keys, token.as_str()).arg("token"),
        By::Fence(fence) => queueing(&RELEASE, redis, keys, &fence.to_string()).arg("fence"),
    }
}

/// A call of a script that knows the queue, with the arguments that all of them take.
fn queueing(script: &'static Script, redis: &Redis, keys: &Keys, token: &str) -> Command {
    script
        .call(&keys.all())
        .arg(token)
        .arg(keys.channel.as_str())
        .arg(redis.publish_verb())
        .arg(OFFER.as_millis() as u64)
}

pub(crate) fn released(reply: Reply) -> Result<Released> {
    match reply.int()? {
        1 => Ok(Released::Freed),
        0 => Ok(Released::Gone),
        -1 => Ok(Released::HeldByOther),
        other => Err(Error::corrupt(format!("the release answered {other}"))),
    }
}
