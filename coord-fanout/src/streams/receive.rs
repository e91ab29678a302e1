//! Handing messages out.

use std::time::Duration;

use coord_core::{Error, ErrorKind, Name, Result, TraceContext};
use coord_redis::{Command, Reply};
use tokio::time::Instant;

use super::{CONSUMERS, Inner, RECEIVE};
use crate::queue::{AGAIN, Delivery, Message, Receipt};
use crate::signals::{Burial, Signal};

/// Most messages in one reply, which other calls wait behind: 32 MiB at worst.
const MOST: usize = 128;

/// The longest wait of one receive, so that every duration may be asked for.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// The longest time between two looks for overdue deliveries.
const LONGEST_SWEEP: Duration = Duration::from_secs(5);

/// Where the search for overdue deliveries is.
#[derive(Debug)]
pub(super) struct Sweep {
    /// Where to look next.
    cursor: String,
    /// When to start again after the end.
    next: Instant,
}

impl Sweep {
    const START: &str = "0-0";

    pub(super) fn new(now: Instant) -> Self {
        Self {
            cursor: Self::START.to_owned(),
            next: now,
        }
    }

    /// Where to look now; nothing while it is too early.
    fn due(&self, now: Instant) -> Option<&str> {
        (now >= self.next).then_some(&self.cursor)
    }

    /// Notes where a look ended.
    fn looked(&mut self, cursor: String, now: Instant, every: Duration) {
        if cursor == Self::START {
            self.next = now + every;
        }
        self.cursor = cursor;
    }
}

/// What one call took.
struct Taken {
    /// When the next delayed message is due.
    next_due: Option<Duration>,
    /// Where to look on for overdue deliveries, if it was looked.
    cursor: Option<String>,
    overdue: usize,
    entries: Vec<Entry>,
}

/// An entry of the stream in our hands.
struct Entry {
    id: String,
    /// How often this entry was delivered.
    times: u32,
    /// Nothing where it is not one of ours.
    content: Option<Content>,
}

struct Content {
    message: Message,
    /// Attempts under earlier entries.
    earlier: u32,
}

