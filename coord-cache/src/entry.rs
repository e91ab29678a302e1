//! The entries of one cache as Redis has them: read, understood, written.

use std::sync::Arc;
use std::time::Duration;

use coord_core::{Error, ErrorKind, Key, Name, Result};
use coord_redis::{Receipt, Redis, Reply, ServerKind};
use tokio::time::Instant;

use crate::breaker::Breaker;
use crate::codec::Codec;
use crate::envelope::{self, Envelope, Head, Stamp, Write};
use crate::freshness::{self, Freshness, Time};
use crate::near::{Near, Ticket};
use crate::options::CacheOptions;
use crate::scripts;
use crate::signals::{Signal, Source, Unreadable};

/// What all clones of a cache share.
pub(crate) struct Entries<T> {
    pub(crate) redis: Redis,
    pub(crate) cache: Name,
    pub(crate) options: CacheOptions,
    pub(crate) near: Option<Near<T>>,
    pub(crate) breaker: Breaker,
    codec: Box<dyn Codec<T>>,
    /// Whether the server knows `SET NX GET`.
    sets_and_gets: bool,
}

/// What stands where an entry is asked for.
pub(crate) enum Seen<T> {
    Found(Found<T>),
    /// Nothing did; now there is the caller's placeholder.
    Placed,
    /// A placeholder.
    Filling(Stamp),
    /// An entry that cannot be used, and may be replaced.
    Unreadable(Vec<u8>),
    /// Something that is not the cache's.
    Foreign,
}

/// An entry; without a value it says that there is none.
pub(crate) struct Found<T> {
    pub(crate) value: Option<Arc<T>>,
    pub(crate) head: Head,
    pub(crate) freshness: Freshness,
    time: Option<Time>,
}

impl<T> Found<T> {
    /// The value, within its TTL.
    pub(crate) fn fresh(self) -> Option<Arc<T>> {
        self.value.filter(|_| self.freshness != Freshness::Stale)
    }
}

/// An entry that is being asked for.
struct Asked<'a> {
    name: &'a Name,
    key: Key,
    /// Taken before the request is sent.
    ticket: Option<Ticket>,
}

/// The bytes of an entry, with its PTTL where that matters.
type Stored = (Vec<u8>, Option<i64>);

