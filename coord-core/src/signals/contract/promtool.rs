//! `prometheus-rules.test.yml`: for `promtool test rules`, each alert on both sides of its limit.

use super::Contract;
use super::prometheus::{annotations, labels, seconds};
use super::tree::{Tree, list, map};
use super::words::{self, Monitored};
use crate::signals::{BUCKETS, Declaration, When};

/// Samples a minute: the scrape interval that the rules ask for.
const SAMPLES_A_MINUTE: u32 = 4;
const INTERVAL: &str = "15s";

pub(super) fn render(contract: &Contract<'_>) -> String {
    let cases = words::all_monitored(contract)
        .flat_map(|(declaration, monitored)| cases(declaration, monitored));
    let tree = map([
        ("rule_files", list(["prometheus-rules.yml".into()])),
        ("evaluation_interval", INTERVAL.into()),
        ("tests", list(cases)),
    ]);
    format!("# {}\n{}", contract.headline(), tree.yaml())
}

/// A series with its samples.
type Series = (String, String);

fn cases(declaration: &Declaration, monitored: Monitored) -> Vec<Tree> {
    let alarm = Case {
        declaration,
        monitored,
    };
    match monitored.when {
        When::Any(window) => alarm.counted(0, window.as_minutes(), true),
        When::MoreThan(count, window) => alarm.counted(count, window.as_minutes(), false),
        When::Above(value, window) => alarm.above(value, window.as_minutes()),
        When::Slow(milliseconds, window) => alarm.slow(milliseconds, window.as_minutes()),
    }
}

#[derive(Clone, Copy)]
struct Case<'a> {
    declaration: &'a Declaration,
    monitored: Monitored,
}

impl Case<'_> {
    /// One more than `count` over two instances trips, `count` does not.
    ///
    /// The counters begin at zero and rise in the middle of the window, so that no version of
    /// Prometheus extrapolates the increase.
    fn counted(self, count: u64, minutes: u32, with_labels: bool) -> Vec<Tree> {
        let name = words::counted(self.declaration);
        let half = minutes * SAMPLES_A_MINUTE / 2;
        let rise = |to: u64| format!("0+0x{} {to}+0x{half}", half - 1);
        let one = || (self.series(&name, "one", None), rise(count));
        let other = |to| (self.series(&name, "other", None), rise(to));
        let labels = if with_labels {
            self.own_labels()
        } else {
            Vec::new()
        };
        vec![
            self.test("fires", minutes, &[one(), other(1)], Some(labels)),
            self.test("stays quiet", minutes, &[one(), other(0)], None),
        ]
    }

    /// Above the value for the whole window trips; at the value, for less than the window, and in a
    /// process younger than the window it does not.
    fn above(self, value: u64, minutes: u32) -> Vec<Tree> {
        let name = self.declaration.metric;
        let window = minutes * SAMPLES_A_MINUTE;
        let gauge = |values: String| [(self.series(name, "one", None), values)];
        let long = |value: u64| format!("{value}+0x{}", 2 * window);
        let rises = |samples_below: u32| {
            format!(
                "{value}+0x{} {}+0x{}",
                samples_below - 1,
                value + 1,
                2 * window
            )
        };
        let young = format!("_x{} {}+0x{window}", window + 1, value + 1);
        let mut labels = vec![("instance", "one".to_owned())];
        labels.extend(self.own_labels());
        vec![
            self.test("fires", 2 * minutes, &gauge(long(value + 1)), Some(labels)),
            self.test(
                "stays quiet at its limit",
                2 * minutes,
                &gauge(long(value)),
                None,
            ),
            self.test(
                "stays quiet before its window is over",
                2 * minutes,
                &gauge(rises(window + 2)),
                None,
            ),
            self.test(
                "stays quiet in a new process",
                2 * minutes,
                &gauge(young),
                None,
            ),
        ]
    }

    /// All observations in the bucket above the threshold trip; all in its own do not.
    fn slow(self, milliseconds: u64, minutes: u32) -> Vec<Tree> {
        let name = format!("{}_bucket", self.declaration.metric);
        let threshold = seconds(milliseconds);
        let samples = minutes * SAMPLES_A_MINUTE;
        let histogram = |filled: &dyn Fn(f64) -> bool| -> Vec<Series> {
            let bounds = BUCKETS.iter().map(|bound| (*bound, bound.to_string()));
            let bounds = bounds.chain([(f64::INFINITY, "+Inf".to_owned())]);
            let series = bounds.map(|(bound, text)| {
                let step = u8::from(filled(bound));
                let values = format!("0+{step}x{samples}");
                (self.series(&name, "one", Some(&text)), values)
            });
            series.collect()
        };
        let slow = histogram(&|bound| bound > threshold);
        let quick = histogram(&|bound| bound >= threshold);
        vec![
            self.test("fires", minutes, &slow, Some(self.own_labels())),
            self.test("stays quiet", minutes, &quick, None),
        ]
    }

    /// The first value of each label.
    fn own_labels(self) -> Vec<(&'static str, String)> {
        let labels = words::labels(self.declaration);
        labels
            .map(|(name, values)| (name, values[0].to_owned()))
            .collect()
    }

    fn series(self, name: &str, instance: &str, bound: Option<&str>) -> String {
        let mut labels = vec![
            ("job", "test".to_owned()),
            ("instance", instance.to_owned()),
        ];
        labels.extend(self.own_labels());
        labels.extend(bound.map(|bound| ("le", bound.to_owned())));
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        format!("{name}{{{}}}", labels.join(","))
    }

    /// A test that the alert fires with these labels, or does not fire.
    fn test(
        self,
        does: &str,
        minutes: u32,
        series: &[Series],
        fires_with: Option<Vec<(&'static str, String)>>,
    ) -> Tree {
        let alert = words::alert(self.declaration.key);
        let alerts = fires_with.map(|own| {
            let mut all = vec![("job", "test".into())];
            all.extend(own.into_iter().map(|(name, value)| (name, value.into())));
            all.extend(labels(self.declaration, self.monitored));
            map([
                ("exp_labels", map(all)),
                (
                    "exp_annotations",
                    annotations(self.declaration, self.monitored),
                ),
            ])
        });
        let series = series.iter().map(|(series, values)| {
            map([
                ("series", series.as_str().into()),
                ("values", values.as_str().into()),
            ])
        });
        map([
            ("name", format!("{alert} {does}").into()),
            ("interval", INTERVAL.into()),
            ("input_series", list(series)),
            (
                "alert_rule_test",
                list([map([
                    ("eval_time", format!("{minutes}m").into()),
                    ("alertname", alert.into()),
                    ("exp_alerts", list(alerts)),
                ])]),
            ),
        ])
    }
}
