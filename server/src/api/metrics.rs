//! The metrics of a process, and what all of them do, as JSON.

use std::collections::BTreeMap;

use axum::Json;
use coord_engine::operator::Snapshot;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Everywhere, Read};
use super::problem::Problem;
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(system_metrics))
        .routes(routes!(operator_metrics))
}

/// The metrics of the node that was asked: of this process alone, since it began.
#[derive(Serialize, ToSchema)]
struct Metrics {
    /// By the name of the metric.
    metrics: BTreeMap<String, Vec<Sample>>,
}

/// One value of a metric.
#[derive(Serialize, ToSchema, PartialEq, Debug)]
struct Sample {
    labels: BTreeMap<String, String>,
    /// `null` for what is no number.
    value: Option<f64>,
}

/// The metrics of the node that was asked, which `/metrics` has as Prometheus reads them.
#[utoipa::path(get, path = "/system/metrics", tag = "system",
    responses((status = 200, body = Metrics)))]
async fn system_metrics(caller: Everywhere<Read>) -> Result<Json<Metrics>, Problem> {
    if !caller.node.has_metrics() {
        let why = "this node counts no metrics";
        return Err(Problem::missing("metrics_not_configured", why));
    }
    let mut metrics: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for line in caller.node.render_metrics().lines() {
        if let Some((name, sample)) = sample(line) {
            metrics.entry(name).or_default().push(sample);
        }
    }
    Ok(Json(Metrics { metrics }))
}

/// What stands where, with the age of the oldest of each, what was done in the last minute and who
/// works: of all processes together, as the database has it. Once every ten seconds is often enough.
#[utoipa::path(get, path = "/system/operator-metrics", tag = "system",
    responses((status = 200, body = Object, content_type = "application/json")))]
async fn operator_metrics(caller: Everywhere<Read>) -> Result<Json<Snapshot>, Problem> {
    Ok(Json(caller.node.engine().operator_snapshot().await?))
}

/// The sample of a line of the text format of Prometheus; `None` for a comment and for what is none.
fn sample(line: &str) -> Option<(String, Sample)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.trim().to_owned(), value);
            rest = after;
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?.parse().ok();
    let value = value.filter(|value: &f64| value.is_finite());
    Some((name.to_owned(), Sample { labels, value }))
}

/// The text up to the quote that closes it, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match signs.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_labels_and_a_number() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        for (line, name, expected, value) in [
            ("up 1", "up", labels(&[]), Some(1.0)),
            ("up{} 0", "up", labels(&[]), Some(0.0)),
            (
                r#"h_bucket{le="+Inf"} 7"#,
                "h_bucket",
                labels(&[("le", "+Inf")]),
                Some(7.0),
            ),
            (
                r#"x{a="1",b="q\"{}, \\ \n"} 2.5e3 1700"#,
                "x",
                labels(&[("a", "1"), ("b", "q\"{}, \\ \n")]),
                Some(2500.0),
            ),
            ("x NaN", "x", labels(&[]), None),
        ] {
            let (found, sample) = sample(line).expect(line);
            assert_eq!(found, name);
            assert_eq!((sample.labels, sample.value), (expected, value), "{line}");
        }
        for line in ["", "# HELP up is it", "up", r#"x{a="1"#, "x{a} 1"] {
            assert_eq!(sample(line), None, "{line}");
        }
    }
}
