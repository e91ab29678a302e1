//! A cache, and what one does with it.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use coord_core::signals::Detail;
use coord_core::{Error, Name, Result};
use coord_redis::Redis;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use crate::codec::{Codec, Json};
use crate::entry::{Entries, Found, Seen};
use crate::error::LoadError;
use crate::flight::{Entered, Flights, Landed};
use crate::load::{self, Load, Work};
use crate::near::Held;
use crate::options::CacheOptions;
use crate::refresh::Refreshing;
use crate::scripts::{self, KIND};
use crate::signals::{SIGNALS, Signal, Source, Sparer};

/// The cache of one kind of value, such as the users by their number. Clones share its loads and
/// its near cache, so make one and clone it.
pub struct Cache<T>(Arc<Shared<T>>);

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What all clones of a cache share.
pub(crate) struct Shared<T> {
    pub(crate) entries: Entries<T>,
    pub(crate) refreshing: Refreshing,
    flights: Flights<T>,
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Runs `work` on the caller's runtime: loaders are callers' code, and may take long. It ends
    /// by the load timeout; [`Redis::shutdown`] waits for it.
    pub(crate) fn launch(&self, runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
        let task = runtime.spawn(work);
        // A panic is told to those who wait for the flight.
        self.entries.redis.spawn(async move { _ = task.await });
    }
}

/// A caller that leads a flight. If it is dropped, the flight goes on in the background.
struct Boarding<T: Send + Sync + 'static> {
    work: Option<Work<T>>,
    shared: Arc<Shared<T>>,
    runtime: Handle,
}

impl<T: Send + Sync + 'static> Boarding<T> {
    fn work(&mut self) -> &mut Work<T> {
        self.work.as_mut().expect("it is taken by `take` alone")
    }

    fn take(mut self) -> (Option<Work<T>>, Handle) {
        (self.work.take(), self.runtime.clone())
    }
}

