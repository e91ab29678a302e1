//! A cache on Redis with one load a key across instances, and a near cache kept true.
//!
//! [`Cache::get_or_fetch`] gives what is stored, or runs the caller's loader and stores what that
//! gives: once for all who ask at the same time, in this process and in all others. A value can be
//! served past its TTL while it is loaded anew, be loaded anew before its TTL, and be kept decoded
//! in the process for as long as nobody changes it.
//!
//! # Guarantees
//! - **One load a key.** Callers who miss together share one load and its value or error; so do
//!   processes, as long as Redis answers. A caller that is dropped takes no load along. A process
//!   that dies while it loads holds the others up for five seconds.
//! - **What was deleted or set stays so.** A load that began before it hands its value to those who
//!   wait for it and stores nothing; in the same process nobody who comes later is served it.
//! - **The near cache follows every change**, also one by `redis-cli`, as soon as the server's news
//!   of it arrive. While the news are interrupted it serves nothing: from the end of a closed
//!   connection on, or within two ping intervals where it fell silent.
//! - **Redis down means slower.** `get_or_fetch` then runs the loader after one deadline, and in the
//!   second after that at once. A deletion that did not happen says so.
//! - Every key has a TTL, set in the same command.
//!
//! It does not hold:
//! - **across processes to the instant.** Between a change and the news of it another process may
//!   serve the old value from its near cache; whoever joined a load there before the change gets
//!   what it loads.
//! - **while processes or servers pause.** A process that was paused for longer than five seconds
//!   in a load may find that another one has loaded, too; its own value is then not stored.
//! - **across a failover.** A deletion that the old master acknowledged and the new one never heard
//!   of is undone: the value lives until its TTL. So keep TTLs as short as the loads allow.
//! - for a connection that is silent, for the two ping intervals until that is found; the life given
//!   to [`CacheOptions::near`] bounds it in any case.
//!
//! # Example
//! ```no_run
//! use std::time::Duration;
//! use coord_cache::{Cache, CacheOptions, Life};
//! use coord_core::Name;
//! use coord_redis::{Config, Redis};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct User { name: String }
//!
//! # async fn from_database(id: u64) -> Result<Option<User>, std::io::Error> { Ok(None) }
//! # async fn example() -> coord_core::Result<()> {
//! let redis = Redis::connect(Config::from_url("redis://127.0.0.1:6379")?.prefix("shop")?).await?;
//! let options = CacheOptions::default()
//!     .ttl(Life::new(Duration::from_secs(600))?)
//!     .negative(Life::new(Duration::from_secs(10))?)
//!     .stale(Life::new(Duration::from_secs(3600))?);
//! let users: Cache<User> = Cache::new(&redis, &Name::new("users")?, options);
//!
//! let user = users.get_or_fetch(&Name::new("42")?, || from_database(42)).await?;
//! println!("{:?}", user.map(|user| user.name.clone()));
//!
//! // After the row has changed, and its transaction is committed:
//! users.delete(&Name::new("42")?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Where a deletion must reach every process at once, as for the ancestry of a tenant that was
//! moved, see the example `evict_everywhere`: a near cache of sixty seconds whose entries leave all
//! processes when one deletes them.
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Cache`] | reading, loading, writing and deleting, one at a time or many |
//! | [`CacheOptions`], [`Life`] | how long entries live, and where |
//! | [`Codec`], [`Json`], [`Raw`] | how a value becomes bytes |
//! | [`LoadError`] | why a value could not be had |
//!
//! # Round trips
//! | work | round trips | calls |
//! |---|---|---|
//! | hit in the process | 0 | none |
//! | hit in Redis | 1 | `GET`, or `SET NX GET` with a loader; a script where the time left matters, or before Redis 7.0 |
//! | miss | 1 before the load, 1 after it | as a hit, then one script |
//! | wait for a load elsewhere | 3, of which the last when it has ended | two questions, one subscription |
//! | set, delete | 1 | `SET`, `UNLINK` |
//! | many | 1 | one call, on a cluster one a slot |
//!
//! # What is stored
//! Each entry has a head that tells a placeholder, "there is nothing" and a value apart, and carries
//! the format, the [`schema`](CacheOptions::schema) and a random stamp. An entry of another format or
//! schema, or one that the codec refuses, counts as a miss and is replaced by the next load. What
//! has no such head is not the cache's: it is left alone, [`get`](Cache::get) says `Corrupt`, and
//! `get_or_fetch` loads without it. The signal `redis.cache.unreadable` tells of both.

mod batch;
mod breaker;
mod cache;
mod codec;
mod entry;
mod envelope;
mod error;
mod flight;
mod freshness;
mod load;
mod near;
mod options;
mod refresh;
mod scripts;
mod signals;
mod wait;

pub use cache::Cache;
pub use codec::{Codec, Json, Raw};
pub use error::LoadError;
pub use options::{CacheOptions, Life};
pub use signals::SIGNALS;
