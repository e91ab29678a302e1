//! `cloudwatch.yml`: the alarms as AWS evaluates them, from the JSON log lines alone.

use super::Contract;
use super::tree::{Tree, list, map};
use super::words::{self, Monitored};
use crate::signals::{Declaration, Kind, When};

pub(super) fn render(contract: &Contract<'_>) -> String {
    let monitored: Vec<_> = words::all_monitored(contract).collect();
    let mut resources = Vec::new();
    for (declaration, monitored) in &monitored {
        let name = words::alert(declaration.key);
        resources.push((format!("{name}Filter"), filter(contract, declaration)));
        resources.push((
            format!("{name}Alarm"),
            alarm(contract, declaration, *monitored),
        ));
    }
    let mut template = vec![
        ("AWSTemplateFormatVersion", Tree::from("2010-09-09")),
        (
            "Description",
            format!("The alarms of {}, from its JSON log lines.", contract.name).into(),
        ),
        ("Parameters", parameters(contract, &monitored)),
        ("Resources", map(resources)),
    ];
    let rollback: Vec<_> = monitored
        .iter()
        .filter(|(_, monitored)| monitored.rollback)
        .map(|(declaration, _)| reference(format!("{}Alarm", words::alert(declaration.key))))
        .collect();
    if !rollback.is_empty() {
        let names = map([("Fn::Join", list([",".into(), list(rollback)]))]);
        let output = map([
            (
                "Description",
                "The names of the alarms that roll a deploy back.".into(),
            ),
            ("Value", names),
        ]);
        template.push(("Outputs", map([("RollbackAlarms", output)])));
    }
    format!(
        "# {}\n# The log lines are JSON with the fields on top: {{\"key\": \"redis.lock.lost\", ...}}.\n{}",
        contract.headline(),
        map(template).yaml()
    )
}

fn parameters(contract: &Contract<'_>, monitored: &[(&Declaration, Monitored)]) -> Tree {
    let text = |description: &str| {
        vec![
            ("Type", Tree::from("String")),
            ("Description", description.into()),
        ]
    };
    let mut prefix = text("What the names of the alarms begin with.");
    prefix.push(("Default", contract.name.into()));
    let mut parameters = vec![
        ("LogGroup", text("The log group with the JSON log lines.")),
        ("AlarmPrefix", prefix),
    ];
    if monitored.iter().any(|(_, monitored)| monitored.page) {
        parameters.push((
            "PageTopic",
            text("The ARN of the SNS topic that wakes somebody."),
        ));
    }
    if monitored.iter().any(|(_, monitored)| !monitored.page) {
        parameters.push((
            "TicketTopic",
            text("The ARN of the SNS topic that is read in working hours."),
        ));
    }
    map(parameters
        .into_iter()
        .map(|(name, entries)| (name, map(entries))))
}

fn filter(contract: &Contract<'_>, declaration: &Declaration) -> Tree {
    let value = match words::measure(declaration) {
        Some(field) => format!("$.{field}"),
        None => "1".into(),
    };
    let mut transformation = vec![
        ("MetricNamespace", contract.name.into()),
        ("MetricName", declaration.key.into()),
        ("MetricValue", Tree::Text(value)),
    ];
    match declaration.kind {
        Kind::Counter => transformation.push(("DefaultValue", 0.into())),
        Kind::Gauge => {}
        Kind::Duration => transformation.push(("Unit", "Milliseconds".into())),
    }
    let properties = [
        ("LogGroupName", reference("LogGroup")),
        (
            "FilterPattern",
            format!("{{ $.key = \"{}\" }}", declaration.key).into(),
        ),
        ("MetricTransformations", list([map(transformation)])),
    ];
    map([
        ("Type", "AWS::Logs::MetricFilter".into()),
        ("Properties", map(properties)),
    ])
}

fn alarm(contract: &Contract<'_>, declaration: &Declaration, monitored: Monitored) -> Tree {
    let name = format!("${{AlarmPrefix}}-{}", words::alarm(declaration.key));
    let description = format!(
        "{} Condition: {}. See {}.",
        declaration.about,
        words::condition(monitored.when),
        monitored.link()
    );
    let topic = if monitored.page {
        "PageTopic"
    } else {
        "TicketTopic"
    };
    let mut properties = vec![
        ("AlarmName", map([("Fn::Sub", name.into())])),
        ("AlarmDescription", description.into()),
        ("Namespace", contract.name.into()),
        ("MetricName", declaration.key.into()),
    ];
    properties.extend(condition(declaration.kind, monitored.when));
    properties.push(("AlarmActions", list([reference(topic)])));
    map([
        ("Type", "AWS::CloudWatch::Alarm".into()),
        ("Properties", map(properties)),
    ])
}

/// When an alarm fires.
///
/// A log line does not say which process wrote it, so a gauge is judged over the whole service:
/// some process was above the value in every minute of the window.
fn condition(kind: Kind, when: When) -> Vec<(&'static str, Tree)> {
    let seconds = |minutes: u32| u64::from(minutes) * 60;
    let (statistic, period, periods, threshold, missing) = match when {
        When::Any(window) => (
            count_statistic(kind),
            seconds(window.as_minutes()),
            1,
            0,
            "notBreaching",
        ),
        When::MoreThan(count, window) => (
            count_statistic(kind),
            seconds(window.as_minutes()),
            1,
            count,
            "notBreaching",
        ),
        When::Above(value, window) => (
            ("Statistic", "Maximum"),
            60,
            u64::from(window.as_minutes()),
            value,
            "missing",
        ),
        When::Slow(milliseconds, window) => (
            ("ExtendedStatistic", "p99"),
            seconds(window.as_minutes()),
            1,
            milliseconds,
            "notBreaching",
        ),
    };
    let (sort, statistic) = statistic;
    vec![
        (sort, statistic.into()),
        ("Period", period.into()),
        ("EvaluationPeriods", periods.into()),
        ("Threshold", threshold.into()),
        ("ComparisonOperator", "GreaterThanThreshold".into()),
        ("TreatMissingData", missing.into()),
    ]
}

/// A counter's lines are added up; a duration's lines are counted.
fn count_statistic(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Counter | Kind::Gauge => ("Statistic", "Sum"),
        Kind::Duration => ("Statistic", "SampleCount"),
    }
}

fn reference(name: impl Into<String>) -> Tree {
    map([("Ref", Tree::Text(name.into()))])
}
