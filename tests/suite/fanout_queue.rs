//! The queue on Redis Streams.
