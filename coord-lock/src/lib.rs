//! Distributed locks on Redis: one owner at a time, and others wait.
//!
//! A lock is a lease that one may wait for. [`Locks::acquire`] waits for it, [`Locks::try_acquire`]
//! does not, and [`Locks::with_lock`] runs a piece of work with it. While it is held it is renewed
//! in the background; a process that dies loses it after its TTL, and the next one goes on.
//!
//! # Guarantees
//! - At most one owner at a time has a [`Lock`] whose [`check`](Lock::check) succeeds, as long as
//!   the limits below hold. Every grant has a larger [`fence`](Lock::fence) than the one before.
//! - An owner that cannot renew, or whose lock was taken away, learns of it by its own clock, no
//!   later than the server may give the lock to somebody else. Nothing that fails touches the key.
//! - A call that is dropped, that fails or that times out leaves nothing behind: neither a lock
//!   that nobody holds, nor a place in the queue.
//! - A waiter gets a free lock as soon as it hears of it, or 15 ms later where the client that is
//!   to ask first is dead; and at the latest when the lock would have ended, plus a second: also when
//!   the message was lost, the key deleted, the owner killed.
//! - [`Order::Fifo`] grants in the order of arrival. A waiter that died costs the others a second,
//!   and at most five more where the next in line died with it on another node.
//!
//! It does not hold:
//! - **after a failover.** Replication is asynchronous: the new master may not know of a lock that
//!   the old one granted, and grants it again. The same goes for a server that restarts without its
//!   data, and for one that evicts keys. Feature `replicas` adds a wait until replicas have the
//!   lock (`Lock::replicate`), which makes that rare, not impossible.
//! - **while a process is paused.** A [`check`](Lock::check) tells of this instant; the pause may
//!   come right after it, and end after the TTL. [`Instant`](std::time::Instant) does not count
//!   the time for which a machine was suspended.
//! - **when the server's clock jumps ahead.** Its keys then end early.
//!
//! In these cases the [`fence`](Lock::fence) protects: send it along with every write, and let the
//! resource refuse a smaller one than it has seen.
//!
//! # Example
//! ```no_run
//! use std::time::Duration;
//! use coord_core::{Error, Name};
//! use coord_lock::{LockOptions, Locks};
//! use coord_redis::{Config, Redis};
//!
//! # async fn charge(fence: coord_core::FencingToken) -> Result<u64, Error> { Ok(fence.get()) }
//! # async fn example() -> Result<(), Error> {
//! let redis = Redis::connect(Config::from_url("redis://127.0.0.1:6379")?.prefix("shop")?).await?;
//! let locks = Locks::new(&redis);
//! let (orders, options) = (Name::new("orders")?, LockOptions::default());
//!
//! // Dropped where it stands if the lock is lost.
//! let wait = Duration::from_secs(10);
//! let charged = locks
//!     .with_lock(&orders, wait, &options, async |lock| charge(lock.fence()).await)
//!     .await?;
//!
//! if let Some(lock) = locks.try_acquire(&orders, &options).await?.acquired() {
//!     charge(lock.fence()).await?;
//!     lock.release().await?;
//! }
//! redis.shutdown(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Locks`] | taking, inspecting and, for operators, ending locks |
//! | [`LockOptions`], [`Order`], [`Owner`] | how a lock is asked for |
//! | [`Lock`], [`TryAcquire`], [`Released`] | what one has then, and what became of it |
//! | [`Holder`] | who has it instead |
//!
//! # Round trips
//! | work | round trips | calls |
//! |---|---|---|
//! | acquire a free lock, release it | 1 each | one script each |
//! | get a lock that somebody releases | half a round trip for the release, half for the message, and one to ask or to confirm, but for an offer that comes within half a second of asking with [`Order::Fifo`] | one script a waiter of the client that the release names with [`Order::Any`], one in all with [`Order::Fifo`] |
//! | renew | one for all locks and leases of the client | one script |

mod claim;
mod lock;
mod locks;
mod news;
mod options;
mod reentry;
mod scripts;
mod signals;
mod wait;

pub use claim::Released;
#[cfg(feature = "replicas")]
pub use coord_lease::Replication;
pub use coord_lease::{Holder, Owner};
pub use lock::Lock;
pub use locks::{Locks, TryAcquire};
pub use options::{LockOptions, Order};
pub use signals::SIGNALS;
