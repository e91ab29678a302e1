//! One load, from the question to the stored value.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Error, ErrorKind, Key, Name, Result};
use coord_redis::{Receipt, Redis, Reply};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::cache::Shared;
use crate::entry::{Entries, Found, Seen};
use crate::envelope::{self, Head, Stamp};
use crate::error::LoadError;
use crate::flight::{Lead, Seat};
use crate::freshness::Freshness;
use crate::scripts::{self, FILL_MS};
use crate::signals::{Failure, Signal, Sparer, Unstored};
use crate::wait::News;
use crate::{refresh, wait};

/// Two renewals of a placeholder may fail in a row.
const RENEW_EVERY: Duration = Duration::from_millis(FILL_MS / 3);

/// What a caller's loader becomes, so that one that is kept for later has no type of its own.
pub(crate) type Load<T> = Box<dyn FnOnce() -> Loading<T> + Send>;
pub(crate) type Loading<T> = Pin<Box<dyn Future<Output = Loaded<T>> + Send>>;
pub(crate) type Loaded<T> = Result<Option<T>, Arc<dyn StdError + Send + Sync>>;

/// A placeholder that may stand for this load. Dropping it removes it in the background, unless it
/// is known to be gone.
pub(crate) struct Place {
    redis: Redis,
    key: Key,
    stamp: Stamp,
    pub(crate) head: Head,
    receipt: Receipt,
    may_stand: bool,
}

impl Place {
    fn new(redis: &Redis, key: &Key, schema: u16) -> Self {
        let stamp = rand::random();
        Self {
            redis: redis.clone(),
            key: key.clone(),
            stamp,
            head: envelope::placeholder(schema, stamp),
            receipt: Receipt::default(),
            may_stand: false,
        }
    }

    /// Notes that what the caller did has removed or replaced it.
    fn is_gone(&mut self) {
        self.may_stand = false;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.may_stand || self.receipt.is_empty() {
            return;
        }
        let forget = scripts::forget(&self.redis, &self.key, &self.head);
        let (redis, receipt) = (self.redis.clone(), self.receipt.clone());
        let until = Instant::now() + Duration::from_millis(FILL_MS);
        self.redis.spawn(async move {
            let removed = |reply: &Reply| matches!(reply, Reply::Int(1));
            // What could not be removed ends by itself, and is told by redis.release.abandoned.
            _ = redis.settle(&forget, &receipt, removed, until).await;
        });
    }
}

/// The work for one entry, led by one caller.
pub(crate) struct Work<T> {
    shared: Arc<Shared<T>>,
    name: Name,
    key: Key,
    load: Load<T>,
    lead: Lead<T>,
    place: Place,
}

impl<T: Send + Sync + 'static> Work<T> {
    pub(crate) fn new(shared: &Arc<Shared<T>>, name: &Name, lead: Lead<T>, load: Load<T>) -> Self {
        let entries = &shared.entries;
        let key = entries.key(name);
        Self {
            place: Place::new(&entries.redis, &key, entries.options.schema),
            shared: Arc::clone(shared),
            name: name.clone(),
            key,
            load,
            lead,
        }
    }

    pub(crate) fn seat(&self) -> Seat<T> {
        self.lead.seat()
    }

    /// Asks Redis for the entry, or says at once that it was away a moment ago.
    pub(crate) async fn ask(&mut self) -> Result<Seen<T>> {
        if !self.shared.entries.breaker.lets_through(Instant::now()) {
            return Err(Error::unavailable("redis did not answer a moment ago"));
        }
        self.fetch(&[]).await
    }

    async fn fetch(&mut self, unreadable: &[u8]) -> Result<Seen<T>> {
        let entries = &self.shared.entries;
        self.place.may_stand = true;
        let asked = (&self.name, &self.key);
        let placing = (self.place.stamp, &self.place.receipt);
        let fetching = entries.fetch(asked, placing, unreadable);
        let seen = entries.breaker.watch(fetching).await;
        let may_stand = match &seen {
            Ok(seen) => matches!(seen, Seen::Placed),
            Err(error) => error.kind() == ErrorKind::Timeout,
        };
        if !may_stand {
            self.place.is_gone();
        }
        seen
    }

    /// Ends with an entry that was found, and has it loaded anew if that is due.
    pub(crate) fn found(self, found: Found<T>, runtime: &Handle) {
        self.lead.land(Ok(found.value), false);
        if found.freshness == Freshness::Stale {
            let entry = self.key.clone();
            Signal::Stale { entry }.emit();
        }
        if found.freshness != Freshness::Fresh {
            refresh::start(&self.shared, runtime, (self.name, found.head), self.load);
        }
    }

    /// Goes on from what was seen first until the flight has ended.
    pub(crate) async fn run(mut self, first: Option<Result<Seen<T>>>) {
        // Long enough for the load of another process, and for it to be found dead.
        let limit = self.shared.entries.options.load_timeout;
        let until = Instant::now() + limit + Duration::from_millis(FILL_MS);
        let mut news = News::default();
        let mut unreadable = Vec::new();
        let mut next = first;
        loop {
            let seen = match next.take() {
                Some(seen) => seen,
                None => self.fetch(&unreadable).await,
            };
            match seen {
                Ok(Seen::Found(found)) => {
                    if news.was_waited_for() {
                        spared(Sparer::Fleet, &self.key);
                    }
                    return self.found(found, &Handle::current());
                }
                Ok(Seen::Placed) => return self.fill().await,
                Ok(Seen::Filling(_)) => {
                    let redis = &self.shared.entries.redis;
                    if news.wait(redis, &self.key, until).await == wait::Over::Deadline {
                        failed(Failure::Timeout, &self.key, "another process loads it");
                        return self.lead.land(Err(LoadError::TimedOut(limit)), true);
                    }
                }
                Ok(Seen::Unreadable(bytes)) => unreadable = bytes,
                Ok(Seen::Foreign) => return self.load_only(None).await,
                Err(error) => return self.load_only(Some(error)).await,
            }
        }
    }

    /// Loads the value under the placeholder, and stores it in its place.
    async fn fill(mut self) {
        let entries = &self.shared.entries;
        let cache = entries.cache.clone();
        Signal::Miss { cache }.emit();
        let loading = load(entries, &self.key, self.load);
        let loaded = tokio::select! {
            loaded = loading => loaded,
            () = renewed(&entries.redis, &self.key, &self.place.head) => unreachable!("it renews for ever"),
        };
        match loaded {
            Ok((value, took)) => {
                let value = value.map(Arc::new);
                let there = (&self.place.head, &[][..]);
                if store(entries, &self.key, there, (value.as_deref(), took)).await {
                    self.place.is_gone();
                }
                self.lead.land(Ok(value), true);
            }
            // The placeholder is removed, and those who wait in other processes are told.
            Err(error) => self.lead.land(Err(error), true),
        }
    }

    /// Loads the value for those who wait here, while Redis does not answer or has something
    /// foreign there.
    async fn load_only(mut self, error: Option<Error>) {
        let entries = &self.shared.entries;
        if let Some(error) = error {
            let (entry, error) = (self.key.clone(), Detail::error(&error));
            Signal::Degraded { entry, error }.emit();
        }
        match load(entries, &self.key, self.load).await {
            Ok((value, took)) => {
                let value = value.map(Arc::new);
                self.lead.land(Ok(value.clone()), true);
                // The placeholder may have been placed, and its answer lost.
                if self.place.may_stand {
                    let there = (&self.place.head, &[][..]);
                    if store(entries, &self.key, there, (value.as_deref(), took)).await {
                        self.place.is_gone();
                    }
                }
            }
            Err(error) => self.lead.land(Err(error), true),
        }
    }
}

