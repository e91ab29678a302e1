//! `CATALOGUE.md`: every signal, for people.

use std::fmt::Write as _;

use super::{Contract, words};
use crate::signals::{Alarm, Declaration, Kind, Level, Role};

pub(super) fn render(contract: &Contract<'_>) -> String {
    let mut text = format!(
        "<!-- {} -->\n# Signals\n\nEach signal is a log line with the field `key` and a metric. \
         Labels are on both; the other fields are on the line alone.\n\n",
        contract.headline()
    );
    text.push_str("| key | kind | who is told |\n|---|---|---|\n");
    for (_, declaration) in contract.declarations() {
        let told = words::monitored(declaration).map_or("nobody", |alarm| match alarm.severity() {
            "page" if alarm.rollback => "page, rollback",
            severity => severity,
        });
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "| [`{key}`](#{anchor}) | {} | {told} |",
            kind(declaration.kind),
            key = declaration.key,
            anchor = declaration.key.replace('.', ""),
        );
    }
    for (name, signals) in contract.crates {
        let _ = write!(text, "\n## {name}\n");
        for declaration in *signals {
            describe(&mut text, declaration);
        }
    }
    text
}

fn describe(text: &mut String, declaration: &Declaration) {
    let Declaration {
        key, metric, about, ..
    } = declaration;
    let _ = write!(text, "\n### `{key}`\n{about}\n\n| | |\n|---|---|\n");
    let _ = writeln!(text, "| metric | `{metric}`, {} |", kind(declaration.kind));
    let _ = writeln!(text, "| level | {} |", level(declaration.level));
    for (name, values) in words::labels(declaration) {
        let _ = writeln!(text, "| label `{name}` | `{}` |", values.join("`, `"));
    }
    for field in declaration.fields {
        let role = match field.role {
            Role::Label(_) => continue,
            Role::Amount => "integer, measured",
            Role::Elapsed => "milliseconds, measured; seconds in the metric",
            Role::Detail => "detail",
        };
        let _ = writeln!(text, "| field `{}` | {role} |", field.name);
    }
    let _ = match (declaration.alarm, words::monitored(declaration)) {
        (_, Some(alarm)) => writeln!(
            text,
            "| alarm `{}` | {}{}: {}; see [{}]({}) |",
            words::alert(key),
            alarm.severity(),
            if alarm.rollback {
                ", and the deploy is rolled back"
            } else {
                ""
            },
            words::condition(alarm.when),
            alarm.runbook.0,
            alarm.link(),
        ),
        (Alarm::Unmonitored(reason), _) => writeln!(text, "| no alarm | {reason} |"),
        // Every other alarm is monitored.
        _ => Ok(()),
    };
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Duration => "histogram",
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}
