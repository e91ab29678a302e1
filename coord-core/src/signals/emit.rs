//! Where a signal reaches its metric.

use super::proof::BUCKETS_MS;
use super::{Declaration, Field, Kind, Measure, Role};

/// The bounds, in seconds, of the histograms that durations become: for the exporter.
///
/// The generated rules read histograms, because quantiles that each process computes alone cannot
/// be joined over several. For `metrics-exporter-prometheus`:
/// `builder.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), BUCKETS)`.
///
/// From one millisecond, a command on a near server, to five minutes, the longest sensible wait
/// for a lock, each about twice the one before.
pub const BUCKETS: &[f64] = &{
    let mut seconds = [0.0; BUCKETS_MS.len()];
    let mut index = 0;
    while index < seconds.len() {
        seconds[index] = BUCKETS_MS[index] as f64 / 1000.0;
        index += 1;
    }
    seconds
};

/// Describes the metrics of `signals`, and exports every counter and every duration at zero, with
/// all values of its labels.
///
/// A counter that is born at one shows no increase, and the first lost lock would page nobody.
/// The types that emit do this when they are made; call it again after installing a recorder
/// later.
pub fn register(signals: &[Declaration]) {
    metrics::with_recorder(|recorder| {
        for declaration in signals {
            let (name, about) = (declaration.metric.into(), declaration.about.into());
            let keys = label_sets(declaration.fields)
                .into_iter()
                .map(|labels| metrics::Key::from_parts(declaration.metric, labels));
            match declaration.kind {
                Kind::Counter => {
                    recorder.describe_counter(name, None, about);
                    keys.for_each(|key| recorder.register_counter(&key, &METADATA).increment(0));
                }
                // A gauge that nobody has set shows nothing: zero would be a claim.
                Kind::Gauge => recorder.describe_gauge(name, None, about),
                Kind::Duration => {
                    recorder.describe_histogram(name, Some(metrics::Unit::Seconds), about);
                    keys.for_each(|key| drop(recorder.register_histogram(&key, &METADATA)));
                }
            }
        }
    });
}

/// Every combination of the label values of `fields`.
fn label_sets(fields: &[Field]) -> Vec<Vec<metrics::Label>> {
    let mut sets = vec![Vec::new()];
    for field in fields {
        let Role::Label(values) = field.role else {
            continue;
        };
        let extended = sets.iter().flat_map(|set| {
            values.iter().map(move |value| {
                let mut set = set.clone();
                set.push(metrics::Label::from_static_parts(field.name, value));
                set
            })
        });
        sets = extended.collect();
    }
    sets
}

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("coord", metrics::Level::INFO, None);

/// Adds one emit to its metric. Called by what [`declare!`](crate::declare) makes.
#[doc(hidden)]
pub fn record(
    metric: &'static str,
    kind: Kind,
    fields: &[(&'static str, Option<&'static str>, Option<Measure>)],
) {
    metrics::with_recorder(|recorder| {
        let labels: Vec<_> = fields
            .iter()
            .filter_map(|&(name, label, _)| Some(metrics::Label::from_static_parts(name, label?)))
            .collect();
        let key = metrics::Key::from_parts(metric, labels);
        let measure = fields.iter().find_map(|&(_, _, measure)| measure);
        match (kind, measure) {
            (Kind::Counter, Some(Measure::Amount(amount))) => {
                recorder.register_counter(&key, &METADATA).increment(amount);
            }
            (Kind::Counter, _) => recorder.register_counter(&key, &METADATA).increment(1),
            (Kind::Gauge, Some(Measure::Amount(amount))) => {
                recorder.register_gauge(&key, &METADATA).set(amount as f64);
            }
            (Kind::Duration, Some(Measure::Elapsed(elapsed))) => {
                recorder
                    .register_histogram(&key, &METADATA)
                    .record(elapsed.as_secs_f64());
            }
            // `checked` gave each kind its measure.
            (Kind::Gauge | Kind::Duration, _) => {}
        }
    });
}
