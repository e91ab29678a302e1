//! The queue on Amazon SQS.
//!
//! # Why it is built like this
//! A FIFO queue of SQS keeps order within a group, has a visibility and forgets ids after five
//! minutes. What the port promises beyond that is made here:
//!
//! - **A group in one pair of hands.** Asked for ten messages, SQS hands out ten of one group, and
//!   counts an attempt at each. So messages are received one by one, several requests at a time,
//!   first one and then twice as many while there are more; a queue
//!   [without groups](SqsOptions::without_groups) is received by tens.
//! - **Order when a part of a batch fails.** A batch is answered entry by entry, and any of them
//!   may fail. So two messages of one group never share a batch, nor are they on their way at the
//!   same time: the next is sent when SQS has the one before it.
//! - **Lost answers.** Every request can be repeated: a send by its deduplication id, a receive by
//!   its attempt id, a deletion by its receipt. The client's own retries are off, since they hide
//!   whether an attempt was sent; the one loop of `call` repeats instead, until the deadline.
//! - **Dead letters** are moved by us and not by SQS, with their reason and their attempts: sent to
//!   the second queue under an id that the message determines, and then deleted from the first. A
//!   death between the two leaves the message in both, until it is handed out again and moved
//!   again, of which the second queue takes no notice.
//! - **Lost deliveries.** SQS may say "deleted" of a delivery that has passed to somebody else, and
//!   delete nothing. As long as its visibility lasts a delivery is ours; later it is asked for,
//!   by an extension, before anything is done with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::Client;
use coord_core::{Error, ErrorKind, Name, Result, Ttl};
use tokio::time::Instant;

use crate::queue::{
    DeadLetter, Delivery, Depth, Enqueued, Message, Queue, Receipt, Settled, Verdict,
};
use crate::signals::SIGNALS;

mod call;
mod change;
mod dead;
mod enqueue;
mod error;
mod held;
mod open;
mod options;
mod receive;
mod settle;
mod upkeep;
mod wire;

use call::Limit;
use held::Held;
pub use options::SqsOptions;
use upkeep::Upkeep;

/// Most entries of one request, and most messages of one answer, that SQS takes.
const BATCH: usize = 10;

/// Which of the two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// That of the messages.
    Open,
    /// That of the dead letters.
    Dead,
}

/// A queue in Amazon SQS, with a second one for its dead letters; clones are the same queue.
///
/// Both are FIFO queues that exist already: who may use them, how they are encrypted and for how
/// long they keep a message belongs to whoever owns the account. Ids and groups are any names; what
/// SQS does not take is hashed, and the message carries the names as they were given. So are bodies
/// any bytes.
///
/// # Guarantees
/// Those of [`Queue`], with these differences from [`StreamQueue`](crate::StreamQueue):
/// - **The window is five minutes**, and SQS lets nobody change it. A duplicate is suppressed
///   silently, so it is reported as [`Enqueued::Added`]. With `DeduplicationScope` set to
///   `messageGroup` (the high throughput of SQS asks for it), an id is known within its group only:
///   always send one id in the same group.
/// - **Attempts are deliveries** (`ApproximateReceiveCount`): [`Verdict::Release`] cannot uncount
///   one.
/// - **Delays and visibility are whole seconds**, rounded up; so are waits. Nobody keeps a message
///   for longer than 12 h in all, also a handler that is extended.
/// - **A dead letter is there once** as long as its message comes back within five minutes after a
///   move that was interrupted, and a replayed one likewise. The oldest of those that are at hand
///   goes first. While somebody looks at dead letters, others do not see them.
/// - **Messages wait for as long as the queue keeps them** (`MessageRetentionPeriod`, four days by
///   default, 14 at most), dead letters as long as theirs does.
/// - **[`Depth`] is roughly right**, has no lag and counts what waits for its group or its retry as
///   ready or in flight. Alarm on `ApproximateAgeOfOldestMessage`, which AWS measures, instead of
///   `fanout.queue.lag`, which is reported for an empty queue only.
/// - **A message that SQS refuses for good** ends its `enqueue` as `Invalid`. Nothing of its group
///   is sent behind it; other messages of the call may be in the queue.
/// - [`Settled::Lost`] is also said of what is gone, unless a call of this process that found no
///   answer may have settled it. `fanout.queue.reclaimed` and `fanout.queue.duplicate` are never
///   emitted, since SQS does not tell.
///
/// SQS keeps what it acknowledged on several machines; there is no failover to lose it.
///
/// # Example
/// ```no_run
/// use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
/// use coord_core::Name;
/// use coord_fanout::{Message, Queue, SqsOptions, SqsQueue};
///
/// # async fn example() -> coord_core::Result<()> {
/// // With the crate `aws-config`: `Client::new(&aws_config::load_from_env().await)`.
/// let config = aws_sdk_sqs::Config::builder()
///     .behavior_version(BehaviorVersion::latest())
///     .region(Region::new("eu-central-1"))
///     .credentials_provider(Credentials::new("id", "secret", None, None, "example"))
///     .build();
/// let client = aws_sdk_sqs::Client::from_conf(config);
///
/// let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/thumbnails.fifo";
/// let dead = "https://sqs.eu-central-1.amazonaws.com/123456789012/thumbnails-dead.fifo";
/// let queue = SqsQueue::open(&client, url, dead, SqsOptions::default()).await?;
/// queue.enqueue(&[Message::new(Name::new("image-17")?, "s3://images/17")]).await?;
/// # Ok(())
/// # }
/// ```
/// [`Consumer`](crate::Consumer) does the receiving half, with retries and a clean shutdown.
#[derive(Debug, Clone)]
pub struct SqsQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: Name,
    url: String,
    dead_url: String,
    client: Client,
    /// For extensions: its connections are not driven by the caller's runtime.
    apart: Client,
    options: SqsOptions,
    visibility: Ttl,
    held: Mutex<Held>,
    /// Held by whoever changes visibilities, so that an extension never overtakes a retry.
    changing: tokio::sync::Mutex<()>,
    upkeep: Upkeep,
}