impl<T: Send + Sync + 'static> Drop for Boarding<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.shared.launch(&self.runtime, work.run(None));
        }
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Cache<T> {
    /// The cache `name`, whose values are stored as JSON. With a near cache it begins to listen;
    /// otherwise nothing is sent before the first call.
    pub fn new(redis: &Redis, name: &Name, options: CacheOptions) -> Self {
        Self::with_codec(redis, name, options, Json)
    }
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// The cache `name`, whose values are stored as `codec` says.
    pub fn with_codec(
        redis: &Redis,
        name: &Name,
        options: CacheOptions,
        codec: impl Codec<T>,
    ) -> Self {
        coord_core::signals::register(SIGNALS);
        Self(Arc::new(Shared {
            entries: Entries::new(redis, name, options, codec),
            flights: Flights::new(),
            refreshing: Refreshing::default(),
        }))
    }

    /// The value of `name` if it is there and within its TTL; nothing also when it is known that
    /// there is nothing, and while it is being loaded.
    ///
    /// # Errors
    /// `Unavailable` and `Timeout` when Redis did not answer within the client's deadline; in the
    /// second after that, `Unavailable` at once. `Corrupt` when something else is stored there.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn get(&self, name: &Name) -> Result<Option<Arc<T>>> {
        if let Some(held) = self.near(name) {
            return Ok(held.value);
        }
        let entries = &self.0.entries;
        let found = entries.ask(entries.read(name)).await?;
        Ok(found.and_then(Found::fresh))
    }

    /// The values of `names`, in their order, as [`get`](Self::get) gives them: one call, or on a
    /// cluster one a slot, all at once.
    ///
    /// # Errors
    /// As [`get`](Self::get), of the first call that fails.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn get_many(&self, names: &[Name]) -> Result<Vec<Option<Arc<T>>>> {
        let mut values: Vec<_> = names
            .iter()
            .map(|name| self.near(name).map(|held| held.value))
            .collect();
        let far = |index: &usize| values[*index].is_none();
        let far: Vec<usize> = (0..names.len()).filter(far).collect();
        if !far.is_empty() {
            let asked: Vec<_> = far.iter().map(|index| names[*index].clone()).collect();
            let found = self.0.entries.ask(self.get_all(&asked)).await?;
            for (index, value) in far.into_iter().zip(found) {
                values[index] = Some(value);
            }
        }
        Ok(values.into_iter().map(Option::flatten).collect())
    }

    fn near(&self, name: &Name) -> Option<Held<T>> {
        self.0.entries.near.as_ref()?.get(name)
    }

    /// The value of `name`; where it is not there, what `load` gives, which is stored.
    ///
    /// One load at a time runs for a name, in this process and, as long as Redis answers, in all
    /// processes; everybody else waits for it and gets the same value or error. A load gives
    /// `Ok(value)` or `Ok(Some(value))`, or `Ok(None)`: that there is nothing. Its errors are not
    /// stored. A value that was deleted or set while it was being loaded is handed to those who
    /// wait for it, and not stored.
    ///
    /// A hit takes one round trip, or none with a near cache. A miss takes two around its load. An
    /// entry in its stale window is served at once, and loaded anew in the background.
    ///
    /// When Redis does not answer within the client's deadline, `load` runs without it, still once
    /// at a time in this process; in the second after that it runs at once.
    ///
    /// `load` runs on the runtime of the caller that began it, in a task of its own. It must not
    /// block its thread, nor ask the same cache for the same name.
    ///
    /// # Errors
    /// Only where no value can be had: what `load` failed with, or that it took longer than the
    /// load timeout, here or in the process that loads.
    ///
    /// # Cancel safety
    /// Safe: a load that has begun, or was about to, goes on for those who wait for it, and stores
    /// its value also when nobody does.
    pub async fn get_or_fetch<L, F, V, E>(
        &self,
        name: &Name,
        load: L,
    ) -> Result<Option<Arc<T>>, LoadError>
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<V, E>> + Send + 'static,
        V: Into<Option<T>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(held) = self.near(name) {
            return Ok(held.value);
        }
        let lead = match self.0.flights.enter(name) {
            Entered::Joins(seat) => return self.joined(name, seat.landed().await),
            Entered::Leads(lead) => lead,
        };
        let load: Load<T> = Box::new(|| {
            let loading = load();
            Box::pin(async move {
                match loading.await {
                    Ok(value) => Ok(value.into()),
                    Err(error) => Err(Arc::from(error.into())),
                }
            })
        });
        let mut boarding = Boarding {
            work: Some(Work::new(&self.0, name, lead, load)),
            shared: Arc::clone(&self.0),
            runtime: Handle::current(),
        };
        let first = boarding.work().ask().await;
        let (Some(work), runtime) = boarding.take() else {
            unreachable!("nobody else took it");
        };
        match first {
            Ok(Seen::Found(found)) => {
                let value = found.value.clone();
                work.found(found, &runtime);
                Ok(value)
            }
            first => {
                let seat = work.seat();
                self.0.launch(&runtime, work.run(Some(first)));
                seat.landed().await.outcome
            }
        }
    }

    fn joined(&self, name: &Name, landed: Landed<T>) -> Result<Option<Arc<T>>, LoadError> {
        if landed.was_loaded {
            load::spared(Sparer::Process, &self.0.entries.key(name));
        } else {
            Signal::Hit {
                source: Source::Redis,
                hits: 1,
                cache: self.0.entries.cache.clone(),
            }
            .emit();
        }
        landed.outcome
    }

    /// Stores `value` under `name`, whatever is there; a load that is under way will not undo it.
    ///
    /// # Errors
    /// `Unavailable`: not stored. `Timeout`: it is unknown; setting it again is harmless.
    /// `Invalid` for a value that is too large or that the codec refuses.
    ///
    /// # Cancel safety
    /// Safe to call again. A dropped call may have stored the value.
    pub async fn set(&self, name: &Name, value: &T) -> Result<()> {
        let changing = Changing(&self.0, std::slice::from_ref(name));
        let (entry, ttl_ms) = self.encode(value)?;
        let key = changing.0.entries.key(name);
        let set = scripts::set(&key, &entry, ttl_ms);
        self.0.entries.redis.run(&set).await.map(drop)
    }

    pub(crate) fn encode(&self, value: &T) -> Result<(Vec<u8>, u64)> {
        let encoded = self
            .0
            .entries
            .encode(Some(value), std::time::Duration::ZERO);
        Ok(encoded?.expect("a value is always kept"))
    }

    /// Removes the value of `name`. When this returns, no call that begins afterwards in this
    /// process is served the old value, nor one in another process that asks Redis; no load that is
    /// under way will bring it back. A near cache of another process may serve it until the news
    /// arrive, and those who have joined a load there get what it loads.
    ///
    /// # Errors
    /// `Unavailable`: it did not happen. `Timeout`: it is unknown. Both are told by the signal
    /// `redis.cache.delete_failed`, and deleting again is harmless.
    ///
    /// # Cancel safety
    /// Safe to call again. A dropped call may have removed the value.
    pub async fn delete(&self, name: &Name) -> Result<()> {
        let entries = &self.0.entries;
        let _changing = Changing(&self.0, std::slice::from_ref(name));
        let key = entries.key(name);
        let deleted = entries.redis.run(&scripts::delete(&key)).await;
        deleted
            .map(drop)
            .map_err(|error| delete_failed(&key, error))
    }

    /// Removes the values of all names that start with `start`, and says how many; one that comes
    /// meanwhile may stay. It scans and removes in steps, so that the server is never blocked for
    /// longer than one of some thousand keys.
    ///
    /// # Errors
    /// As [`delete`](Self::delete); what was removed before the error is gone.
    ///
    /// # Cancel safety
    /// Safe to call again: some may be left.
    pub async fn delete_prefix(&self, start: &str) -> Result<u64> {
        let entries = &self.0.entries;
        let _changing = ChangingAll(&self.0, start);
        let pattern = entries
            .redis
            .keys()
            .pattern_within(KIND, &[&entries.cache], start);
        let removed = entries.redis.remove(&pattern).await;
        removed.map_err(|error| delete_failed(pattern.as_str(), error))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<T>> {
        &self.0
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Cache")
            .field("name", &self.0.entries.cache)
            .finish_non_exhaustive()
    }
}

/// Names whose entries change. At the end, however it comes, nothing that was read before is
/// handed to those who come after.
pub(crate) struct Changing<'a, T: Send + Sync + 'static>(
    pub(crate) &'a Shared<T>,
    pub(crate) &'a [Name],
);

impl<T: Send + Sync + 'static> Drop for Changing<'_, T> {
    fn drop(&mut self) {
        for name in self.1 {
            self.0.flights.detach(name);
            self.0.entries.forget_near(name);
        }
    }
}

/// All names that start so.
struct ChangingAll<'a, T: Send + Sync + 'static>(&'a Shared<T>, &'a str);

impl<T: Send + Sync + 'static> Drop for ChangingAll<'_, T> {
    fn drop(&mut self) {
        self.0.flights.detach_starting(self.1);
        if let Some(near) = &self.0.entries.near {
            near.forget_all();
        }
    }
}

fn delete_failed(entries: impl fmt::Display, error: Error) -> Error {
    Signal::DeleteFailed {
        entries: Detail::new(entries),
        error: Detail::error(&error),
    }
    .emit();
    error
}
