//! Which of many futures have something to do.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Polled, Wake, Waker};

/// Many futures that are polled by one: each has a waker of its own, so that a poll costs as much as
/// has happened, and not as much as is waited for.
pub(super) struct Crowd {
    members: Vec<Waker>,
    woken: Arc<Woken>,
}

struct Woken {
    inner: Mutex<Inner>,
}

struct Inner {
    places: Vec<usize>,
    /// Who polls the crowd.
    task: Option<Waker>,
}

struct Member {
    place: usize,
    woken: Arc<Woken>,
}

impl Crowd {
    /// A crowd of `count`, all of which want to be polled.
    pub(super) fn of(count: usize) -> Self {
        let inner = Inner {
            places: (0..count).collect(),
            task: None,
        };
        let woken = Arc::new(Woken {
            inner: Mutex::new(inner),
        });
        let member = |place| {
            let woken = Arc::clone(&woken);
            Waker::from(Arc::new(Member { place, woken }))
        };
        Self {
            members: (0..count).map(member).collect(),
            woken,
        }
    }

    /// The places of those that were woken since the last time, in their order, for the poll `cx`.
    pub(super) fn woken(&self, cx: &Polled<'_>) -> Vec<usize> {
        let mut inner = self
            .woken
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !inner
            .task
            .as_ref()
            .is_some_and(|old| old.will_wake(cx.waker()))
        {
            inner.task = Some(cx.waker().clone());
        }
        let mut places = std::mem::take(&mut inner.places);
        drop(inner);
        places.sort_unstable();
        places.dedup();
        places
    }

    /// How the future at `place` is polled.
    pub(super) fn look(&self, place: usize) -> Polled<'_> {
        Polled::from_waker(&self.members[place])
    }
}

impl Wake for Member {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut inner = self
            .woken
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        inner.places.push(self.place);
        let task = inner.task.clone();
        drop(inner);
        // Not under the lock, since it may come back here.
        if let Some(task) = task {
            task.wake();
        }
    }
}
