//! Whether the runtime of this process still runs its tasks.
//!
//! Heartbeats and renewals go on aside, so a process whose runtime is occupied holds what it has and
//! looks alive. It claims nothing and ends nothing meanwhile, and somebody should know.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::aside::Aside;
use crate::committer::locked;
use crate::signals::Signal;

/// How often it shows that it runs, and how often that is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Less is a busy moment.
const WORTH_A_WORD: Duration = Duration::from_secs(5);

/// The watch over a runtime. Dropped, it ends.
pub(crate) struct StallWatch(Mutex<JoinSet<()>>);

impl StallWatch {
    /// Watches the runtime of the caller from that of `aside`, if it is another one.
    pub(crate) fn begin(aside: &Aside) -> Self {
        let mut watch = JoinSet::new();
        if aside.is_apart() {
            let seen = Arc::new(Mutex::new(Instant::now()));
            watch.spawn(show(Arc::clone(&seen)));
            watch.spawn_on(look(seen), aside.runtime());
        }
        Self(Mutex::new(watch))
    }

    pub(crate) async fn end(&self) {
        let mut watch = std::mem::take(&mut *locked(&self.0));
        watch.shutdown().await;
    }
}

async fn show(seen: Arc<Mutex<Instant>>) {
    loop {
        *locked(&seen) = Instant::now();
        tokio::time::sleep(EVERY).await;
    }
}

async fn look(seen: Arc<Mutex<Instant>>) {
    let mut shown_s = 0;
    loop {
        tokio::time::sleep(EVERY).await;
        let age = locked(&seen).elapsed();
        let age_s = if age < WORTH_A_WORD { 0 } else { age.as_secs() };
        if age_s != shown_s {
            Signal::RuntimeStalled { age_s }.emit();
            shown_s = age_s;
        }
    }
}
