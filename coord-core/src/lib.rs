//! What the coord crates share and what does no I/O: error kinds, names and keys, lease time,
//! fencing tokens, backoff, the environment, traces, and the grammar of the observability contract.
//!
//! # Guarantees
//! - Two different names never share a key, whatever characters they hold, and all keys of one
//!   name share a cluster slot ([`KeySpace`]).
//! - A [`Ttl`] is never shorter than asked, never zero and never negative.
//! - A signal that is declared is emitted somewhere, and has an alarm or a reason ([`signals`]).
//!
//! It does not hold that a [`ClaimToken`] is secret: whoever may read the keys may read it.
//!
//! # Example
//! ```
//! use coord_core::{KeySpace, Name, Ttl};
//! use std::time::Duration;
//!
//! let keys = KeySpace::new("shop")?.tenant(&Name::new("acme")?);
//! let key = keys.key("lock", &[&Name::new("orders")?]);
//! let ttl = Ttl::new(Duration::from_secs(30))?;
//!
//! assert_eq!(key.as_str(), "shop:{lock:@acme:orders}");
//! assert_eq!(ttl.as_millis(), 30_000);
//! # Ok::<_, coord_core::Error>(())
//! ```
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Error`], [`ErrorKind`] | what a failure means for the caller |
//! | [`Name`], [`KeySpace`], [`Key`], [`Channel`] | what things are called, and where they lie |
//! | [`Ttl`] | the life of a lease |
//! | [`ClaimToken`], [`FencingToken`] | who claimed, and the number that outlives the claim |
//! | [`Backoff`] | how long to wait before the next attempt |
//! | `Calendar` | the instants of a schedule |
//! | [`Env`], [`Variable`], [`Effective`] | settings from the environment, and what holds of them |
//! | [`signals`], [`declare!`], [`labels!`] | what may be emitted, and who is told |
//! | [`trace`] | which request led to what, over processes |
//!
//! # Features
//! `calendar`, off by default: the instants of cron expressions and intervals (`Calendar`).
//!
//! `contract`, off by default: renders what operators get from declared signals and checks it, for
//! tests and CI.

use std::time::Duration;

mod backoff;
#[cfg(feature = "calendar")]
mod calendar;
mod env;
mod error;
mod key;
mod name;
pub mod signals;
mod token;
pub mod trace;
mod ttl;

pub use backoff::Backoff;
#[cfg(feature = "calendar")]
pub use calendar::Calendar;
pub use env::{Effective, Env, Shown, Source, Variable};
pub use error::{Error, ErrorKind, Result};
pub use key::{Channel, Key, KeySpace, Pattern};
pub use name::Name;
pub use token::{ClaimToken, FencingToken};
pub use trace::TraceContext;
pub use ttl::Ttl;

/// The longest wait, a leap year: whoever asks for more, as by [`Duration::MAX`],
/// waits this long, since an instant beyond may be none that the system can tell.
pub const LONGEST_WAIT: Duration = Duration::from_hours(366 * 24);

#[doc(hidden)]
pub use tracing as __tracing;