impl SqsQueue {
    /// The queue at `url`, with the one at `dead_url` for its dead letters. It is called as in its
    /// URL, and its visibility is the `VisibilityTimeout` it has now.
    ///
    /// The region, the credentials and the connector are those of `client`; retries and timeouts
    /// are the queue's own.
    ///
    /// # Errors
    /// `Invalid` when one of them is not there, not allowed to us, no FIFO queue, set to messages
    /// below 360 KiB or to a visibility below 2 s, or has a `RedrivePolicy`; the message says what
    /// to change. `Unavailable` and `Timeout` when SQS cannot be asked.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn open(
        client: &Client,
        url: &str,
        dead_url: &str,
        options: SqsOptions,
    ) -> Result<Self> {
        coord_core::signals::register(SIGNALS);
        let name = open::name(url)?;
        let (config, deadline) = (client.config(), options.deadline);
        let own = call::client(config, deadline);
        let visibility = open::check(&own, [url, dead_url], Limit::within(deadline)).await?;
        Ok(Self(Arc::new(Inner {
            name,
            url: url.to_owned(),
            dead_url: dead_url.to_owned(),
            client: own,
            apart: call::client(config, deadline),
            options,
            visibility,
            held: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            upkeep: Upkeep::start()?,
        })))
    }
}

impl Inner {
    fn url(&self, place: Place) -> &str {
        match place {
            Place::Open => &self.url,
            Place::Dead => &self.dead_url,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limit(&self) -> Limit {
        Limit::within(self.options.deadline)
    }

    /// How long a delivery that is kept from others for `visibility` from `sent` on is valid:
    /// shorter by a margin for the drift of two clocks.
    fn valid_until(sent: Instant, visibility: Duration) -> Instant {
        let drift = visibility / 100 + Duration::from_millis(2);
        sent + visibility.saturating_sub(drift)
    }

    /// "Nothing happened" is not true of a whole call when some of its parts were done.
    fn after_earlier(&self, doing: &str, error: Error, earlier: usize) -> Error {
        if earlier == 0 || error.kind() != ErrorKind::Unavailable {
            return error;
        }
        let what = format!("{doing} in {}: some of it may be done", self.name);
        Error::timeout(what).with_source(error)
    }
}

impl Queue for SqsQueue {
    fn name(&self) -> &Name {
        &self.0.name
    }

    fn visibility(&self) -> Ttl {
        self.0.visibility
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
        self.0.upkeep.run(work);
    }
}
