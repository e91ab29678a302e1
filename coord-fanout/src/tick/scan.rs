//! One tick on the node that has it: scan, enqueue, finish.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::trace::{Span, SpanKind};
use coord_core::{Backoff, Error, ErrorKind, Name, Result};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::address::{address, tick_id};
use super::due::{PassedOver, cooldown_end};
use super::turn::Turn;
use crate::job::{Job, Records, Tick, Work};
use crate::queue::{Enqueued, Message, Queue};
use crate::schedule::TickTime;
use crate::signals::{Loss, Signal};

/// Records are enqueued so many at once: a call of well under a millisecond each, and a lease that
/// is checked often.
const BATCH: usize = 100;

/// A queue that is away for a moment does not cost a whole scan: so often a batch is tried.
const ENQUEUE_ATTEMPTS: u32 = 5;

/// Between two attempts to enqueue.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// Between two scans of a tick, of which the first failed.
const PAUSE: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// A tick that was granted to this node.
pub(crate) struct Run {
    pub(crate) job: Arc<Job>,
    pub(crate) tick: Tick,
    pub(crate) shift: Duration,
    /// The newest instant that is done with once the tick is finished.
    pub(crate) upto: TickTime,
    pub(crate) turn: Turn,
    /// The due instants that it leaves out.
    pub(crate) over: PassedOver,
    /// How many scans failed on this node since one succeeded.
    pub(crate) failures: u32,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Up to this instant the job is done.
    Finished(TickTime),
    Lost,
    /// It is tried again after this pause, here or elsewhere.
    Failed(Duration),
    /// The node shuts down.
    Stopped,
}

/// What became of the records of a scan.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    added: u64,
    duplicates: u64,
}

impl Run {
    /// Scans and finishes, unless `stop` comes first: then it releases the tick at once.
    pub(crate) async fn execute<Q: Queue>(self, queue: &Q, stop: watch::Receiver<bool>) -> End {
        let started = Instant::now();
        let mut span = Span::root(SpanKind::Internal, format_args!("tick {}", self.tick.job));
        span.note("coord.org", &self.tick.org);
        let scanned = tokio::select! {
            biased;
            () = stopped(stop.clone()) => None,
            () = self.turn.hold.lost() => Some(Err(Error::lost("the scan lease ended"))),
            scanned = span.within(unpanicked(self.scanned(queue))) => Some(scanned),
        };
        if let Some(Err(error)) = &scanned {
            span.fail(Detail::error(error));
        }
        drop(span);
        let (job_type, org) = names(&self.tick);
        match scanned {
            None => {
                self.turn.release(Duration::ZERO).await;
                Signal::TickReleased { job_type, org }.emit();
                End::Stopped
            }
            Some(Ok(count)) => {
                let grace = self.turn.deadline();
                tokio::select! {
                    end = self.finish(count, started) => end,
                    // What is given up here is released in the background.
                    () = stopped_for(stop, grace) => End::Stopped,
                }
            }
            Some(Err(error)) if self.turn.hold.check().is_err() => {
                lost(Loss::Lease, &self.tick, Detail::error(&error))
            }
            Some(Err(error)) => {
                let pause = PAUSE.delay(self.failures, 1.0);
                let error = Detail::error(&error);
                Signal::TickScanFailed {
                    job_type,
                    org,
                    error,
                }
                .emit();
                self.turn.release(pause).await;
                End::Failed(pause)
            }
        }
    }

    async fn scanned<Q: Queue>(&self, queue: &Q) -> Result<Count> {
        match &self.job.work {
            Work::Message(body) => {
                let messages = self.tick.instants.iter().map(|&instant| {
                    let body = body(&self.tick.org, instant);
                    Ok(Message::new(tick_id(&self.tick, instant)?, body))
                });
                let messages: Vec<_> = messages.collect::<Result<_>>()?;
                self.enqueue(queue, &messages).await
            }
            Work::Scan(scan) => {
                let (records, inbox) = Records::channel(BATCH);
                let (done, is_done) = watch::channel(false);
                let limit = self.job.scan_limit;
                let scan = async {
                    let scan = scan(self.tick.clone(), records);
                    let scanned = tokio::time::timeout(limit, scan).await.unwrap_or_else(|_| {
                        Err(Error::unavailable(format!(
                            "the scan took longer than {limit:?}"
                        )))
                    });
                    // Whoever kept the records' handle gets no more in.
                    done.send_replace(true);
                    scanned
                };
                let ((), count) = tokio::try_join!(scan, self.drain(queue, inbox, is_done))?;
                Ok(count)
            }
        }
    }

