//! `grafana-dashboard.json`: a panel for each signal, a row for each crate.

use super::Contract;
use super::tree::{Tree, list, map};
use super::words;
use crate::signals::{Declaration, Kind};

/// Grafana's grid is 24 columns wide; three panels stand side by side.
const PANELS_A_ROW: u64 = 3;
const WIDTH: u64 = 24 / PANELS_A_ROW;
const HEIGHT: u64 = 7;

pub(super) fn render(contract: &Contract<'_>) -> String {
    let mut panels = Vec::new();
    let mut top = 0;
    for (name, signals) in contract.crates {
        panels.push(heading(panels.len() as u64 + 1, name, top));
        top += 1;
        for (line, signals) in signals.chunks(PANELS_A_ROW as usize).enumerate() {
            let line = top + line as u64 * HEIGHT;
            for (column, declaration) in signals.iter().enumerate() {
                let place = place(column as u64 * WIDTH, line, WIDTH, HEIGHT);
                panels.push(panel(panels.len() as u64 + 1, declaration, place));
            }
        }
        top += (signals.len() as u64).div_ceil(PANELS_A_ROW) * HEIGHT;
    }
    let dashboard = map([
        ("title", format!("{}: signals", contract.name).into()),
        ("uid", format!("{}-signals", contract.name).into()),
        ("description", contract.headline().into()),
        ("tags", list([contract.name.into()])),
        ("schemaVersion", 39.into()),
        ("editable", false.into()),
        ("refresh", "30s".into()),
        (
            "time",
            map([("from", "now-6h".into()), ("to", "now".into())]),
        ),
        ("templating", map([("list", list([data_source(), job()]))])),
        ("panels", list(panels)),
    ]);
    dashboard.json()
}

fn data_source() -> Tree {
    map([
        ("name", "datasource".into()),
        ("label", "Prometheus".into()),
        ("type", "datasource".into()),
        ("query", "prometheus".into()),
    ])
}

fn job() -> Tree {
    map([
        ("name", "job".into()),
        ("label", "Job".into()),
        ("type", "query".into()),
        ("datasource", source()),
        ("query", "label_values(up, job)".into()),
        ("refresh", 2.into()),
        ("includeAll", true.into()),
        ("multi", true.into()),
        ("allValue", ".*".into()),
        (
            "current",
            map([("text", "All".into()), ("value", "$__all".into())]),
        ),
    ])
}

fn source() -> Tree {
    map([
        ("type", "prometheus".into()),
        ("uid", "${datasource}".into()),
    ])
}

fn place(x: u64, y: u64, width: u64, height: u64) -> Tree {
    map([
        ("x", x.into()),
        ("y", y.into()),
        ("w", width.into()),
        ("h", height.into()),
    ])
}

fn heading(id: u64, title: &str, top: u64) -> Tree {
    map([
        ("id", id.into()),
        ("type", "row".into()),
        ("title", title.into()),
        ("collapsed", false.into()),
        ("gridPos", place(0, top, 24, 1)),
        ("panels", list([])),
    ])
}

fn panel(id: u64, declaration: &Declaration, place: Tree) -> Tree {
    let alarm = match words::monitored(declaration) {
        None => "No alarm.".to_owned(),
        Some(alarm) => format!(
            "Alarm ({}): {}; {}.",
            alarm.severity(),
            words::condition(alarm.when),
            alarm.link()
        ),
    };
    let unit = match declaration.kind {
        Kind::Counter | Kind::Gauge => "short",
        Kind::Duration => "s",
    };
    map([
        ("id", id.into()),
        ("type", "timeseries".into()),
        ("title", declaration.key.into()),
        (
            "description",
            format!("{} {alarm}", declaration.about).into(),
        ),
        ("gridPos", place),
        ("datasource", source()),
        (
            "fieldConfig",
            map([
                ("defaults", map([("unit", unit.into()), ("min", 0.into())])),
                ("overrides", list([])),
            ]),
        ),
        ("targets", list(targets(declaration))),
    ])
}

fn targets(declaration: &Declaration) -> Vec<Tree> {
    let metric = declaration.metric;
    let labels: Vec<_> = words::labels(declaration).map(|(name, _)| name).collect();
    let legend: Vec<_> = labels
        .iter()
        .map(|name| format!("{{{{{name}}}}}"))
        .collect();
    let legend = legend.join(" ");
    let quantile = |quantile: &str, name: &str| {
        let by: Vec<_> = ["le"].iter().chain(&labels).copied().collect();
        let expression = format!(
            "histogram_quantile({quantile}, sum by ({}) \
             (rate({metric}_bucket{{job=~\"$job\"}}[$__rate_interval])))",
            by.join(", ")
        );
        (expression, format!("{name} {legend}").trim_end().to_owned())
    };
    let queries = match declaration.kind {
        Kind::Counter => vec![(
            format!(
                "sum by ({}) (increase({metric}{{job=~\"$job\"}}[$__rate_interval]))",
                labels.join(", ")
            ),
            legend,
        )],
        Kind::Gauge => vec![(
            format!("{metric}{{job=~\"$job\"}}"),
            format!("{{{{instance}}}} {legend}").trim_end().to_owned(),
        )],
        Kind::Duration => vec![quantile("0.5", "median"), quantile("0.99", "99th")],
    };
    let targets = queries
        .into_iter()
        .zip(["A", "B"])
        .map(|((expression, legend), name)| {
            map([
                ("refId", name.into()),
                ("datasource", source()),
                ("expr", expression.into()),
                (
                    "legendFormat",
                    if legend.is_empty() {
                        declaration.key.into()
                    } else {
                        legend.into()
                    },
                ),
            ])
        });
    targets.collect()
}
