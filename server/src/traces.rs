//! Where spans go: to a collector of OpenTelemetry.

mod config;
mod encode;
mod export;
mod headers;
mod signals;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use coord_core::signals::Detail;
use coord_core::trace::{self, Ended};
use coord_core::{Env, Error, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use config::Config;
use export::Exporter;
use signals::{Dropped, Signal};

pub use config::VARIABLES;
pub use signals::SIGNALS;

/// How long the end of a process waits for a collector: what is left at the end of most is sent in
/// one request.
const LAST_WORD: Duration = Duration::from_secs(5);

/// The way of this process's spans to its collector. A process has one.
///
/// # Guarantees
/// - Whoever ends a span waits for nothing: it is put into a queue of bounded length.
/// - A span that does not reach the collector is counted by `server.traces.dropped`.
///
/// It does not hold that a span arrives: a request to the collector that fails is not repeated.
#[must_use = "spans are dropped that are not sent before the process ends"]
pub struct Traces {
    pending: Arc<Pending>,
    closing: oneshot::Sender<()>,
    task: JoinSet<()>,
}

/// A span, and when it ended by the wall clock.
struct Timed {
    span: Ended,
    at: SystemTime,
}

/// What is counted of spans that are not sent yet.
#[derive(Default)]
struct Pending {
    /// In the queue, or on their way.
    queued: AtomicU64,
    /// Found no place in the queue, and nobody was told yet.
    overflown: AtomicU64,
}

impl Traces {
    /// Sends the spans of this process where the environment says ([`VARIABLES`]); nothing, and
    /// nowhere, when it names no collector.
    ///
    /// # Errors
    /// `Invalid`, naming the variable and what it must be.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn from_env(env: &Env) -> Result<Option<Self>> {
        coord_core::signals::register(SIGNALS);
        let config = Config::from_env(env)?;
        for (variable, reason) in config::without_effect(env)? {
            Signal::WithoutEffect {
                variable: Detail::new(variable),
                reason: Detail::new(reason),
            }
            .emit();
        }
        config.map(Self::start).transpose()
    }

    fn start(config: Config) -> Result<Self> {
        let (sampler, queue) = (config.sampler, config.queue);
        let exporter = Exporter::new(config).map_err(|error| {
            Error::unavailable("making a client of the collector of traces").with_source(error)
        })?;
        let (sender, spans) = mpsc::channel(queue);
        let (closing, closed) = oneshot::channel();
        let pending = Arc::new(Pending::default());
        let mut task = JoinSet::new();
        task.spawn(exporter.run(spans, closed, Arc::clone(&pending)));
        let counted = Arc::clone(&pending);
        trace::collect(sampler, move |span| {
            let at = wall_clock();
            counted.queued.fetch_add(1, Ordering::Relaxed);
            if sender.try_send(Timed { span, at }).is_err() {
                counted.queued.fetch_sub(1, Ordering::Relaxed);
                counted.overflown.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self {
            pending,
            closing,
            task,
        })
    }

    /// Sends what is left, for at most five seconds, and records nothing more.
    ///
    /// # Cancel safety
    /// Dropped, what is left is not sent.
    pub async fn shutdown(mut self) {
        trace::stop_collecting();
        _ = self.closing.send(());
        _ = tokio::time::timeout(LAST_WORD, self.task.join_next()).await;
        self.task.shutdown().await;
        let left = self.pending.queued.swap(0, Ordering::Relaxed);
        drop_spans(left, Dropped::Ending, "the process ended first");
        self.pending.tell_overflown();
    }
}

impl Pending {
    /// So many spans are sent, or were dropped for another reason.
    fn settle(&self, spans: u64) {
        self.queued.fetch_sub(spans, Ordering::Relaxed);
    }

    fn tell_overflown(&self) {
        let overflown = self.overflown.swap(0, Ordering::Relaxed);
        drop_spans(
            overflown,
            Dropped::Full,
            "the queue to the collector is full",
        );
    }
}

fn drop_spans(count: u64, cause: Dropped, error: &str) {
    if count > 0 {
        let error = Detail::new(error);
        Signal::Lost {
            count,
            cause,
            error,
        }
        .emit();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "people see it beside the spans of other systems; nothing is decided by it"
)]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// How long a span took.
fn elapsed(began: Instant, ended: Instant) -> Duration {
    ended.saturating_duration_since(began)
}
