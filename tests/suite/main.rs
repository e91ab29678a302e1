//! The suites that need real servers: one module a subject, one binary for all.

#![allow(
    clippy::disallowed_methods,
    reason = "a test joins what it spawns, or ends and takes it along"
)]

mod audit;
mod broadcast;
mod cache;
mod engine;
mod examples;
mod fanout_queue;
mod fanout_tick;
mod lease;
mod lock;
mod ratelimit;
mod realtime;
mod redis;
mod refusals;
