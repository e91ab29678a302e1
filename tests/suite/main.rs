//! The suites that need real servers: one module a subject, one binary for all.

mod fanout_queue;
mod fanout_tick;
mod lease;
mod lock;
mod redis;
