//! What runs beside a node, and ends at its place.

use std::pin::Pin;
use std::time::Duration;

use coord_core::{Error, Result};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

/// How much longer than it was given work may take before it is dropped: for the last word to a
/// database or to Redis.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Work that is to be begun.
pub(crate) type Work =
    Box<dyn FnOnce(Ending) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send>;

/// Tells work that runs beside a node when to end.
#[derive(Clone, Debug)]
pub struct Ending {
    by: watch::Receiver<Option<Instant>>,
}

impl Ending {
    /// Waits until the work is to end, and says how long it may take: what is not done then is
    /// dropped a second later.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn told(mut self) -> Duration {
        match self.by.wait_for(Option::is_some).await {
            Ok(by) => by.map_or(Duration::ZERO, |by| {
                by.saturating_duration_since(Instant::now())
            }),
            // Nobody is left who could say.
            Err(_) => Duration::ZERO,
        }
    }
}

/// All that runs beside a node.
pub(crate) struct Beside {
    works: JoinSet<Result<()>>,
    by: watch::Sender<Option<Instant>>,
}

impl Beside {
    pub(crate) fn begin(works: Vec<Work>) -> Self {
        let by = watch::Sender::new(None);
        let mut running = JoinSet::new();
        for work in works {
            let ending = Ending { by: by.subscribe() };
            running.spawn(work(ending));
        }
        Self { works: running, by }
    }

    /// Waits until some of it fails. What ends well leaves the rest to go on.
    pub(crate) async fn fails(&mut self) -> Error {
        while let Some(ended) = self.works.join_next().await {
            if let Err(error) = outcome(ended) {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Has all of it end within `left`.
    pub(crate) async fn end(mut self, left: Duration) -> Result<()> {
        let by = Instant::now() + left;
        self.by.send_replace(Some(by));
        let mut all = Ok(());
        let ended = async {
            while let Some(ended) = self.works.join_next().await {
                all = std::mem::replace(&mut all, Ok(())).and(outcome(ended));
            }
        };
        let in_time = tokio::time::timeout_at(by + LAST_WORD, ended).await;
        self.works.shutdown().await;
        let late = || {
            Error::timeout(format!(
                "ending: work beside the node took more than {left:?}"
            ))
        };
        all.and(in_time.map_err(|_| late()))
    }
}

fn outcome(ended: Result<Result<()>, JoinError>) -> Result<()> {
    ended.unwrap_or_else(|error| {
        Err(Error::unavailable("work beside the node panicked").with_source(error))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use coord_core::ErrorKind;

    use super::*;

    fn work<F>(begin: impl FnOnce(Ending) -> F + Send + 'static) -> Work
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Box::new(move |ending| Box::pin(begin(ending)))
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_until_it_is_told_and_hears_how_long_it_may_take() {
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let mut beside = Beside::begin(vec![
            work(async |_| Ok(())),
            work(async move |ending: Ending| {
                let left = ending.told().await;
                assert_eq!(left, Duration::from_secs(5));
                tokio::time::sleep(left).await;
                done.store(true, Ordering::Release);
                Ok(())
            }),
        ]);
        let early = tokio::time::timeout(Duration::from_mins(1), beside.fails()).await;
        assert!(early.is_err(), "what ends well is no failure");
        assert!(!is_done.load(Ordering::Acquire));

        beside.end(Duration::from_secs(5)).await.expect("in time");

        assert!(is_done.load(Ordering::Acquire));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_is_dropped_and_told_of() {
        let beside = Beside::begin(vec![work(async |_| std::future::pending().await)]);
        let began = Instant::now();

        let ended = beside.end(Duration::from_secs(5)).await;

        assert_eq!(ended.expect_err("late").kind(), ErrorKind::Timeout);
        assert_eq!(began.elapsed(), Duration::from_secs(5) + LAST_WORD);
    }

    #[tokio::test]
    async fn work_that_fails_or_panics_says_so() {
        let failing = work(async |_| Err(Error::corrupt("broken")));
        let mut beside = Beside::begin(vec![failing]);
        assert_eq!(beside.fails().await.kind(), ErrorKind::Corrupt);

        let panicking = work(async |_| panic!("on purpose"));
        let mut beside = Beside::begin(vec![panicking]);
        assert_eq!(beside.fails().await.kind(), ErrorKind::Unavailable);
    }
}