    /// Enqueues what the scan finds, in batches, until it is through.
    async fn drain<Q: Queue>(
        &self,
        queue: &Q,
        mut inbox: mpsc::Receiver<Message>,
        is_done: watch::Receiver<bool>,
    ) -> Result<Count> {
        let mut count = Count::default();
        let mut done = pin!(stopped(is_done));
        let mut is_open = true;
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            tokio::select! {
                biased;
                () = &mut done, if is_open => {
                    inbox.close();
                    is_open = false;
                }
                received = inbox.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return Ok(count);
                    }
                    for record in &mut batch {
                        address(&self.tick, record)?;
                    }
                    let enqueued = self.enqueue(queue, &batch).await?;
                    count.added += enqueued.added;
                    count.duplicates += enqueued.duplicates;
                }
            }
        }
    }

    async fn enqueue<Q: Queue>(&self, queue: &Q, messages: &[Message]) -> Result<Count> {
        let mut attempt = 0;
        loop {
            self.turn.hold.check()?;
            attempt += 1;
            match queue.enqueue(messages).await {
                Ok(enqueued) => {
                    let is_new = |one: &&Enqueued| **one == Enqueued::Added;
                    let added = enqueued.iter().filter(is_new).count() as u64;
                    let duplicates = enqueued.len() as u64 - added;
                    return Ok(Count { added, duplicates });
                }
                // What is there already is a duplicate at the next attempt.
                Err(error) if attempt < ENQUEUE_ATTEMPTS && passes(&error) => {
                    tokio::time::sleep(AGAIN.jittered(attempt)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn finish(self, count: Count, started: Instant) -> End {
        let next = self.job.timing.schedule.next(self.upto);
        // Where the calendar ends there is nothing to cool down for.
        let cooldown_end = next.map_or(self.upto, |next| cooldown_end(self.upto, next, self.shift));
        if let Err(cause) = self.turn.finish(self.upto, cooldown_end).await {
            return lost(
                cause,
                &self.tick,
                Detail::new("the tick could not be finished"),
            );
        }
        pass_over(self.over, &self.tick.job, &self.tick.org);
        let (job_type, org) = names(&self.tick);
        if count.duplicates > 0 {
            let ((job_type, org), records) = (names(&self.tick), count.duplicates);
            Signal::TickSuppressed {
                records,
                job_type,
                org,
            }
            .emit();
        }
        Signal::TickFinished {
            elapsed_ms: started.elapsed(),
            job_type,
            org,
            instant: Detail::new(self.upto),
            added: Detail::new(count.added),
        }
        .emit();
        End::Finished(self.upto)
    }
}

/// Reports the due instants that are done with and were not run.
pub(crate) fn pass_over(over: PassedOver, job: &Name, org: &Name) {
    let names = || (job.clone(), org.clone());
    if over.missed > 0 {
        let ((job_type, org), instants) = (names(), over.missed);
        Signal::TickMissed {
            instants,
            job_type,
            org,
        }
        .emit();
    }
    if over.coalesced > 0 {
        let ((job_type, org), instants) = (names(), over.coalesced);
        Signal::TickCoalesced {
            instants,
            job_type,
            org,
        }
        .emit();
    }
}

fn lost(cause: Loss, tick: &Tick, error: Detail) -> End {
    let (job_type, org) = names(tick);
    Signal::TickLost {
        cause,
        job_type,
        org,
        error,
    }
    .emit();
    End::Lost
}

fn names(tick: &Tick) -> (Name, Name) {
    (tick.job.clone(), tick.org.clone())
}

fn passes(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// Completes when `stop` says so; never when its sender is gone without that.
async fn stopped(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Completes so long after `stop` says so.
async fn stopped_for(stop: watch::Receiver<bool>, grace: Duration) {
    stopped(stop).await;
    tokio::time::sleep(grace).await;
}

/// What `work` gives; an error where it panics.
pub(crate) async fn unpanicked<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        // Nothing of it is looked at after a panic.
        catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)))
            .unwrap_or_else(|_| Poll::Ready(Err(Error::invalid("it panicked"))))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let error = unpanicked::<()>(async { panic!("as asked") }).await;

        assert_eq!(error.expect_err("it panicked").kind(), ErrorKind::Invalid);
    }
}
