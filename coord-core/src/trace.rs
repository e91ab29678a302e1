//! Traces: which request led to what, over all processes that take part.
//!
//! A [`TraceContext`] says which trace something belongs to, and under which span of it. It travels
//! as W3C Trace Context does, in the headers `traceparent` and `tracestate`, and as one text in what
//! is stored. A [`Span`] is a piece of work within a trace; while it is current, what is begun in it
//! belongs to it, and the lines of signals carry `trace_id`.
//!
//! Nothing is recorded unless somebody has said where spans go ([`collect`]). Contexts are passed on
//! all the same, so that a process without a collector breaks no trace.
//!
//! # Example
//! ```
//! use coord_core::trace::{Span, SpanKind, TraceContext};
//!
//! let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
//! let parent = TraceContext::parse(header, None);
//! let span = Span::of(parent.as_ref(), SpanKind::Server, format_args!("GET /"));
//!
//! let _within = span.enter();
//! let current = TraceContext::current().expect("of the caller");
//! assert_eq!(current.traceparent(), header);
//! ```

mod context;
mod sampler;
mod span;

pub use context::TraceContext;
pub use sampler::Sampler;
pub use span::{Ended, Entered, Note, Span, SpanKind, collect, stop_collecting};

#[doc(hidden)]
pub use context::current_id;