impl Inner {
    pub(super) async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Delivery>> {
        let (max, until) = (max.clamp(1, MOST), Instant::now() + wait.min(LONGEST_WAIT));
        let mut failed_waits = 0;
        loop {
            let sent = Instant::now();
            let taken = self.take(max, sent).await?;
            let deliveries = self.handable(taken.entries, sent).await?;
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
            let Some(block) = self.block(taken.next_due, until) else {
                return Ok(deliveries);
            };
            let sent = Instant::now();
            let entries = match self.block_for(max, block).await {
                Ok(entries) => entries,
                // Nothing was read. The next look repairs what is missing, or says why it cannot;
                // a server that answers looks and refuses waits (it may have no connection left
                // for them) is looked at after a pause.
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    let pause = AGAIN.jittered(failed_waits);
                    tokio::time::sleep_until(until.min(Instant::now() + pause)).await;
                    failed_waits += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let deliveries = self.handable(entries, sent).await?;
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
        }
    }

    /// How long to wait for new messages: until something else may be there to take. Nothing when
    /// the time is up.
    fn block(&self, next_due: Option<Duration>, until: Instant) -> Option<Duration> {
        let now = Instant::now();
        let left = until
            .checked_duration_since(now)
            .filter(|left| !left.is_zero())?;
        let next_sweep = self.sweep().next.saturating_duration_since(now);
        Some(left.min(next_sweep).min(next_due.unwrap_or(Duration::MAX)))
    }

    fn sweep_every(&self) -> Duration {
        (self.options.visibility.as_duration() / 4).min(LONGEST_SWEEP)
    }

    async fn take(&self, max: usize, now: Instant) -> Result<Taken> {
        let cursor = self.sweep().due(now).unwrap_or_default().to_owned();
        let command = RECEIVE
            .call(&[&self.keys.ready, &self.keys.delayed])
            .arg(CONSUMERS)
            .arg(CONSUMERS)
            .arg(max)
            .arg(self.options.visibility.as_millis())
            .arg(MOST)
            .arg(cursor);
        let taken = taken(self.redis.run(&command).await?)?;
        if let Some(cursor) = &taken.cursor {
            self.sweep().looked(cursor.clone(), now, self.sweep_every());
        }
        if taken.overdue > 0 {
            Signal::QueueReclaimed {
                messages: taken.overdue as u64,
                queue: self.name.clone(),
            }
            .emit();
        }
        Ok(taken)
    }

    async fn block_for(&self, max: usize, block: Duration) -> Result<Vec<Entry>> {
        // Zero would wait for ever.
        let millis = (block.as_nanos().div_ceil(1_000_000) as u64).max(1);
        let command = Command::new("XREADGROUP")
            .arg("GROUP")
            .arg(CONSUMERS)
            .arg(CONSUMERS)
            .arg("COUNT")
            .arg(max)
            .arg("BLOCK")
            .arg(millis)
            .arg("STREAMS")
            .key(&self.keys.ready)
            .arg(">");
        let reply = self
            .redis
            .run_blocking(&command, Duration::from_millis(millis))
            .await?;
        let Some(streams) = reply.optional() else {
            return Ok(Vec::new());
        };
        let [stream] = streams.array()?;
        // A pair, or what a map became: the stream and its entries.
        let [_, entries] = stream.array()?;
        entries.list()?.into_iter().map(new_entry).collect()
    }

    /// Sorts out what can be handed to nobody, and gives that up.
    async fn handable(&self, entries: Vec<Entry>, sent: Instant) -> Result<Vec<Delivery>> {
        let valid_until = self.valid_until(sent);
        let (mut deliveries, mut hopeless) = (Vec::new(), Vec::new());
        for entry in entries {
            let receipt = Receipt::new(format!("{}/{}", entry.id, entry.times));
            let Some(Content { message, earlier }) = entry.content else {
                let id = Name::new(&entry.id)
                    .map_err(|error| Error::corrupt("an entry has no id").with_source(error))?;
                let delivery = Delivery {
                    message: Message::new(id, []),
                    attempt: entry.times,
                    receipt,
                    valid_until,
                };
                hopeless.push((delivery, Burial::Foreign));
                continue;
            };
            let delivery = Delivery {
                message,
                attempt: earlier.saturating_add(entry.times),
                receipt,
                valid_until,
            };
            if delivery.attempt > self.options.attempts.get() {
                hopeless.push((delivery, Burial::Abandoned));
            } else {
                deliveries.push(delivery);
            }
        }
        match self.bury(&hopeless).await {
            // What could not be given up now comes back; what can be handed out is.
            Err(error) if deliveries.is_empty() => Err(error),
            _ => Ok(deliveries),
        }
    }
}

fn taken(reply: Reply) -> Result<Taken> {
    let [next_due, cursor, overdue, new] = reply.array()?;
    let overdue: Vec<_> = overdue
        .list()?
        .into_iter()
        .map(overdue_entry)
        .collect::<Result<_>>()?;
    let new = new.list()?.into_iter().map(new_entry);
    Ok(Taken {
        next_due: u64::try_from(next_due.int()?)
            .ok()
            .map(Duration::from_millis),
        cursor: Some(cursor.text()?).filter(|cursor| !cursor.is_empty()),
        overdue: overdue.len(),
        entries: overdue
            .into_iter()
            .map(Ok)
            .chain(new)
            .collect::<Result<_>>()?,
    })
}

fn overdue_entry(reply: Reply) -> Result<Entry> {
    let [id, fields, times] = reply.array()?;
    let times = u32::try_from(times.int()?).unwrap_or(u32::MAX);
    entry(id, fields, times)
}

fn new_entry(reply: Reply) -> Result<Entry> {
    let [id, fields] = reply.array()?;
    entry(id, fields, 1)
}

fn entry(id: Reply, fields: Reply, times: u32) -> Result<Entry> {
    Ok(Entry {
        id: id.text()?,
        times,
        content: content(fields.list()?),
    })
}

/// The message that `fields` hold, and the number of attempts; nothing if they are not ours.
fn content(fields: Vec<Reply>) -> Option<Content> {
    let (message, attempts, _) = message(fields)?;
    Some(Content {
        message,
        earlier: attempts,
    })
}

/// The message, the number of attempts and the reason that `fields` hold.
pub(super) fn message(fields: Vec<Reply>) -> Option<(Message, u32, Option<String>)> {
    let (mut id, mut group, mut attempts, mut body, mut reason) = (None, None, 0, None, None);
    let mut trace = None;
    let mut fields = fields.into_iter();
    while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
        match field.bytes().ok()?.as_slice() {
            b"i" => id = Some(Name::new(value.text().ok()?).ok()?),
            b"g" => {
                let text = value.text().ok()?;
                group = (!text.is_empty())
                    .then(|| Name::new(text))
                    .transpose()
                    .ok()?;
            }
            b"n" => attempts = u32::try_from(value.int().ok()?).ok()?,
            b"b" => body = Some(value.bytes().ok()?),
            // One that does not read costs the trace, and not the message.
            b"t" => {
                let text = value.text().ok();
                trace = text.and_then(|text| TraceContext::from_text(&text));
            }
            b"r" => reason = Some(value.text().ok()?),
            // A later version may have added it; its messages are not to be given up for that.
            _ => {}
        }
    }
    let message = Message {
        id: id?,
        group,
        body: body?,
        trace,
    };
    Some((message, attempts, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn an_entry_that_is_not_ours_has_no_message() {
        let fields = |texts: &[&str]| texts.iter().map(|text| bytes(text)).collect::<Vec<_>>();

        assert!(message(fields(&["i", "a", "g", "", "n", "0", "b", ""])).is_some());
        assert!(message(fields(&["i", "a", "b", "x", "later", "y"])).is_some());
        for foreign in [
            &["hello", "world"][..],
            &["i", "", "b", "x"],
            &["i", "a"],
            &["i", "a", "b", "x", "n", "many"],
        ] {
            assert!(message(fields(foreign)).is_none(), "{foreign:?}");
        }
    }

    #[test]
    fn an_entry_has_its_trace_and_one_that_does_not_read_is_none() {
        let trace = |text: Option<&str>| {
            let mut fields = vec![bytes("i"), bytes("a"), bytes("b"), bytes("x")];
            fields.extend(text.into_iter().flat_map(|text| [bytes("t"), bytes(text)]));
            let (message, ..) = message(fields).expect("one of ours");
            message.trace.map(|trace| trace.to_string())
        };
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 a=1";

        assert_eq!(trace(Some(text)).as_deref(), Some(text));
        assert_eq!(trace(None), None);
        assert_eq!(trace(Some("nothing")), None);
    }

    #[test]
    fn a_sweep_goes_on_where_it_was_and_rests_at_the_end() {
        let (start, every) = (Instant::now(), Duration::from_secs(1));
        let mut sweep = Sweep::new(start);

        assert_eq!(sweep.due(start), Some("0-0"));
        sweep.looked("5-1".to_owned(), start, every);
        assert_eq!(sweep.due(start), Some("5-1"));
        sweep.looked("0-0".to_owned(), start, every);
        assert_eq!(sweep.due(start + every - Duration::from_millis(1)), None);
        assert_eq!(sweep.due(start + every), Some("0-0"));
    }
}
