//! What is to happen to a particular request.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::oneshot;

/// How long a test waits for the request it announced.
const SEEN_WITHIN: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Pass,
    Cut,
    LoseReply,
    HoldRequest,
    HoldReply,
}

/// A request that was announced, once it has come.
pub(super) struct Matched {
    pub(super) action: Action,
    pub(super) request: Vec<u8>,
    reached: oneshot::Sender<Vec<u8>>,
    released: oneshot::Receiver<()>,
}

impl Matched {
    /// Tells the test that it has come to pass.
    pub(super) fn done(self) {
        let _ = self.reached.send(self.request);
    }

    /// Tells the test that it has come to pass, and waits until the test lets go.
    pub(super) async fn hold(self) {
        let _ = self.reached.send(self.request);
        // A dropped hold lets go as well.
        let _ = self.released.await;
    }
}

struct Rule {
    pattern: Vec<u8>,
    action: Action,
    reached: oneshot::Sender<Vec<u8>>,
    released: oneshot::Receiver<()>,
}

/// The requests that are announced.
#[derive(Default)]
pub(super) struct Rules(Mutex<Vec<Rule>>);

impl Rules {
    pub(super) fn watch(&self, pattern: &[u8], action: Action) -> Seen {
        self.add(pattern, action).seen
    }

    pub(super) fn hold(&self, pattern: &[u8], action: Action) -> Hold {
        self.add(pattern, action)
    }

    fn add(&self, pattern: &[u8], action: Action) -> Hold {
        let (reached, seen) = oneshot::channel();
        let (release, released) = oneshot::channel();
        self.lock().push(Rule {
            pattern: pattern.to_vec(),
            action,
            reached,
            released,
        });
        let what = format!(
            "{action:?} of a request with {:?}",
            String::from_utf8_lossy(pattern)
        );
        Hold {
            seen: Seen::new(what, seen),
            release,
        }
    }

    /// Takes the oldest rule that `request` matches. A rule applies once.
    pub(super) fn take(&self, request: &[u8]) -> Option<Matched> {
        let mut rules = self.lock();
        let index = rules
            .iter()
            .position(|rule| contains(request, &rule.pattern))?;
        let Rule {
            action,
            reached,
            released,
            ..
        } = rules.remove(index);
        Some(Matched {
            action,
            request: request.to_vec(),
            reached,
            released,
        })
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Rule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn contains(text: &[u8], pattern: &[u8]) -> bool {
    pattern.is_empty() || text.windows(pattern.len()).any(|window| window == pattern)
}

/// Resolves to the request that was announced, once what was asked for has been done to it.
///
/// Awaiting it fails the test after twenty seconds, or when the fault was healed away.
pub struct Seen(Pin<Box<dyn Future<Output = Vec<u8>> + Send>>);

impl Seen {
    fn new(what: String, seen: oneshot::Receiver<Vec<u8>>) -> Self {
        Self(Box::pin(async move {
            let Ok(seen) = tokio::time::timeout(SEEN_WITHIN, seen).await else {
                panic!("not within {SEEN_WITHIN:?}: {what}")
            };
            let Ok(request) = seen else {
                panic!("healed, or its connection ended, before the {what}")
            };
            request
        }))
    }
}

impl Future for Seen {
    type Output = Vec<u8>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        self.0.as_mut().poll(context)
    }
}

/// A request or a reply that the proxy keeps until it is released.
pub struct Hold {
    seen: Seen,
    release: oneshot::Sender<()>,
}

impl Hold {
    /// Waits until the proxy has it, and returns the request. A reply that is held means that the
    /// request was executed.
    ///
    /// # Panics
    /// When it does not come within twenty seconds, or at the second call.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn reached(&mut self) -> Vec<u8> {
        (&mut self.seen).await
    }

    /// Lets it pass, or lets it be if it has not come yet.
    pub fn release(self) {
        drop(self.release);
    }
}
