//! `prometheus-rules.yml`: the alarms as Prometheus evaluates them.

use super::tree::{Tree, list, map};
use super::words::{self, Monitored};
use super::{Contract, RUNBOOK};
use crate::signals::{BUCKETS, Declaration, When};

pub(super) fn render(contract: &Contract<'_>) -> String {
    let groups = contract.crates.iter().filter_map(|(name, signals)| {
        let monitored = signals.iter().filter_map(|declaration| {
            let monitored = words::monitored(declaration)?;
            Some(rule(declaration, monitored))
        });
        let rules: Vec<_> = monitored.collect();
        (!rules.is_empty()).then(|| map([("name", (*name).into()), ("rules", list(rules))]))
    });
    let tree = map([("groups", list(groups))]);
    format!(
        "# {}\n# Scrape every 15 seconds: an increase needs several samples in the shortest window, a \
         minute.\n# Durations are histograms with the bounds of coord_core::signals::BUCKETS; {RUNBOOK} \
         lies beside this file.\n{}",
        contract.headline(),
        tree.yaml()
    )
}

fn rule(declaration: &Declaration, monitored: Monitored) -> Tree {
    map([
        ("alert", words::alert(declaration.key).into()),
        ("expr", expression(declaration, monitored.when).into()),
        ("labels", map(labels(declaration, monitored))),
        ("annotations", annotations(declaration, monitored)),
    ])
}

/// The labels that an alert adds to those of its series.
pub(super) fn labels(declaration: &Declaration, monitored: Monitored) -> Vec<(&'static str, Tree)> {
    let mut labels = vec![
        ("severity", monitored.severity().into()),
        ("key", declaration.key.into()),
    ];
    if monitored.rollback {
        labels.push(("rollback", "true".into()));
    }
    labels
}

/// What an alert tells the one who gets it.
pub(super) fn annotations(declaration: &Declaration, monitored: Monitored) -> Tree {
    let condition = words::condition(monitored.when);
    map([
        ("summary", declaration.about.into()),
        (
            "description",
            format!("{}: {condition}", declaration.key).into(),
        ),
        ("runbook", monitored.link().into()),
    ])
}

/// The condition in `PromQL`.
///
/// Counts are joined over the instances of a job, since it is the service that has lost a lock; a
/// gauge speaks for one instance.
fn expression(declaration: &Declaration, when: When) -> String {
    let metric = declaration.metric;
    let counted = words::counted(declaration);
    match when {
        When::Any(window) => format!(
            "sum by ({}) (increase({counted}[{}m])) > 0",
            by(declaration, &["job"]),
            window.as_minutes()
        ),
        When::MoreThan(count, window) => {
            format!(
                "sum by (job) (increase({counted}[{}m])) > {count}",
                window.as_minutes()
            )
        }
        // The offset asks that the series is as old as the window: the first value of a new process
        // is not a whole window above anything.
        When::Above(value, window) => format!(
            "min_over_time({metric}[{minutes}m]) > {value} and {metric} offset {minutes}m",
            minutes = window.as_minutes()
        ),
        When::Slow(milliseconds, window) => format!(
            "histogram_quantile(0.99, sum by ({}) (rate({metric}_bucket[{}m]))) > {}",
            by(declaration, &["job", "le"]),
            window.as_minutes(),
            seconds(milliseconds)
        ),
    }
}

/// The labels over which an expression does not sum.
fn by(declaration: &Declaration, first: &[&'static str]) -> String {
    let own = words::labels(declaration).map(|(name, _)| name);
    let names: Vec<_> = first.iter().copied().chain(own).collect();
    names.join(", ")
}

/// A threshold as its bucket is called, so that both are the same number.
pub(super) fn seconds(milliseconds: u64) -> f64 {
    let seconds = milliseconds as f64 / 1000.0;
    debug_assert!(BUCKETS.contains(&seconds), "the row was checked");
    seconds
}
