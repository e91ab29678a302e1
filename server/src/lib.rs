//! The ready-made node: an HTTP control plane over the engine and the primitives, and the program
//! `coord`.
//!
//! A service that has an engine mounts [`router`] into its own HTTP server; one that wants a node of
//! its own runs `coord serve`.
//!
//! # Guarantees
//! - An answer says what stands in the database: what was accepted is durable before it is answered.
//! - [`serve`] answers every request that it has accepted, as far as that takes no longer than the
//!   drain time, and accepts no more once it was told to end.
//!
//! It does not hold that a request whose answer was lost did not happen: it is sent again with the
//! same command id.
//!
//! # Example
//! ```
//! use coord_engine::{Engine, store::Sqlite};
//! use coord_server::{Node, router};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), coord_core::Error> {
//! let node = Node::new(Engine::start(Sqlite::memory()).await?);
//! let app = axum::Router::new().merge(router(&node)); // beside the routes of the service
//! # drop(app);
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//! | item | for |
//! |---|---|
//! | [`Node`] | what the routes work on |
//! | [`router`] | the routes, to be mounted |
//! | [`serve`] | an HTTP server for them, until it is told to end |
//! | [`Config`] | how a node is set up, with the environment |

mod api;
mod config;
mod node;
mod serve;

pub use api::router;
pub use config::{Config, VARIABLES};
pub use node::Node;
pub use serve::serve;
