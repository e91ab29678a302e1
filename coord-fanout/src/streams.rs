//! The queue on Redis Streams.
//!
//! # Why it is built like this
//! A stream with a consumer group hands messages out well: it blocks, it remembers who has what
//! since when and how often, and it survives its consumers. It cannot hold a message back. So only
//! what may be handed out *now* is in the stream; everything else waits beside it, in the same
//! slot, and one script moves it:
//!
//! - **Groups.** Each group has a list. Its head alone is in the stream (its place in the list is
//!   empty), the rest waits in the list. Settling the head for good adds the next one to the
//!   stream, in the same script; a retried head is delayed and its group waits with it. So a group
//!   is in at most one consumer's hands whichever consumers live, without any lock that could be
//!   left behind, and different groups take turns. Groups cost nothing while they are empty.
//! - **Delays.** A retried message is in a sorted set by the time it is due, on the server's
//!   clock, rounded up. Whoever receives next moves what is due. A receive that waits knows of
//!   the delays that were there when it began, and wakes for the first of them; one that was added
//!   since then, it sees at its next look, so a message is never early, and late by the length of
//!   one wait at most: a second with a [`Consumer`](crate::Consumer). (The idle time of the
//!   stream's group could express delays below the visibility only.)
//! - **Visibility** is the idle time of a delivery. It is looked at four times a visibility, at
//!   least every five seconds, by every consumer, so an abandoned delivery is taken over within
//!   one and a quarter visibilities. Extending sets the idle time back to zero.
//! - **Fence.** A delivery is its entry and how often that was delivered. Each taking over counts
//!   one up, and each retry or release is a new entry, so a late settlement finds another number
//!   or nothing, and changes nothing. All consumers share one name in the group, since names of
//!   dead ones would pile up there.
//! - **Deduplication** is one key an id, set in the script that adds the message, with the window
//!   as its TTL. It remembers which call set it: a call whose reply was lost is sent again, and
//!   finds that it was itself that added them.
//! - **Memory.** What is settled is deleted from the stream. A drained queue is one key, the empty
//!   stream with its group, and the ids until their window ends.
//!
//! What is settled, extended and enqueued goes in batches, one script and one round trip each; a
//! receive that finds something is one round trip, one that waits is two.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::{Error, ErrorKind, Name, Result, Ttl};
use coord_redis::{Kept, Redis, Script};
use tokio::time::Instant;

use crate::queue::{
    DeadLetter, Delivery, Depth, Enqueued, Message, Queue, Receipt, Settled, Verdict,
};
use crate::signals::SIGNALS;

mod dead;
mod enqueue;
mod keys;
mod options;
mod receive;
mod settle;

use keys::Keys;
pub use options::QueueOptions;
use receive::Sweep;

static ENQUEUE: Script = Script::new("queue_enqueue", include_str!("lua/queue_enqueue.lua"));
static RECEIVE: Script = Script::new("queue_receive", include_str!("lua/queue_receive.lua"));
static SETTLE: Script = Script::new("queue_settle", include_str!("lua/queue_settle.lua"));
static EXTEND: Script = Script::new("queue_extend", include_str!("lua/queue_extend.lua"));
static DEPTH: Script = Script::new("queue_depth", include_str!("lua/queue_depth.lua"));
static REPLAY: Script = Script::new("queue_replay", include_str!("lua/queue_replay.lua"));

/// The one group of the stream, and the one name of all its consumers.
const CONSUMERS: &str = "consumers";

/// Most messages in one script: about half a millisecond of the server's time, and far below the
/// some 8000 values at which Lua's own stack ends.
const BATCH: usize = 256;

