//! One run of a consumer.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::trace::{Span, SpanKind};
use coord_core::{Backoff, Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::Instant;

use super::held::{Held, extend};
use super::report::report;
use super::{Consumer, Failure, Next};
use crate::queue::{Delivery, Queue, Settled, Verdict, settle_until};
use crate::signals::{Fault, Signal};

/// How long one receive waits: as long as an idle consumer takes to shut down.
const WAIT: Duration = Duration::from_secs(1);

/// Between two receives while the queue cannot be reached.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// How long after the drain time the queue may take to hear of the rest.
const LAST_WORD: Duration = Duration::from_secs(5);

/// No process waits longer for its end; bounded so that every duration may be asked for.
const LONGEST_DRAIN: Duration = Duration::from_hours(24);

/// What a handler's task returns: how long it took, and what it said.
type Handled = (Duration, Result<(), Failure>);

/// A delivery whose handler has ended or will not run, and what to tell the queue of it.
struct Finished {
    delivery: Arc<Delivery>,
    verdict: Verdict,
    elapsed: Duration,
}

/// A call to the queue that has ended.
enum Call {
    Received(Result<Vec<Delivery>>),
    Settled(Vec<Finished>, Result<Vec<Settled>>),
}

pub(super) struct Work<Q, H> {
    consumer: Consumer<Q>,
    handler: Arc<H>,
    held: Arc<Held>,
    handlers: JoinSet<Handled>,
    running: HashMap<task::Id, Arc<Delivery>>,
    /// At most one receive and one settlement.
    calls: JoinSet<Call>,
    receiving: bool,
    settling: bool,
    finished: Vec<Finished>,
    /// Receives that failed in a row.
    failures: u32,
    /// When to receive again after a failure.
    resume: Instant,
    /// When the drain time ends, from the shutdown on.
    drained_by: Option<Instant>,
    /// What `run` returns in the end.
    outcome: Result<()>,
}

impl<Q, H, F> Work<Q, H>
where
    Q: Queue + Clone,
    H: Fn(Arc<Delivery>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    pub(super) fn new(consumer: Consumer<Q>, handler: H) -> Self {
        Self {
            held: Arc::new(Held::new(consumer.queue.name().clone())),
            consumer,
            handler: Arc::new(handler),
            handlers: JoinSet::new(),
            running: HashMap::new(),
            calls: JoinSet::new(),
            receiving: false,
            settling: false,
            finished: Vec::new(),
            failures: 0,
            resume: Instant::now(),
            drained_by: None,
            outcome: Ok(()),
        }
    }

    pub(super) async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        // Dropped with this future, it ends the two tasks.
        let (_while_it_runs, stopped) = watch::channel(());
        let queue = &self.consumer.queue;
        let extending = extend(queue.clone(), Arc::clone(&self.held), stopped.clone());
        queue.upkeep(extending);
        queue.upkeep(report(queue.clone(), self.consumer.report_every, stopped));

        self.until_drained(shutdown).await;
        self.outcome
    }

    async fn until_drained(&mut self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        let mut dropped = false;
        loop {
            self.collect();
            self.settle();
            self.receive();
            if self.is_draining() && self.is_idle() {
                return;
            }
            let paused = !self.receiving && !self.is_draining() && self.has_room();
            let drained_by = self.drained_by.unwrap_or_else(Instant::now);
            tokio::select! {
                () = &mut shutdown, if !self.is_draining() => self.drain(),
                Some(ended) = self.handlers.join_next_with_id() => self.ended(ended),
                Some(called) = self.calls.join_next() => self.called(called),
                () = tokio::time::sleep_until(self.resume), if paused => {}
                () = tokio::time::sleep_until(drained_by), if self.is_draining() && !dropped => {
                    self.handlers.abort_all();
                    dropped = true;
                }
                () = tokio::time::sleep_until(drained_by + LAST_WORD), if dropped => {
                    return self.leave_rest();
                }
            }
        }
    }

    fn drain(&mut self) {
        self.drained_by = Some(Instant::now() + self.consumer.drain.min(LONGEST_DRAIN));
    }

    fn is_draining(&self) -> bool {
        self.drained_by.is_some()
    }

    fn is_idle(&self) -> bool {
        self.handlers.is_empty() && self.calls.is_empty() && self.finished.is_empty()
    }

    fn has_room(&self) -> bool {
        self.held.len() < self.consumer.concurrency.get()
    }

    /// Takes what has ended together, so that it is settled together.
    fn collect(&mut self) {
        while let Some(ended) = self.handlers.try_join_next_with_id() {
            self.ended(ended);
        }
    }

    fn receive(&mut self) {
        let ready = Instant::now() >= self.resume;
        if self.receiving || self.is_draining() || !ready || !self.has_room() {
            return;
        }
        let room = self.consumer.concurrency.get() - self.held.len();
        let queue = self.consumer.queue.clone();
        self.receiving = true;
        self.calls
            .spawn(async move { Call::Received(queue.receive(room, WAIT).await) });
    }

    fn settle(&mut self) {
        if self.settling || self.finished.is_empty() {
            return;
        }
        let finished = std::mem::take(&mut self.finished);
        let (queue, held) = (self.consumer.queue.clone(), Arc::clone(&self.held));
        self.settling = true;
        self.calls.spawn(async move {
            let verdicts: Vec<_> = finished
                .iter()
                .map(|one| (&*one.delivery, one.verdict.clone()))
                .collect();
            let receipts = || verdicts.iter().map(|(delivery, _)| &delivery.receipt);
            let settled = settle_until(&queue, &verdicts, || held.valid_until(receipts())).await;
            drop(verdicts);
            Call::Settled(finished, settled)
        });
    }

    fn called(&mut self, call: Result<Call, JoinError>) {
        match call {
            Ok(Call::Received(received)) => {
                self.receiving = false;
                self.received(received);
            }
            Ok(Call::Settled(finished, settled)) => {
                self.settling = false;
                self.settled(&finished, settled);
            }
            // A queue that panics is a bug, and nothing is cancelled before this is dropped.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn received(&mut self, received: Result<Vec<Delivery>>) {
        match received {
            Ok(deliveries) => {
                self.failures = 0;
                for delivery in deliveries {
                    if self.is_draining() {
                        self.held.insert(&delivery, None);
                        self.finish(Arc::new(delivery), Verdict::Release, Duration::ZERO);
                    } else {
                        self.start(delivery);
                    }
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corrupt) => {
                self.outcome = Err(error);
                if !self.is_draining() {
                    self.drain();
                }
            }
            Err(error) => {
                self.resume = Instant::now() + AGAIN.jittered(self.failures);
                self.failures = self.failures.saturating_add(1);
                Signal::QueueReceiveFailed {
                    queue: self.consumer.queue.name().clone(),
                    error: Detail::error(&error),
                }
                .emit();
            }
        }
    }

    fn start(&mut self, delivery: Delivery) {
        let delivery = Arc::new(delivery);
        let (handler, given) = (Arc::clone(&self.handler), Arc::clone(&delivery));
        let queue = self.consumer.queue.name().clone();
        let task = self.handlers.spawn(async move {
            let started = Instant::now();
            let parent = given.message.trace.as_ref();
            let mut span = Span::of(parent, SpanKind::Consumer, format_args!("handle {queue}"));
            span.note("messaging.message.id", &given.message.id);
            span.number("coord.attempt", given.attempt.into());
            let result = span
                .within(async { handler(Arc::clone(&given)).await })
                .await;
            if let Err(failure) = &result {
                span.fail(&failure.reason);
            }
            (started.elapsed(), result)
        });
        let id = task.id();
        self.held.insert(&delivery, Some(task));
        self.running.insert(id, delivery);
    }

    fn ended(&mut self, ended: Result<(task::Id, Handled), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(delivery) = self.running.remove(&id) else {
            return;
        };
        let ours = self.held.ended(&delivery.receipt);
        match ended {
            Ok((_, (elapsed, Ok(())))) => self.finish(delivery, Verdict::Complete, elapsed),
            Ok((_, (elapsed, Err(failure)))) => {
                self.failed(delivery, failure, Fault::Refused, elapsed);
            }
            Err(error) if error.is_panic() => {
                let failure = Failure::new(panic_text(error));
                self.failed(delivery, failure, Fault::Panicked, Duration::ZERO);
            }
            // Dropped at the end of the drain time.
            Err(_) if ours => self.finish(delivery, Verdict::Release, Duration::ZERO),
            // Dropped because somebody else has it.
            Err(_) => self.held.remove(&delivery.receipt, true),
        }
    }

    fn failed(
        &mut self,
        delivery: Arc<Delivery>,
        failure: Failure,
        cause: Fault,
        elapsed: Duration,
    ) {
        Signal::QueueFailed {
            cause,
            queue: self.consumer.queue.name().clone(),
            id: delivery.message.id.clone(),
            error: Detail::new(&failure.reason),
        }
        .emit();
        let reason = failure.reason;
        let earlier = delivery.attempt.saturating_sub(1);
        let verdict = match failure.next {
            Next::Never => Verdict::DeadLetter { reason },
            Next::After(after) => Verdict::Retry { after, reason },
            Next::Backoff => Verdict::Retry {
                after: self.consumer.retry.jittered(earlier),
                reason,
            },
        };
        self.finish(delivery, verdict, elapsed);
    }

    fn finish(&mut self, delivery: Arc<Delivery>, verdict: Verdict, elapsed: Duration) {
        self.finished.push(Finished {
            delivery,
            verdict,
            elapsed,
        });
    }

    fn settled(&mut self, finished: &[Finished], settled: Result<Vec<Settled>>) {
        let settled = match settled {
            Ok(settled) => settled,
            Err(error) => return self.unsettled(finished, error),
        };
        let mut released = 0;
        for (one, settled) in finished.iter().zip(settled) {
            let lost = matches!(settled, Settled::Lost | Settled::Gone);
            self.held.remove(&one.delivery.receipt, lost);
            match one.verdict {
                Verdict::Complete if !lost => Signal::QueueHandled {
                    elapsed_ms: one.elapsed,
                    queue: self.consumer.queue.name().clone(),
                }
                .emit(),
                Verdict::Release if !lost => released += 1,
                _ => {}
            }
        }
        if released > 0 {
            Signal::QueueReleased {
                messages: released,
                queue: self.consumer.queue.name().clone(),
            }
            .emit();
        }
    }

    fn unsettled(&mut self, finished: &[Finished], error: Error) {
        for one in finished {
            self.held.remove(&one.delivery.receipt, false);
        }
        Signal::QueueUnsettled {
            messages: finished.len() as u64,
            queue: self.consumer.queue.name().clone(),
            error: Detail::error(&error),
        }
        .emit();
        if self.is_draining() && self.outcome.is_ok() {
            self.outcome = Err(self.left_behind(finished.len()).with_source(error));
        }
    }

    /// Ends with deliveries that the queue did not hear of in time.
    fn leave_rest(&mut self) {
        let rest = self.held.len();
        Signal::QueueUnsettled {
            messages: rest as u64,
            queue: self.consumer.queue.name().clone(),
            error: Detail::new("the drain time is over"),
        }
        .emit();
        if self.outcome.is_ok() {
            self.outcome = Err(self.left_behind(rest));
        }
    }

    fn left_behind(&self, count: usize) -> Error {
        Error::timeout(format!(
            "shutdown of a consumer of {}: {count} deliveries are handed out again when their \
             visibility ends",
            self.consumer.queue.name()
        ))
    }
}

fn panic_text(error: JoinError) -> String {
    let payload = error.into_panic();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("with no text"))
}
