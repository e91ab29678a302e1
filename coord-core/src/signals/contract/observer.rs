//! Notes which signals are really emitted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::signals::Declaration;

/// A metrics recorder that notes which signals are emitted, for the test run that
/// [`check`](super::check) reads.
///
/// Exporting a counter at zero is no emit. A metric that nobody declared is noted by its own name,
/// so that it is found.
///
/// Clones are the same observer.
#[derive(Clone)]
pub struct Observer(Arc<Inner>);

struct Inner {
    /// The key of each metric.
    keys: HashMap<&'static str, &'static str>,
    seen: Mutex<BTreeMap<String, Vec<Series>>>,
    first: Box<dyn Fn(&str) + Send + Sync>,
}

/// What was emitted with one set of labels.
struct Series {
    labels: Vec<metrics::Label>,
    count: u64,
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Observer")
            .field(&self.keys())
            .finish()
    }
}

impl Observer {
    /// An observer of `crates`' signals that calls `first` with each key when it is first seen, so
    /// that a process which is killed later leaves what it saw.
    pub fn new(
        crates: &[(&str, &[Declaration])],
        first: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let declarations = crates.iter().flat_map(|(_, signals)| *signals);
        let keys = declarations.map(|declaration| (declaration.metric, declaration.key));
        Self(Arc::new(Inner {
            keys: keys.collect(),
            seen: Mutex::default(),
            first: Box::new(first),
        }))
    }

    /// Every key that was emitted so far.
    pub fn keys(&self) -> BTreeSet<String> {
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.keys().cloned().collect()
    }

    /// How often `key` was emitted with all of these label values, whatever its others are; the sum
    /// of its integers if it has one to add up.
    pub fn count(&self, key: &str, labels: &[(&str, &str)]) -> u64 {
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let series = seen.get(key).into_iter().flatten();
        let series = series.filter(|series| {
            labels.iter().all(|(name, value)| {
                let mut own = series.labels.iter();
                own.any(|label| label.key() == *name && label.value() == *value)
            })
        });
        series.map(|series| series.count).sum()
    }

    fn handle(&self, metric: &Key) -> Arc<Handle> {
        Arc::new(Handle {
            observer: self.clone(),
            metric: metric.clone(),
        })
    }
}

/// One metric with its labels, as the emitting code holds it.
struct Handle {
    observer: Observer,
    metric: Key,
}

impl Handle {
    fn note(&self, count: u64) {
        let inner = &self.observer.0;
        let name = self.metric.name();
        let key = inner.keys.get(name).copied().unwrap_or(name);
        let mut seen = inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.contains_key(key) {
            // Under the lock, so that whoever finds the key in `keys` finds what `first` did too.
            (inner.first)(key);
        }
        let all = seen.entry(key.to_owned()).or_default();
        let own = self.metric.labels();
        match all.iter_mut().find(|series| own.clone().eq(&series.labels)) {
            Some(series) => series.count += count,
            None => all.push(Series {
                labels: own.cloned().collect(),
                count,
            }),
        }
    }
}

impl CounterFn for Handle {
    fn increment(&self, value: u64) {
        if value > 0 {
            self.note(value);
        }
    }

    fn absolute(&self, _: u64) {
        self.note(1);
    }
}

impl GaugeFn for Handle {
    fn increment(&self, _: f64) {
        self.note(1);
    }

    fn decrement(&self, _: f64) {
        self.note(1);
    }

    fn set(&self, _: f64) {
        self.note(1);
    }
}

impl HistogramFn for Handle {
    fn record(&self, _: f64) {
        self.note(1);
    }
}

impl Recorder for Observer {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.handle(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.handle(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.handle(key))
    }
}
