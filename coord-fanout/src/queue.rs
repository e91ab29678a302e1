//! The port: what every queue does, whatever it is kept in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coord_core::trace::{Span, SpanKind};
use coord_core::{Backoff, Error, ErrorKind, Name, Result, TraceContext, Ttl};
use tokio::time::Instant;

/// The largest body of a message: 256 KiB, which every backend takes also where it has to be
/// written as text. Larger records are stored elsewhere, and the message names them.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

/// The longest delay of a retry: 12 h, which every backend takes. A longer one is cut to it.
pub const MAX_DELAY: Duration = Duration::from_hours(12);

/// One record to hand out.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The deduplication id: within the queue's window, the second message of one id is no
    /// message.
    pub id: Name,
    /// Messages of one group are handed out in the order in which they were enqueued, each once
    /// the one before it is done with. Without a group there is no order.
    pub group: Option<Name>,
    /// What the handler gets: at most [`MAX_BODY_BYTES`].
    pub body: Vec<u8>,
    /// The trace that it belongs to. Where nothing is said, it is that of the code that enqueues it,
    /// or one that begins there.
    pub trace: Option<TraceContext>,
}

impl Message {
    /// A message without a group.
    pub fn new(id: Name, body: impl Into<Vec<u8>>) -> Self {
        Self {
            id,
            group: None,
            body: body.into(),
            trace: None,
        }
    }

    /// The same message in `group`.
    #[must_use]
    pub fn group(mut self, group: Name) -> Self {
        self.group = Some(group);
        self
    }
}

impl fmt::Debug for Message {
    /// Shows the length of the body only, which may be long and private.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Message")
            .field("id", &self.id)
            .field("group", &self.group)
            .field("bytes", &self.body.len())
            .field("trace", &self.trace)
            .finish()
    }
}

/// The trace of messages of which none was said, in `queue`.
pub(crate) fn trace_of_caller(queue: &Name) -> Option<TraceContext> {
    let begun = || {
        let span = Span::root(SpanKind::Producer, format_args!("enqueue {queue}"));
        span.context().cloned()
    };
    TraceContext::current().or_else(begun)
}

/// What became of one message of [`Queue::enqueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It is in the queue. A backend that suppresses duplicates silently says this of them too.
    Added,
    /// A message of the same id was enqueued within the window, so this one was not.
    Duplicate,
}

/// One message in the hands of one consumer, until it is settled or its visibility ends.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What was enqueued.
    pub message: Message,
    /// Which attempt at it this is, from 1.
    pub attempt: u32,
    /// What proves to the queue that it is this delivery and not a later one.
    pub receipt: Receipt,
    /// Until when nobody else gets the message, if nobody extends it; counted from the sending of
    /// the request, so that it is never too late.
    pub valid_until: Instant,
}

/// What a backend knows one delivery by; opaque to everybody else.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Receipt(Arc<str>);

impl Receipt {
    /// The receipt that reads `text`. Only an implementation of [`Queue`] makes one.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().into())
    }

    /// The text that the implementation gave it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

/// What a consumer says of a delivery when it is through with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Handled: the message leaves the queue.
    Complete,
    /// Failed: the message is handed out again after this delay, or goes to the dead letters with
    /// this reason when its attempts are used up. The rest of its group waits.
    Retry {
        /// From now, on the server's clock; at most [`MAX_DELAY`].
        after: Duration,
        /// Why it failed.
        reason: String,
    },
    /// It can never be handled: it goes to the dead letters at once.
    DeadLetter {
        /// Why it cannot.
        reason: String,
    },
    /// Not started: the message is handed out again at once. A backend that can does not count
    /// the attempt.
    Release,
}

/// What became of one delivery of [`Queue::settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// As it was asked.
    Done,
    /// Its attempts were used up, so it was not retried: it is with the dead letters.
    DeadLettered,
    /// Its visibility ended first, and somebody else has it. Nothing was changed.
    Lost,
    /// Nobody has it: it was settled before. By an earlier call of the same verdict, if that ended
    /// in `Timeout`; otherwise its visibility ended, and somebody else took it over and settled it.
    Gone,
}

