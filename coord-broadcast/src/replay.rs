//! Reading missed messages from the log of a topic.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Channel, Error, ErrorKind, Key, Result};
use coord_redis::{Command, Redis, Reply};

use crate::frame::Frame;
use crate::position::Position;
use crate::signals::{Cause, Signal};
use crate::track::Span;

/// Messages in the first read. Their size is not known then, and one may have a megabyte.
const FIRST: u64 = 16;

/// Later reads take as many messages as make up about this many bytes: a fraction of what the
/// shared connection carries in a millisecond or two, so that nobody's call waits for long.
const BYTES: u64 = 256 * 1024;

/// The most messages in one read, however small: they are all in memory then.
const MOST: u64 = 512;

/// Between two attempts at a log that does not answer.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// A log that did not answer so often is given up: what is missing is told as missed, and the live
/// messages behind it are not held up any longer.
const ATTEMPTS: u32 = 10;

/// What was missed, as far as it has not been read yet.
pub(crate) struct Replay {
    span: Span,
    cause: Cause,
    lasted: Duration,
    count: u64,
    failures: u32,
    /// Under way. It is kept over a `next` that is dropped, or one who often stops waiting would
    /// never see its end.
    reading: Option<Reading>,
}

type Reading = Pin<Box<dyn Future<Output = Result<Vec<Entry>>> + Send>>;

/// What a read gave, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Message(Arc<[u8]>, Frame),
    /// These are not in the log.
    Gone(Span),
    /// The log could not be read.
    Unread(Span),
}

impl Replay {
    /// What is in `span` was missed for `cause`.
    pub(crate) fn new(span: Span, cause: Cause, lasted: Duration) -> Self {
        Self {
            span,
            cause,
            lasted,
            count: FIRST,
            failures: 0,
            reading: None,
        }
    }

    pub(crate) fn cause(&self) -> Cause {
        self.cause
    }

    pub(crate) fn lasted(&self) -> Duration {
        self.lasted
    }

    /// Reads on in the log; `true` when that was all. What a call that is dropped has begun, the
    /// next one goes on with.
    pub(crate) async fn read(
        &mut self,
        redis: &Redis,
        log: &Key,
        channel: &Channel,
    ) -> (Vec<Read>, bool) {
        let (span, count, failures) = (self.span, self.count, self.failures);
        let begin = || -> Reading {
            let range = Command::new("XRANGE").key(log).idempotent();
            let range = range.arg(format!("{}-0", span.from));
            let range = range.arg(format!("{}-0", span.to));
            let range = range.arg("COUNT").arg(count);
            let redis = redis.clone();
            Box::pin(async move {
                if failures > 0 {
                    tokio::time::sleep(RETRY.jittered(failures - 1)).await;
                }
                redis.run(&range).await.and_then(entries)
            })
        };
        let read = self.reading.get_or_insert_with(begin).await;
        self.reading = None;
        let error = match read {
            Ok(entries) => {
                self.failures = 0;
                return self.take(entries);
            }
            Err(error) => error,
        };
        self.failures += 1;
        let (channel, detail) = (channel.clone(), Detail::error(&error));
        Signal::ReplayFailed {
            channel,
            error: detail,
        }
        .emit();
        let is_final = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corrupt);
        if is_final || self.failures == ATTEMPTS {
            (vec![Read::Unread(self.span)], true)
        } else {
            (Vec::new(), false)
        }
    }

    /// Puts what was read in order, and notes how far that is.
    fn take(&mut self, entries: Vec<Entry>) -> (Vec<Read>, bool) {
        let mut found = Vec::with_capacity(entries.len());
        let more = entries.len() as u64 == self.count;
        let mut bytes = 0;
        // From where nothing has been found or told yet.
        let mut next = self.span.from;
        let mut reached = self.span.from;
        for Entry { sequence, message } in entries {
            bytes += message.len() as u64;
            reached = sequence + 1;
            let epoch = self.span.epoch;
            let at = Position { epoch, sequence };
            if let Ok(frame) = Frame::read(&message)
                && frame.position == at
            {
                found.extend(self.gone(next, sequence - 1));
                found.push(Read::Message(message.into(), frame));
                next = sequence + 1;
            }
        }
        let is_over = !more || reached > self.span.to;
        let told = if is_over { self.span.to + 1 } else { reached };
        found.extend(self.gone(next, told - 1));
        self.span.from = told;
        let average = bytes / self.count + 1;
        self.count = (BYTES / average).clamp(1, MOST);
        (found, is_over)
    }

    fn gone(&self, from: u64, to: u64) -> Option<Read> {
        let epoch = self.span.epoch;
        (from <= to).then_some(Read::Gone(Span { epoch, from, to }))
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Replay")
            .field("span", &self.span)
            .finish_non_exhaustive()
    }
}

/// One entry of the log: `sequence-0` and its frame.
struct Entry {
    sequence: u64,
    message: Vec<u8>,
}

fn entries(reply: Reply) -> Result<Vec<Entry>> {
    let entries = reply.list()?.into_iter().map(|entry| {
        let [id, fields] = entry.array()?;
        let [_, message] = fields.array()?;
        let id = id.text()?;
        let sequence = id.split_once('-').and_then(|(first, _)| first.parse().ok());
        let foreign = || Error::corrupt("the log of a topic is something else");
        Ok(Entry {
            sequence: sequence.ok_or_else(foreign)?,
            message: message.bytes()?,
        })
    });
    entries.collect()
}
