//! What the crates really emit, for tests to await and for the observability contract to count.
//!
//! One recorder a process takes the metrics and the log lines of all its tests, which run at once.
//! Counts are therefore those of the process; a test that must see its own emit asks for the log
//! line with a detail that only it has, such as the name of its lock.
//!
//! With `COORD_TEST_OBSERVED_DIR` set, each key is written there when it is first seen, one a line,
//! to a file of the process, so that one that is killed leaves what it saw.
//!
//! # Examples
//! ```no_run
//! use std::time::Duration;
//! use coord_tests::recorder::recorder;
//!
//! async fn a_lock_that_expires_is_reported(lock: &str) {
//!     let signals = recorder();
//!     // ... let it expire ...
//!     let lost = signals.event("redis.lock.lost", &[("lock", lock)], Duration::from_secs(5)).await;
//!     assert_eq!(lost.field("cause"), Some("expired"));
//! }
//! ```

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use coord_core::signals::{Declaration, Observer};
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};

use crate::{contract, env};

/// The target of every signal's log line.
const TARGET: &str = "coord";

/// How many log lines are kept: those of the slowest test must still be there when it looks.
const KEPT: usize = 16_384;

/// The recorder of this process. The first call installs it, so call it before anything emits.
///
/// # Panics
/// When something else has taken the metrics or the log lines of this process.
pub fn recorder() -> &'static Recorder {
    static RECORDER: OnceLock<Recorder> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let folder = env::text(env::OBSERVED_DIR).map(PathBuf::from);
        let recorder = Recorder::new(contract::CRATES, folder);
        let taken = "the recorder is the only one in a test process";
        metrics::set_global_recorder(recorder.observer.clone()).expect(taken);
        tracing::subscriber::set_global_default(recorder.log.clone()).expect(taken);
        recorder
    })
}

/// What was emitted so far.
#[derive(Debug)]
pub struct Recorder {
    observer: Observer,
    log: Log,
}

/// One log line of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key of the signal.
    pub key: String,
    /// Its fields, as text.
    pub fields: Vec<(&'static str, String)>,
}

impl Event {
    /// The field `name`, as text.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value.as_str())
    }

    fn matches(&self, key: &str, fields: &[(&str, &str)]) -> bool {
        let mut fields = fields.iter();
        self.key == key && fields.all(|(name, value)| self.field(name) == Some(value))
    }
}

impl Recorder {
    fn new(crates: &[(&str, &[Declaration])], folder: Option<PathBuf>) -> Self {
        let file = folder.map(|folder| folder.join(file_name()));
        let observer = Observer::new(crates, move |key| {
            if let Some(file) = &file {
                append(file, key);
            }
        });
        let (heard, _) = watch::channel(());
        let log = Log(Arc::new(Lines {
            events: Mutex::default(),
            heard,
        }));
        Self { observer, log }
    }

    /// Whether `key` was emitted in this process.
    pub fn observed(&self, key: &str) -> bool {
        self.observer.keys().contains(key)
    }

    /// How often `key` was emitted in this process with all of these label values; the sum of its
    /// integers if it has one to add up.
    pub fn count(&self, key: &str, labels: &[(&str, &str)]) -> u64 {
        self.observer.count(key, labels)
    }

    /// The log lines of `key` with all of these fields, oldest first, of those that are kept.
    pub fn seen(&self, key: &str, fields: &[(&str, &str)]) -> Vec<Event> {
        let events = self.log.lock();
        let events = events.iter().filter(|event| event.matches(key, fields));
        events.cloned().collect()
    }

    /// The first log line of `key` with all of these fields, waiting until there is one.
    ///
    /// # Panics
    /// When there is none `within` that time.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn event(&self, key: &str, fields: &[(&str, &str)], within: Duration) -> Event {
        self.events(key, fields, 1, within).await.swap_remove(0)
    }

    /// The log lines of `key` with all of these fields, waiting until there are `at_least` so many.
    ///
    /// # Panics
    /// When there are fewer `within` that time.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn events(
        &self,
        key: &str,
        fields: &[(&str, &str)],
        at_least: usize,
        within: Duration,
    ) -> Vec<Event> {
        let mut heard = self.log.0.heard.subscribe();
        let enough = async {
            loop {
                heard.mark_unchanged();
                let found = self.seen(key, fields);
                if found.len() >= at_least {
                    return found;
                }
                heard
                    .changed()
                    .await
                    .expect("the recorder holds the sender");
            }
        };
        if let Ok(found) = tokio::time::timeout(within, enough).await {
            return found;
        }
        panic!(
            "{} of {at_least} lines of {key} with {fields:?} within {within:?}; of that key: {:#?}",
            self.seen(key, fields).len(),
            self.seen(key, &[])
        )
    }
}

/// The name of this process's file: its program and its id.
fn file_name() -> String {
    format!(
        "{}-{}.{}",
        program(),
        std::process::id(),
        contract::OBSERVED
    )
}

/// The program of this process, without the hash that cargo adds.
pub(crate) fn program() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(Path::file_stem);
    let name = name.map_or_else(|| "unknown".into(), |name| name.to_string_lossy());
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.rsplit_once('-') {
        Some((name, end)) if is_hash(end) => name.to_owned(),
        _ => name.into_owned(),
    }
}

fn append(file: &Path, key: &str) {
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(format!("{key}\n").as_bytes()));
    if let Err(error) = written {
        panic!(
            "a key that nobody can count is a failure: {}: {error}",
            file.display()
        );
    }
}

/// A subscriber that keeps the log lines of signals and nothing else.
#[derive(Clone)]
struct Log(Arc<Lines>);

struct Lines {
    events: Mutex<VecDeque<Event>>,
    /// Sent after each line.
    heard: watch::Sender<()>,
}

impl Log {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Event>> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&*self.lock()).finish()
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == TARGET
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        let Some(place) = fields.0.iter().position(|(name, _)| *name == "key") else {
            return;
        };
        let (_, key) = fields.0.remove(place);
        let mut events = self.lock();
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back(Event {
            key,
            fields: fields.0,
        });
        drop(events);
        self.0.heard.send_replace(());
    }

    // No span is enabled, so none of these is called with one of ours.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The fields of a line, as text.
struct Fields(Vec<(&'static str, String)>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}