/// What is in a queue at one instant; a backend may know the numbers only roughly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages that the next consumer gets.
    pub ready: u64,
    /// Messages that wait for an earlier one of their group.
    pub waiting: u64,
    /// Messages that wait for the end of a delay.
    pub delayed: u64,
    /// Messages in the hands of consumers.
    pub in_flight: u64,
    /// Messages that failed for good.
    pub dead: u64,
    /// For how long the oldest ready message has been ready, where the backend can tell.
    pub lag: Option<Duration>,
}

impl Depth {
    /// The messages that are still to be handled.
    pub const fn open(&self) -> u64 {
        self.ready + self.waiting + self.delayed + self.in_flight
    }
}

/// A message that failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// What was enqueued, under its original id.
    pub message: Message,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it was given up.
    pub reason: String,
}

/// A queue that hands each message out at least once, and suppresses duplicates for a window.
///
/// # Guarantees
/// - A message whose `enqueue` returned is handed out until somebody settles it: a consumer that
///   dies keeps it from the others for one [`visibility`](Self::visibility) only.
/// - Within the window, counted from the first `enqueue`, a second message of the same id is
///   suppressed, also after the first was completed or given up. Beyond it, never.
/// - Of one group at most one message is in somebody's hands, and the messages leave in order;
///   one that is retried or comes back holds up the rest of its group until it is settled.
///
/// It does not hold that a message is handled once only: the one whose handler was done, but
/// whose completion never arrived, is handed out again. Handlers are idempotent, or check.
/// What a failover can lose, each backend says.
///
/// # Implementations
/// Calls take batches of any size and cut them as the backend needs. Receipts are opaque, so a
/// backend may use a server's own handles. What it cannot do (say that a message is a duplicate,
/// uncount an attempt, tell the lag) is named at the type concerned.
pub trait Queue: Send + Sync + 'static {
    /// What the queue is called.
    fn name(&self) -> &Name;

    /// How long a delivery belongs to its consumer before the message is handed out again.
    fn visibility(&self) -> Ttl;

    /// Enqueues `messages` in their order, and says of each what became of it.
    ///
    /// After any error the same call may be repeated: what is already there is a duplicate.
    ///
    /// # Errors
    /// `Unavailable` when none was enqueued, also because the queue is full; `Timeout` when some
    /// or all may have been; `Invalid` when a body is too large, and then none was.
    ///
    /// # Cancel safety
    /// Safe to drop: some or all may have been enqueued, and repeating the call is harmless.
    fn enqueue(&self, messages: &[Message]) -> impl Future<Output = Result<Vec<Enqueued>>> + Send;

    /// Takes up to `max` messages, and waits up to `wait` for the first.
    ///
    /// Messages whose attempts are used up go to the dead letters on the way.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout`: what was handed out to a reply that never came returns when
    /// its visibility ends. `Invalid` and `Corrupt` will not pass.
    ///
    /// # Cancel safety
    /// Safe to drop: what was taken returns when its visibility ends, with an attempt counted.
    fn receive(
        &self,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// Tells the queue what came of deliveries, and says of each what became of it.
    ///
    /// # Errors
    /// `Unavailable` when nothing was settled, `Timeout` when it may have been. The call may be
    /// repeated: what it settled already is then [`Settled::Gone`].
    ///
    /// # Cancel safety
    /// Safe to drop: some or all may have been settled, and the others return when their
    /// visibility ends.
    fn settle(
        &self,
        verdicts: &[(&Delivery, Verdict)],
    ) -> impl Future<Output = Result<Vec<Settled>>> + Send;

    /// Extends deliveries by the queue's visibility, counted from now; of each says until when it
    /// is valid now, and nothing if it was lost.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout` leave `valid_until` where it was.
    ///
    /// # Cancel safety
    /// Safe. A dropped call may still have extended them, never shortened.
    fn extend(
        &self,
        deliveries: &[Receipt],
    ) -> impl Future<Output = Result<Vec<Option<Instant>>>> + Send;

    /// What is in the queue now.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout`.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    fn depth(&self) -> impl Future<Output = Result<Depth>> + Send;

    /// Up to `max` dead letters, the oldest first where the backend has an order.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout`.
    ///
    /// # Cancel safety
    /// Safe: they stay where they are.
    fn dead_letters(&self, max: usize) -> impl Future<Output = Result<Vec<DeadLetter>>> + Send;

    /// Puts up to `max` dead letters back into the queue, the oldest first, as if they had never
    /// been tried, whatever the window says; says how many.
    ///
    /// # Errors
    /// `Unavailable` when none was put back, also because the queue is full; `Timeout` when some
    /// may have been.
    ///
    /// # Cancel safety
    /// Safe: each is either here or there.
    fn replay(&self, max: usize) -> impl Future<Output = Result<u64>> + Send;

    /// Runs `work` where a busy runtime of the caller does not hold it up: the extensions of a
    /// [`Consumer`](crate::Consumer).
    fn upkeep(&self, work: impl Future<Output = ()> + Send + 'static);

    /// Settles one delivery as handled, trying again until its visibility ends.
    ///
    /// # Errors
    /// `Lost` when it was taken over first. `Unavailable` and `Timeout`: the message is handed out
    /// again.
    ///
    /// # Cancel safety
    /// As [`settle`](Self::settle).
    fn complete(&self, delivery: &Delivery) -> impl Future<Output = Result<()>> + Send {
        async move { one(self, delivery, Verdict::Complete).await.map(drop) }
    }

    /// Settles one delivery as failed, trying again until its visibility ends; says whether it is
    /// retried (`Done`) or dead-lettered.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    /// As [`settle`](Self::settle).
    fn retry(
        &self,
        delivery: &Delivery,
        after: Duration,
        reason: &str,
    ) -> impl Future<Output = Result<Settled>> + Send {
        let reason = reason.to_owned();
        async move { one(self, delivery, Verdict::Retry { after, reason }).await }
    }
}

/// Between two attempts to tell a queue: a connection is back within milliseconds, a server within
/// seconds.
pub(crate) const AGAIN: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// Settles deliveries, trying again until the instant that `until` names. The result has no
/// [`Settled::Gone`]: it is `Done` when an earlier attempt may have done it, else `Lost`.
pub(crate) async fn settle_until<Q: Queue + ?Sized>(
    queue: &Q,
    verdicts: &[(&Delivery, Verdict)],
    until: impl Fn() -> Instant + Send,
) -> Result<Vec<Settled>> {
    let (mut attempt, mut unknown) = (0, false);
    loop {
        let error = match queue.settle(verdicts).await {
            Ok(settled) => {
                let gone = if unknown {
                    Settled::Done
                } else {
                    Settled::Lost
                };
                let known = |one| if one == Settled::Gone { gone } else { one };
                return Ok(settled.into_iter().map(known).collect());
            }
            Err(error) => error,
        };
        unknown |= error.kind() == ErrorKind::Timeout;
        let delay = AGAIN.jittered(attempt);
        attempt += 1;
        let passes = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
        if !passes || Instant::now() + delay >= until() {
            return Err(if unknown && passes {
                let what = format!("settling in {}: it may have been done", queue.name());
                Error::timeout(what).with_source(error)
            } else {
                error
            });
        }
        tokio::time::sleep(delay).await;
    }
}

async fn one<Q: Queue + ?Sized>(
    queue: &Q,
    delivery: &Delivery,
    verdict: Verdict,
) -> Result<Settled> {
    let settled = settle_until(queue, &[(delivery, verdict)], || delivery.valid_until).await?;
    match settled.first() {
        Some(&settled @ (Settled::Done | Settled::DeadLettered)) => Ok(settled),
        _ => Err(Error::lost(format!(
            "settling {} of queue {}",
            delivery.message.id,
            queue.name()
        ))),
    }
}