/// Runs the loader for as long as the cache allows, and says how long it took.
pub(crate) async fn load<T: Send + Sync + 'static>(
    entries: &Entries<T>,
    key: &Key,
    load: Load<T>,
) -> Result<(Option<T>, Duration), LoadError> {
    let _told = Panicking(key);
    let start = Instant::now();
    let limit = entries.options.load_timeout;
    match tokio::time::timeout(limit, async move { load().await }).await {
        Ok(Ok(value)) => {
            let elapsed_ms = start.elapsed();
            let entry = key.clone();
            Signal::Load { elapsed_ms, entry }.emit();
            Ok((value, elapsed_ms))
        }
        Ok(Err(error)) => {
            failed(Failure::Error, key, Detail::error(&*error));
            Err(LoadError::Failed(error))
        }
        Err(_) => {
            failed(Failure::Timeout, key, format!("no value within {limit:?}"));
            Err(LoadError::TimedOut(limit))
        }
    }
}

/// Tells of a panic that passes by.
struct Panicking<'a>(&'a Key);

impl Drop for Panicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            failed(Failure::Panic, self.0, "see the panic's own message");
        }
    }
}

fn failed(cause: Failure, key: &Key, error: impl std::fmt::Display) {
    Signal::LoadFailed {
        cause,
        entry: key.clone(),
        error: Detail::new(error),
    }
    .emit();
}

pub(crate) fn spared(by: Sparer, key: &Key) {
    let entry = key.clone();
    Signal::Spared { by, entry }.emit();
}

/// Lets the placeholder stand until this is dropped. One that is gone stays so: the load goes on
/// for those who wait for it here, and its value will not be stored.
async fn renewed(redis: &Redis, key: &Key, head: &Head) {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        let renewal = redis.run(&scripts::renew(key, head)).await;
        if matches!(renewal, Ok(Reply::Int(0))) {
            std::future::pending::<()>().await;
        }
    }
}

/// Stores a loaded value where `there` still is: the head that stands there, and that of the mark.
/// Says whether that head is known to be gone.
pub(crate) async fn store<T: Send + Sync + 'static>(
    entries: &Entries<T>,
    key: &Key,
    there: (&Head, &[u8]),
    (value, took): (Option<&T>, Duration),
) -> bool {
    let redis = &entries.redis;
    let not_stored = |cause, error: Detail| {
        let entry = key.clone();
        Signal::NotStored {
            cause,
            entry,
            error,
        }
        .emit();
    };
    let command = match entries.encode(value, took) {
        Ok(Some((entry, ttl_ms))) => scripts::store(redis, key, there, (&entry, ttl_ms)),
        Ok(None) => scripts::forget(redis, key, there.0),
        Err(error) => {
            not_stored(Unstored::Unfit, Detail::error(&error));
            scripts::forget(redis, key, there.0)
        }
    };
    match redis.run(&command).await.and_then(Reply::int) {
        Ok(0) => {
            not_stored(Unstored::Undone, Detail::new("deleted or set meanwhile"));
            true
        }
        Ok(_) => true,
        Err(error) => {
            not_stored(Unstored::Refused, Detail::error(&error));
            false
        }
    }
}
