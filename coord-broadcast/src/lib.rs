//! Publish and subscribe on Redis that knows what it missed.
//!
//! Redis delivers a published message at most once, and tells nobody of those that it did not
//! deliver. Here every message has a sequence, which is kept at the server: a subscriber that was
//! interrupted, or too slow, learns which messages it missed, also when none follows. A topic may
//! keep a log; then it gets them after all.
//!
//! # Guarantees
//! - Messages of a topic come in the order of their sequence, each at most once, with whatever was
//!   missed told in its place: [`Received::Gap`] with the sequences, or [`Received::Lagged`].
//! - A lost connection is found within two ping intervals and made again for ever, without any
//!   call. What was missed is known at once then, from the stored sequence.
//! - With [`Topic::replay`] a subscriber gets every message that is still in the log, once and in
//!   order, and a `Gap` only for what is not.
//! - A slow subscriber costs others nothing, and a bounded buffer: 256 messages a topic.
//! - When the server has lost the sequence (a failover, a restart without data, `FLUSHALL`), a
//!   `Gap` of unknown size says so, unless the subscriber was connected all the time and has
//!   had everything.
//!
//! It does not hold:
//! - **that a message arrives.** A publish whose node fails before it is sent on is lost, and with
//!   it may be its sequence. A `Timeout` of [`Broadcast::publish`] is an unknown outcome.
//! - **after a failover that loses writes, when as many or more have been published since.** The
//!   sequence then stands where it stood or beyond, and what was published twice under one number
//!   is taken for one message by who was not connected.
//! - **on a cluster before Redis 7.0**, that a gap is really one: without sharded pub/sub messages
//!   take another way than the sequence, and may come after it. They are then delivered late, after
//!   a `Gap` of unknown size.
//! - **for a pattern**, that a gap has a known size.
//!
//! A topic that has had no message for a week is forgotten, and begins a new epoch with the next
//! one. Whoever is connected then has missed nothing and is told nothing; whoever was away is told
//! of a gap of unknown size.
//!
//! # Example
//! ```no_run
//! use std::num::NonZeroU32;
//! use coord_broadcast::{Broadcast, Received, Topic};
//! use coord_core::Name;
//! use coord_redis::{Config, Redis};
//!
//! # async fn example() -> coord_core::Result<()> {
//! let redis = Redis::connect(Config::from_url("redis://127.0.0.1:6379")?.prefix("shop")?).await?;
//! let broadcast = Broadcast::new(&redis);
//! let prices: Topic<(String, u64)> = Topic::new(Name::new("prices")?);
//!
//! let mut subscription = broadcast.subscribe(&prices).await?;
//! broadcast.publish(&prices, &("tea".to_owned(), 350)).await?;
//! while let Some(received) = subscription.next().await {
//!     match received {
//!         Received::Message(message) => println!("{:?}", message.body()?),
//!         Received::Gap(gap) => println!("read all prices again: {:?} missed", gap.missed),
//!         Received::Lagged(count) => println!("read all prices again: {count} missed"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//! | type | for |
//! |---|---|
//! | [`Broadcast`] | publishing and subscribing |
//! | [`Topic`] | what is published and subscribed to |
//! | [`Published`], [`Position`] | where a message stands |
//! | [`Subscription`], [`Received`], [`Message`], [`Gap`] | what a subscriber gets |
//!
//! # Round trips
//! | work | round trips | calls |
//! |---|---|---|
//! | publish | 1 | one script |
//! | subscribe, and resubscribe after an interruption | 3 | `SUBSCRIBE`, `GET`, `PING` |
//! | replay | 1 for up to 512 messages or about 256 kB | `XRANGE` |

mod broadcast;
mod frame;
mod position;
mod received;
mod replay;
mod signals;
mod subscription;
mod tally;
mod topic;
mod track;

pub use broadcast::{Broadcast, Published};
pub use position::Position;
pub use received::{Gap, Message, Received};
pub use signals::SIGNALS;
pub use subscription::Subscription;
pub use topic::Topic;
