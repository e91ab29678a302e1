//! The ready-made node: an HTTP control plane over the engine and the primitives, and the program
//! `coord`.
//!
//! A service that has an engine mounts [`router`] into its own HTTP server; one that wants a node of
//! its own runs `coord serve`.
//!
//! # Guarantees
//! - An answer says what stands in the database: what was accepted is durable before it is answered.
//! - [`serve`] answers every request that it has accepted, as far as that takes no longer than the
//!   drain time, and accepts no more once it was told to end; then what the node has ends, in an order
//!   in which nothing is taken from under another.
//!
//! It does not hold that a request whose answer was lost did not happen: it is sent again with the
//! same command id.
//!
//! # Example
//! ```
//! use coord_engine::{Engine, store::Sqlite};
//! use coord_server::{Access, Node, router};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), coord_core::Error> {
//! let engine = Engine::start(Sqlite::memory()).await?;
//! let access = Access::from_json(
//!     r#"{"tokens": [{"name": "ci", "role": "operator", "token": "0f3b9a61c87d42e5b0f3b9a61c87d42e"}]}"#,
//! )?;
//! let node = Node::builder(engine, access).build();
//! let app = axum::Router::new().merge(router(&node)); // beside the routes of the service
//! # drop(app);
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//! | item | for |
//! |---|---|
//! | [`Node`], [`NodeBuilder`] | what the routes work on |
//! | [`Access`], [`Role`] | who may do what |
//! | [`router`] | the routes, to be mounted |
//! | [`serve`] | an HTTP server for them, until it is told to end |
//! | [`Ending`] | tells what runs beside a node when to end |
//! | [`document`] | the `OpenAPI` document of the routes |
//! | [`Config`] | how a node is set up, with the environment |
//! | `Traces` | where spans go; with the feature `otlp` |

mod access;
mod api;
mod avro;
mod beside;
mod config;
mod node;
#[cfg(feature = "realtime")]
mod realtime;
mod serve;
#[cfg(feature = "realtime")]
mod signals;
#[cfg(feature = "otlp")]
mod traces;

pub use access::{Access, Role};
pub use api::{document, router};
pub use beside::Ending;
pub use config::{Config, VARIABLES};
pub use node::{Node, NodeBuilder};
pub use serve::serve;
#[cfg(feature = "realtime")]
pub use signals::SIGNALS;
#[cfg(feature = "otlp")]
pub use traces::{SIGNALS as TRACES_SIGNALS, Traces, VARIABLES as TRACES_VARIABLES};
