//! What a command that takes long says meanwhile: to people alone, on standard error, where it is
//! drawn over.

use std::fmt::Display;
use std::time::Duration;

use indicatif::ProgressBar;

/// How often it moves, so that one sees that it lives.
const EVERY: Duration = Duration::from_millis(100);

/// A line that says what goes on; gone when it is dropped. Where standard error is no terminal
/// nothing is drawn.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn begin(what: impl Display) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what.to_string());
        bar.enable_steady_tick(EVERY);
        Self(bar)
    }

    pub(super) fn say(&self, what: impl Display) {
        self.0.set_message(what.to_string());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