impl<T: Send + Sync + 'static> Entries<T> {
    pub(crate) fn new(
        redis: &Redis,
        cache: &Name,
        options: CacheOptions,
        codec: impl Codec<T>,
    ) -> Self {
        let server = redis.server();
        let near = options.near.map(|near| Near::start(redis, cache, near));
        Self {
            redis: redis.clone(),
            cache: cache.clone(),
            near,
            breaker: Breaker::new(Instant::now(), redis.deadline()),
            codec: Box::new(codec),
            sets_and_gets: server.kind == ServerKind::Valkey || server.version.major >= 7,
            options,
        }
    }

    pub(crate) fn key(&self, name: &Name) -> Key {
        scripts::key(&self.redis, &self.cache, name)
    }

    /// Asks for an entry, and places the placeholder of `stamp` where there is none, or where
    /// `unreadable` is.
    pub(crate) async fn fetch(
        &self,
        (name, key): (&Name, &Key),
        (stamp, receipt): (Stamp, &Receipt),
        unreadable: &[u8],
    ) -> Result<Seen<T>> {
        let placeholder = envelope::placeholder(self.options.schema, stamp);
        let ticket = self.near.as_ref().and_then(|near| near.ticket(name));
        let is_plain = self.sets_and_gets && !self.options.is_timed() && unreadable.is_empty();
        let command = if is_plain {
            scripts::fetch_plain(key, &placeholder)
        } else {
            scripts::fetch(key, &placeholder, unreadable)
        };
        let sent_at = Instant::now();
        let reply = self.redis.run(&command.receipt(receipt)).await;
        let (bytes, pttl_ms) = match reply {
            Ok(Reply::Nil) => return Ok(Seen::Placed),
            Ok(Reply::List(pair)) => pair_of(Reply::List(pair))?,
            Ok(reply) => (reply.bytes()?, None),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tell(Unreadable::Foreign, key);
                return Ok(Seen::Foreign);
            }
            // Nothing more may be written, but what is there may still be read.
            Err(error) if is_refusal(&error, sent_at, self.redis.deadline()) => {
                return match self.read(name).await? {
                    Some(found) => Ok(Seen::Found(found)),
                    None => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        Ok(match self.understand(key, bytes, pttl_ms) {
            // An earlier attempt placed it, and its answer was lost.
            Seen::Filling(by) if by == stamp => Seen::Placed,
            Seen::Found(found) => Seen::Found(self.found(name, ticket, found)),
            seen => seen,
        })
    }

    /// Asks for what may be had without a loader, or says at once that Redis was away a moment ago.
    pub(crate) async fn ask<R>(&self, asking: impl Future<Output = Result<R>>) -> Result<R> {
        if self.breaker.lets_through(Instant::now()) {
            return self.breaker.watch(asking).await;
        }
        let cache = &self.cache;
        let message = format!("reading from {cache}: redis did not answer a moment ago");
        Err(Error::unavailable(message))
    }

    /// The entry that is there, and fresh enough to be had without a loader.
    pub(crate) async fn read(&self, name: &Name) -> Result<Option<Found<T>>> {
        let asked = self.asked(name);
        let stored = if self.options.is_timed() {
            let reply = self.redis.run(&scripts::read(&[&asked.key])).await?;
            let [value, pttl_ms] = reply.array()?;
            timed(value, pttl_ms)?
        } else {
            plain(self.redis.run(&scripts::get(&asked.key)).await?)?
        };
        self.answered(&asked, stored)
    }

    /// Reads the entries of one slot, or all where there are no slots.
    pub(crate) async fn read_many(&self, names: &[Name]) -> Result<Vec<Option<Found<T>>>> {
        let asked: Vec<_> = names.iter().map(|name| self.asked(name)).collect();
        let keys: Vec<_> = asked.iter().map(|asked| &asked.key).collect();
        let stored: Vec<_> = if self.options.is_timed() {
            let reply = self.redis.run(&scripts::read(&keys)).await?;
            let mut items = reply.list()?.into_iter();
            let pairs = std::iter::from_fn(|| Some((items.next()?, items.next()?)));
            pairs
                .map(|(value, pttl_ms)| timed(value, pttl_ms))
                .collect::<Result<_>>()?
        } else {
            let reply = self.redis.run(&scripts::get_many(&keys)).await?;
            reply
                .list()?
                .into_iter()
                .map(plain)
                .collect::<Result<_>>()?
        };
        let answers = asked.iter().zip(stored);
        answers
            .map(|(asked, stored)| self.answered(asked, stored))
            .collect()
    }

    fn asked<'a>(&self, name: &'a Name) -> Asked<'a> {
        Asked {
            name,
            key: self.key(name),
            ticket: self.near.as_ref().and_then(|near| near.ticket(name)),
        }
    }

    /// What is stored, to somebody without a loader.
    fn answered(&self, asked: &Asked<'_>, stored: Option<Stored>) -> Result<Option<Found<T>>> {
        let Some((bytes, pttl_ms)) = stored else {
            return Ok(None);
        };
        match self.understand(&asked.key, bytes, pttl_ms) {
            Seen::Found(found) => Ok(Some(self.found(asked.name, asked.ticket, found))),
            Seen::Foreign => Err(Error::corrupt(format!("{}: not of the cache", asked.key))),
            Seen::Placed | Seen::Filling(_) | Seen::Unreadable(_) => Ok(None),
        }
    }

    /// What these bytes say.
    fn understand(&self, key: &Key, bytes: Vec<u8>, pttl_ms: Option<i64>) -> Seen<T> {
        let entry = match envelope::open(&bytes, self.options.schema) {
            Envelope::Placeholder(stamp) => return Seen::Filling(stamp),
            Envelope::Entry(entry) => entry,
            Envelope::Outdated => {
                tell(Unreadable::Outdated, key);
                return Seen::Unreadable(bytes);
            }
            Envelope::Foreign => {
                tell(Unreadable::Foreign, key);
                return Seen::Foreign;
            }
        };
        let payload = entry.payload.bytes(self.options.max_bytes);
        let value = payload.and_then(|payload| match payload {
            Some(bytes) => Ok(Some(Arc::new(self.codec.decode(&bytes)?))),
            None => Ok(None),
        });
        let Ok(value) = value else {
            tell(Unreadable::Undecodable, key);
            return Seen::Unreadable(bytes);
        };
        let time = pttl_ms.map(|pttl_ms| Time {
            pttl_ms,
            stale_ms: entry.stale_ms,
            load_ms: entry.load_ms,
        });
        Seen::Found(Found {
            value,
            head: entry.head,
            freshness: time.map_or(Freshness::Fresh, |time| {
                time.judge(self.options.early.then(rand::random))
            }),
            time,
        })
    }

    /// Keeps what was found in the process, too, and tells of it.
    fn found(&self, name: &Name, ticket: Option<Ticket>, found: Found<T>) -> Found<T> {
        if let (Some(near), Some(ticket), Some(time)) = (&self.near, ticket, found.time) {
            let gap_by = self.options.early.then(rand::random);
            let life = time.near_for(near.life, gap_by);
            near.keep(ticket, name, found.value.clone(), life);
            near.tell_hits();
        }
        Signal::Hit {
            source: Source::Redis,
            hits: 1,
            cache: self.cache.clone(),
        }
        .emit();
        found
    }

    /// The entry to store for what a loader gave, with its TTL; nothing where it is not kept that
    /// there is nothing.
    ///
    /// # Errors
    /// `Invalid` for a value that is too large or that the codec refuses.
    pub(crate) fn encode(
        &self,
        value: Option<&T>,
        load: Duration,
    ) -> Result<Option<(Vec<u8>, u64)>> {
        let options = &self.options;
        let life = match value {
            Some(_) => options.ttl,
            None => match options.negative {
                Some(life) => life,
                None => return Ok(None),
            },
        };
        // That there is nothing is never served after its time.
        let stale = options.stale.filter(|_| value.is_some());
        let write = Write {
            schema: options.schema,
            stamp: rand::random(),
            load_ms: u32::try_from(load.as_millis()).unwrap_or(u32::MAX),
            stale_ms: stale.map_or(0, crate::Life::as_millis),
        };
        let ttl_ms = freshness::jittered_ms(life.as_millis(), rand::random()) + write.stale_ms;
        let Some(value) = value else {
            return Ok(Some((write.negative(), ttl_ms)));
        };
        let encode = |out: &mut Vec<u8>| self.codec.encode(value, out);
        let (entry, size) = write.value(options.compress_from, encode)?;
        if size > options.max_bytes {
            return Err(Error::invalid(format!(
                "a value of {}: {size} bytes, more than {}",
                self.cache, options.max_bytes
            )));
        }
        Ok(Some((entry, ttl_ms)))
    }

    /// Forgets in the process what is about to change, or has changed.
    pub(crate) fn forget_near(&self, name: &Name) {
        if let Some(near) = &self.near {
            near.forget(name);
        }
    }
}

/// Whether the server was there and said no at once.
fn is_refusal(error: &Error, sent_at: Instant, deadline: Duration) -> bool {
    error.kind() == ErrorKind::Unavailable && sent_at.elapsed() < deadline / 2
}

fn pair_of(reply: Reply) -> Result<Stored> {
    let [value, pttl_ms] = reply.array()?;
    Ok((value.bytes()?, Some(pttl_ms.int()?)))
}

fn plain(value: Reply) -> Result<Option<Stored>> {
    let value = value.optional().map(|value| Ok((value.bytes()?, None)));
    value.transpose()
}

fn timed(value: Reply, pttl_ms: Reply) -> Result<Option<Stored>> {
    let value = value
        .optional()
        .map(|value| Ok((value.bytes()?, Some(pttl_ms.int()?))));
    value.transpose()
}

fn tell(cause: Unreadable, key: &Key) {
    let entry = key.clone();
    Signal::Unreadable { cause, entry }.emit();
}
