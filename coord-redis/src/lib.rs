//! Redis underneath the coord crates: supervised connections by purpose, scripts, subscriptions.
//!
//! It is the only crate of the suite that talks to Redis. Services use it to make a [`Redis`]
//! and hand that to coord-lock and its siblings; its own calls are what those are built of.
//!
//! # Guarantees
//! - Every call ends by its deadline in one of the six kinds of [`coord_core::ErrorKind`]. A
//!   command that may have been executed ends in `Timeout`, never in `Unavailable`, and is never
//!   sent again unless it says that it is idempotent.
//! - A lost connection is found and replaced without any call: a closed one at once, a silent one
//!   within two ping intervals, a master that was demoted at its first `READONLY`.
//! - A subscription that was interrupted says so, with the length of the gap, before the first
//!   message after it.
//! - Whoever tracks keys learns of every change of them, also by other clients, or that changes may
//!   have been missed: at once when the connection was closed, within two ping intervals when it
//!   fell silent.
//!
//! It does not hold that an acknowledged write survives a failover: replication is asynchronous.
//! It does not hold that a published message arrives: pub/sub delivers at most once.
//!
//! # Example
//! ```no_run
//! use coord_core::Name;
//! use coord_redis::{Command, Config, Redis};
//!
//! # async fn example() -> coord_core::Result<()> {
//! let redis = Redis::connect(Config::from_url("redis://127.0.0.1:6379")?.prefix("shop")?).await?;
//! let key = redis.keys().key("greeting", &[&Name::new("de")?]);
//! redis.run(&Command::new("SET").key(&key).arg("Moin").arg("PX").arg(60_000)).await?;
//! assert_eq!(redis.run(&Command::new("GET").key(&key)).await?.text()?, "Moin");
//! redis.shutdown(std::time::Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Config`], [`VARIABLES`] | where the server is: URL, builder, environment |
//! | [`Redis`] | the client, its connections and its shutdown |
//! | [`Command`], [`Script`], [`Reply`], [`Receipt`] | what is sent and what comes back |
//! | [`Subscription`], [`Notice`], [`Following`], [`Heard`] | what is received |
//! | [`Tracking`], [`Change`] | which keys have changed, whoever changed them |
//! | [`Server`], [`ServerKind`], [`Version`], [`Kept`] | what the server is, and what is kept in it |
//!
//! # Features
//! `tls` (`rediss://`) and `blocking` (the pool), both on by default. The lock and the lease need
//! neither.

#[cfg(feature = "blocking")]
mod blocking;
mod client;
mod cluster;
mod command;
mod config;
mod dial;
mod error;
mod feed;
mod following;
mod lane;
mod link;
mod scan;
mod script;
mod server;
mod signals;
mod subscriber;
#[cfg(feature = "tls")]
mod tls;
mod tracking;
mod upkeep;

pub use client::Redis;
pub use command::{Command, Receipt, Reply};
pub use config::{Config, VARIABLES};
pub use following::{Following, Heard};
pub use script::Script;
pub use server::{Server, ServerKind, Version};
pub use signals::{Kept, SIGNALS};
pub use subscriber::{Notice, Subscription};
pub use tracking::{Change, Tracking};
