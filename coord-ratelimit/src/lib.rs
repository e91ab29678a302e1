//! Rate limits that hold across the instances of a service, on Redis.
//!
//! A [`Limiter`] takes permits of a [`Subject`]: [`try_acquire`](Limiter::try_acquire) says at
//! once whether they are there, [`acquire`](Limiter::acquire) waits for them. One call checks
//! several limits, say of a user and of all users of a tenant, a second and a day, all or nothing.
//!
//! # Guarantees
//! - All instances share one count, kept by the server's clock in whole microseconds. No client's
//!   clock has any influence, and nothing is rounded: [`Limit::gcra`] is exact to one permit at any
//!   rate, however long it runs.
//! - In any span of time at most `burst` and what the rate gives in it pass, with
//!   [`Limit::gcra`]. With [`Limit::fixed_window`] and [`Limit::sliding_window`] at most the quota
//!   passes in a window, and less than twice the quota in any span as long as one.
//! - A denial takes nothing. One retry after its `retry_after` succeeds, if nobody else took the
//!   permits. What can never succeed is said to be so.
//! - A call ends within the client's deadline. While Redis cannot be asked, the limiter decides as
//!   its [`WithoutRedis`] says, at once after the first call, and its decisions say so. Nobody is
//!   counted twice by a retry.
//! - Every key ends by itself when its state is as new. A key that holds something else is left
//!   alone.
//! - A server's clock that goes back denies for one window at most (with [`Limit::gcra`], for as
//!   long as a burst takes to come back).
//!
//! It does not hold:
//! - **after a failover**, or a restart without data: what was taken and not replicated is
//!   forgotten, so a subject may take it again. The same goes for a server that evicts keys.
//! - **when the server's clock jumps ahead**: permits come back early.
//! - **without Redis**, where the policy is to allow, or to share among more instances than there
//!   are.
//!
//! A call that was not answered may have taken its permits: the subject is then limited early, by
//! so many permits, until they are back.
//!
//! # Example
//! ```no_run
//! use std::num::NonZeroU32;
//! use std::time::Duration;
//! use coord_core::Name;
//! use coord_ratelimit::{Decision, Limit, Limiter, Quota, Subject, WithoutRedis};
//! use coord_redis::{Config, Redis};
//!
//! # async fn example() -> coord_core::Result<()> {
//! let redis = Redis::connect(Config::from_url("redis://127.0.0.1:6379")?.prefix("shop")?).await?;
//! let limits = [
//!     Limit::gcra(Name::new("per-second")?, Quota::per_second(10)?, 20)?,
//!     Limit::fixed_window(Name::new("per-day")?, Quota::per_day(10_000)?),
//! ];
//! let instances = NonZeroU32::new(3).expect("it is not zero");
//! let limiter = Limiter::new(&redis, limits, WithoutRedis::Share { instances })?;
//!
//! let jane = Subject::member(&Name::new("acme")?, &Name::new("jane")?);
//! match limiter.try_acquire(&jane, 1).await? {
//!     Decision::Allowed(standing) => println!("{} left", standing.remaining),
//!     Decision::Denied { retry_after, .. } => println!("try again in {retry_after:?}"),
//!     Decision::NeverAllowed { capacity, .. } => println!("ask for {capacity} at most"),
//! }
//! // Or wait for it.
//! if limiter.acquire(&jane, 1, Duration::from_secs(5)).await?.is_allowed() { /* work */ }
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Limiter`], [`Blocks`] | asking; drawing permits in blocks |
//! | [`Limit`], [`Quota`] | what is limited, and by which algorithm |
//! | [`Subject`] | for whom |
//! | [`Decision`], [`Standing`], [`By`] | what one is told |
//! | [`WithoutRedis`] | what holds while Redis is away |
//! | [`Rule`], [`State`], [`Level`], [`Taken`] | the arithmetic alone, to model a limit without Redis |
//!
//! # Round trips
//! | work | round trips |
//! |---|---|
//! | any number of limits of one subject and its group | 1 |
//! | denied again before `retry_after`, or more than fits at once | 0 |
//! | while Redis is known to be away | 0 |
//! | [`Blocks`] | 1 a block |
//!
//! # Features
//! `tower`, off by default: a layer for HTTP services with the `RateLimit` fields.

mod blocks;
mod breaker;
mod decision;
mod fixed;
mod gcra;
mod limit;
mod limiter;
mod line;
mod memory;
mod outage;
mod rule;
mod signals;
mod sliding;
mod standing;
mod subject;
#[cfg(feature = "tower")]
pub mod tower;
pub mod wire;

pub use blocks::Blocks;
pub use decision::{By, Decision, Standing};
pub use fixed::{Fixed, Used, Window};
pub use gcra::{Ahead, Drawn, Gcra};
pub use limit::{Limit, Quota};
pub use limiter::Limiter;
pub use outage::WithoutRedis;
pub use rule::{Level, Rule, State, Taken};
pub use signals::SIGNALS;
pub use sliding::{Counts, Sliding, Windows};
pub use subject::Subject;
