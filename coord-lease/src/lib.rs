//! Resource leases on Redis: ownership of a named resource that ends by itself.
//!
//! A lease is claimed for a TTL and renewed until it is released, dropped or lost, so that of all
//! instances of a service one does the work, and another can take over when that one is gone.
//! Every grant has a fencing token that is larger than the one before. Whoever finds a resource
//! held learns who holds it; operators list, inspect and evict holders.
//!
//! # Guarantees
//! - On one server whose clock runs steadily, at most one lease of a resource can be trusted
//!   ([`Lease::check`]) at any moment: the server ends a lease by its own clock, and its owner
//!   stops trusting it earlier, by a monotonic clock that started before the request was sent.
//! - A lost lease makes itself known ([`Lease::lost`]): at once when the server says so, else when
//!   its time is up, whatever else the runtime is busy with.
//! - A renewal or a release never touches the lease of another, and one that fails touches
//!   nothing. A short outage costs no lease: renewals are repeated until the time is up.
//! - A claim that was dropped or that timed out leaves nothing behind, and a claim that is made
//!   again with the same token has one fence and is not held up by itself.
//! - No key is ever without a TTL, and what is no lease is left alone.
//!
//! Limits:
//! - After a **failover** the new master may not know the lease, since replication is
//!   asynchronous, and may grant it again; so may a server that lost its data. The fence still
//!   grows, since it follows the server's clock, unless the clock of the new master is behind by
//!   more than the last fence is old.
//!   Feature `replicas` adds a wait until replicas have it, which makes that rare, not impossible.
//! - A process that is **paused** between the check and the write, or a virtual machine that is
//!   suspended, acts on a lease that has ended. A **clock jump** of the server ends leases early,
//!   or late.
//! - Against all three helps only the fence: send [`Lease::fence`] along with every protected
//!   write, and let the resource refuse one that is smaller than it has seen.
//! - A server that evicts keys (`maxmemory-policy`) can evict leases; the signal
//!   `redis.server.evicts` warns of it.
//! - What is released when the process ends must be waited for: drop the leases, then call
//!   [`Redis::shutdown`](coord_redis::Redis::shutdown). What is not released ends by its TTL.
//!
//! # Example
//! ```no_run
//! use coord_core::{Name, Ttl};
//! use coord_lease::{Claim, Leases, Owner};
//! use coord_redis::{Config, Redis};
//!
//! # async fn step(_fence: coord_core::FencingToken) {}
//! # async fn example() -> coord_core::Result<()> {
//! let redis = Redis::connect(Config::from_url("redis://127.0.0.1:6379")?.prefix("shop")?).await?;
//! let leases = Leases::new(&redis);
//! let owner = Owner::new(Name::new("importer")?).with("version", "1.4")?;
//!
//! match leases.claim(&Name::new("orders")?, &owner, Ttl::DEFAULT).await? {
//!     Claim::Claimed(lease) => {
//!         while lease.check().is_ok() {
//!             tokio::select! {
//!                 () = step(lease.fence()) => {}
//!                 () = lease.lost() => break,
//!             }
//!         }
//!         println!("{:?}", lease.release().await);
//!     }
//!     Claim::Held(holder) => println!("held by {:?}", holder.owner()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Leases`] | the leases of one client: claim, inspect, list, evict |
//! | [`Owner`] | who claims |
//! | [`Claim`], [`Pending`] | what a claim found; a claim that can be made again |
//! | [`Lease`], [`RemoveResult`] | what was claimed, and what became of it |
//! | [`Holder`], [`Record`] | who holds a resource |
//! | [`Grant`], [`Hold`], [`Loss`], [`mod@format`] | for services that grant by scripts of their own |

mod batch;
mod claim;
mod engine;
pub mod format;
mod hold;
mod holder;
mod lease;
mod leases;
mod list;
mod owner;
mod schedule;
mod signals;

pub use claim::{Claim, Pending};
#[cfg(feature = "replicas")]
pub use hold::Replication;
pub use hold::{Grant, Hold};
pub use holder::{Holder, Record};
pub use lease::{Lease, RemoveResult};
pub use leases::Leases;
pub use owner::Owner;
pub use signals::{Loss, SIGNALS};
