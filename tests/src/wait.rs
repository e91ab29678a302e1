//! Waiting for a fact that only another process knows.

use std::time::Duration;

use tokio::time::Instant;

/// Short against every deadline in use, long against one probe of a loopback server.
pub(crate) const PROBE_EVERY: Duration = Duration::from_millis(5);

/// Polls `probe` until it is true, and fails the test when `limit` has passed first.
///
/// `what` completes "not within 5s: ...".
///
/// # Cancel safety
/// Safe: between two probes nothing is in flight.
pub async fn eventually<F>(limit: Duration, what: &str, mut probe: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let probe = || {
        let answer = probe();
        async { answer.await.then_some(()) }
    };
    eventually_some(limit, what, probe).await;
}

/// Polls `probe` until it has a value, returns that, and fails the test when `limit` has passed
/// first.
///
/// # Cancel safety
/// Safe: between two probes nothing is in flight.
pub async fn eventually_some<T, F>(limit: Duration, what: &str, probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    match poll(limit, probe).await {
        Some(value) => value,
        None => panic!("not within {limit:?}: {what}"),
    }
}

/// Polls `probe` until it has a value or `limit` has passed.
///
/// The limit also cuts a probe short that hangs.
pub(crate) async fn poll<T, F>(limit: Duration, mut probe: impl FnMut() -> F) -> Option<T>
where
    // Not `AsyncFnMut`: its futures are not known to be `Send`, and neither would be those of
    // whoever polls.
    F: Future<Output = Option<T>>,
{
    let end = Instant::now() + limit;
    loop {
        match tokio::time::timeout_at(end, probe()).await {
            Ok(Some(value)) => return Some(value),
            Ok(None) if Instant::now() < end => tokio::time::sleep(PROBE_EVERY).await,
            Ok(None) | Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fact_that_comes_true_ends_the_wait() {
        let mut probes = 0;

        let seen = eventually_some(Duration::from_secs(5), "three probes", || {
            probes += 1;
            std::future::ready((probes == 3).then_some(probes))
        })
        .await;

        assert_eq!(seen, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "not within 20ms: pigs fly")]
    async fn a_fact_that_stays_false_fails_with_its_description() {
        eventually(Duration::from_millis(20), "pigs fly", || async { false }).await;
    }

    #[tokio::test]
    async fn a_probe_that_hangs_is_cut_short() {
        let end = poll(
            Duration::from_millis(20),
            std::future::pending::<Option<()>>,
        )
        .await;

        assert_eq!(end, None);
    }
}
