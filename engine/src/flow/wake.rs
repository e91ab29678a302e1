//! Who may wake the code of a run: the history, and its own local steps. Anybody else is foreign.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

thread_local! {
    /// Set while a local step of a run passes its wake on: that one is expected.
    static FROM_STEP: Cell<bool> = const { Cell::new(false) };
}

const IDLE: u8 = 0;
const POLLED: u8 = 1;
const FED: u8 = 2;

/// The waker that the code of a run sees.
///
/// Its futures are woken when they are fed an outcome. A wake at any other time comes from something
/// that is not in the history, and running the code again would not take it to the same point.
#[derive(Debug, Default)]
pub(super) struct Guard {
    phase: AtomicU8,
    woken_by_itself: AtomicBool,
    foreign: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Guard {
    /// Runs `poll` with wakes counted as the code's own: combinators wake themselves to go on.
    pub(super) fn while_polled<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.phase.store(POLLED, Ordering::SeqCst);
        let result = poll();
        self.phase.store(IDLE, Ordering::SeqCst);
        result
    }

    /// Runs `feed` with wakes counted as those of the history.
    pub(super) fn while_fed<T>(&self, feed: impl FnOnce() -> T) -> T {
        self.phase.store(FED, Ordering::SeqCst);
        let result = feed();
        self.phase.store(IDLE, Ordering::SeqCst);
        result
    }

    /// Sets the task that a wake from outside concerns.
    pub(super) fn belong_to(&self, task: &Waker) {
        let mut place = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !place.as_ref().is_some_and(|old| old.will_wake(task)) {
            *place = Some(task.clone());
        }
    }

    /// Whether the code woke itself in the poll before.
    pub(super) fn take_woken_by_itself(&self) -> bool {
        self.woken_by_itself.swap(false, Ordering::SeqCst)
    }

    /// Whether somebody else woke it since the last time.
    pub(super) fn take_foreign(&self) -> bool {
        self.foreign.swap(false, Ordering::SeqCst)
    }

    fn wake_task(&self) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Wake for Guard {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if FROM_STEP.get() {
            self.wake_task();
            return;
        }
        match self.phase.load(Ordering::SeqCst) {
            POLLED => self.woken_by_itself.store(true, Ordering::SeqCst),
            FED => {}
            _ => {
                self.foreign.store(true, Ordering::SeqCst);
                self.wake_task();
            }
        }
    }
}

/// The waker of a local step: what it waits for is its own business.
pub(super) struct StepWaker(pub(super) Waker);

impl Wake for StepWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Through the wakers of the combinators around it, which would else not poll it.
        let before = FROM_STEP.replace(true);
        self.0.wake_by_ref();
        FROM_STEP.set(before);
    }
}
