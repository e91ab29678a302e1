//! The harness of the workspace's tests: real servers, real processes, and faults on request.
//!
//! A test takes what it needs with [`need!`], keys under its own [`need::unique`] prefix, and
//! breaks things at the instant it means to: every fault is awaited, none is slept for.
//!
//! | for | see |
//! |---|---|
//! | a Redis of any topology, shared by all tests | [`servers::Deployment`] |
//! | an own Redis, Cluster or Sentinel group to break | [`servers`] |
//! | a Redis with a prefix of the test's own, and clients of it | [`stage`] |
//! | a key prefix, and skipping what cannot be had | [`mod@need`] |
//! | a connection that breaks | [`proxy`] |
//! | a node as a process of its own, to kill or to stop | [`process`] |
//! | a fact that only another process knows | [`wait`] |
//! | reading what a server answers | [`resp`] |
//! | awaiting what a crate emits | [`recorder`] |
//! | seeing what is enqueued | [`sink`] |
//! | a client of Socket.IO | [`socket`] |
//! | the observability contract of the workspace | [`contract`] |
//!
//! # Guarantees
//! Every child process ends with the process that started it, even one killed with SIGKILL (on
//! Linux; elsewhere only a test process that ends in order takes its children along).
//!
//! All traffic stays on 127.0.0.1.

mod child;
pub mod contract;
mod env;
mod folder;
pub mod need;
mod npm;
mod ports;
pub mod process;
pub mod proxy;
pub mod recorder;
pub mod resp;
pub mod servers;
pub mod sink;
pub mod socket;
pub mod stage;
pub mod wait;

pub use child::Exit;

/// The examples of the front page, which compile or the tests are red.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct FrontPage;

/// Those of the page on news.
#[cfg(doctest)]
#[doc = include_str!("../../docs/realtime.md")]
struct News;

/// Those of the page on traces, likewise.
#[cfg(doctest)]
#[doc = include_str!("../../docs/tracing.md")]
struct TracingPage;