/// A queue in Redis; clones are the same queue.
///
/// # Guarantees
/// Those of [`Queue`]. They hold while Redis keeps what it acknowledged. A failover can lose the
/// last writes (replication is asynchronous), and so can a restart without `appendonly yes` and
/// `appendfsync always`: a message enqueued just before may be gone, together with the memory of
/// its id, so that enqueuing it again works; one completed just before may be handed out again.
/// Each call is one script, so what is lost is whole calls, never half of one.
///
/// Delays and visibility are measured by the server's wall clock: a jump of it ends them early or
/// late.
///
/// # Keys
/// All share the slot of the queue's name. Messages have no TTL, since they wait for a consumer
/// however long that is away; what limits them is [`QueueOptions::depth`].
///
/// | key | what | how long |
/// |---|---|---|
/// | `prefix:{queue:NAME}` | the stream: ready or in somebody's hands | without end: empty, it keeps the consumer group |
/// | `…:delayed`, `…:waiting`, `…:group:GROUP` | retries; how many wait in groups; those | while there are any |
/// | `…:seen:ID` | that the id was enqueued | the deduplication window |
/// | `…:dead` | the dead letters | 14 days after the last one came, or until all are replayed |
///
/// # Example
/// ```no_run
/// use coord_core::Name;
/// use coord_fanout::{Message, Queue, QueueOptions, StreamQueue};
/// use coord_redis::{Config, Redis};
/// use std::time::Duration;
///
/// # async fn example() -> coord_core::Result<()> {
/// let redis = Redis::connect(Config::from_url("redis://127.0.0.1:6379")?).await?;
/// let queue = StreamQueue::new(&redis, Name::new("thumbnails")?, QueueOptions::default());
///
/// let message = Message::new(Name::new("image-17")?, "s3://images/17");
/// queue.enqueue(&[message.group(Name::new("customer-4")?)]).await?;
///
/// for delivery in queue.receive(10, Duration::from_secs(5)).await? {
///     println!("{:?}", delivery.message);
///     queue.complete(&delivery).await?;
/// }
/// # Ok(())
/// # }
/// ```
/// [`Consumer`](crate::Consumer) does the receiving half of it with retries and a clean shutdown.
#[derive(Debug, Clone)]
pub struct StreamQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    redis: Redis,
    name: Name,
    options: QueueOptions,
    keys: Keys,
    /// Where this process is in looking for overdue deliveries.
    sweep: Mutex<Sweep>,
}

impl StreamQueue {
    /// The queue `name`. Nothing is stored before its first message.
    pub fn new(redis: &Redis, name: Name, options: QueueOptions) -> Self {
        coord_core::signals::register(SIGNALS);
        redis.keeps(Kept::Streams);
        Self(Arc::new(Inner {
            keys: Keys::new(redis.keys(), &name),
            redis: redis.clone(),
            sweep: Mutex::new(Sweep::new(Instant::now())),
            name,
            options,
        }))
    }
}

impl Inner {
    fn sweep(&self) -> std::sync::MutexGuard<'_, Sweep> {
        self.sweep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a delivery that was asked for at `sent` is valid: shorter than the visibility by a
    /// margin for the drift of two clocks.
    fn valid_until(&self, sent: Instant) -> Instant {
        let visibility = self.options.visibility.as_duration();
        let drift = visibility / 100 + Duration::from_millis(2);
        sent + visibility.saturating_sub(drift)
    }

    /// "Nothing happened" is not true of a whole call when its first `earlier` parts were done.
    fn after_earlier(&self, doing: &str, error: Error, earlier: usize) -> Error {
        if earlier == 0 || error.kind() != ErrorKind::Unavailable {
            return error;
        }
        let what = format!(
            "{doing} in {}: only the first {earlier} are done",
            self.name
        );
        Error::timeout(what).with_source(error)
    }
}

impl Queue for StreamQueue {
    fn name(&self) -> &Name {
        &self.0.name
    }

    fn visibility(&self) -> Ttl {
        self.0.options.visibility
    }

    async fn enqueue(&self, messages: &[Message]) -> Result<Vec<Enqueued>> {
        self.0.enqueue(messages).await
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Delivery>> {
        self.0.receive(max, wait).await
    }

    async fn settle(&self, verdicts: &[(&Delivery, Verdict)]) -> Result<Vec<Settled>> {
        self.0.settle(verdicts).await
    }

    async fn extend(&self, deliveries: &[Receipt]) -> Result<Vec<Option<Instant>>> {
        self.0.extend(deliveries).await
    }

    async fn depth(&self) -> Result<Depth> {
        self.0.depth().await
    }

    async fn dead_letters(&self, max: usize) -> Result<Vec<DeadLetter>> {
        self.0.dead_letters(max).await
    }

    async fn replay(&self, max: usize) -> Result<u64> {
        self.0.replay(max).await
    }

    fn upkeep(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.redis.tend(work);
    }
}
