//! How declarations are called in the generated files.

use super::Contract;
use super::tree::{Tree, list, map};
use crate::signals::{Alarm, Declaration, Kind, Role, Runbook, When, Window};

/// An alarm's facts, apart from who is told.
#[derive(Clone, Copy)]
pub(super) struct Monitored {
    /// When it fires.
    pub(super) when: When,
    /// What to do then.
    pub(super) runbook: Runbook,
    /// Whether somebody is woken, and not only told in working hours.
    pub(super) page: bool,
    /// Whether a deploy that trips it is rolled back.
    pub(super) rollback: bool,
}

/// The alarm of `declaration`, unless it has a reason for none.
pub(super) fn monitored(declaration: &Declaration) -> Option<Monitored> {
    let (when, runbook, page, rollback) = match declaration.alarm {
        Alarm::Page(when, runbook) => (when, runbook, true, false),
        Alarm::Rollback(when, runbook) => (when, runbook, true, true),
        Alarm::Ticket(when, runbook) => (when, runbook, false, false),
        Alarm::Unmonitored(_) => return None,
    };
    Some(Monitored {
        when,
        runbook,
        page,
        rollback,
    })
}

/// Every declaration that has an alarm, with it.
pub(super) fn all_monitored<'a>(
    contract: &Contract<'a>,
) -> impl Iterator<Item = (&'a Declaration, Monitored)> {
    contract
        .declarations()
        .filter_map(|(_, declaration)| Some((declaration, monitored(declaration)?)))
}

impl Monitored {
    /// `page` or `ticket`.
    pub(super) fn severity(self) -> &'static str {
        if self.page { "page" } else { "ticket" }
    }

    /// Where the runbook says what to do, as a link beside it.
    pub(super) fn link(self) -> String {
        format!("{}#{}", super::RUNBOOK, self.runbook.0)
    }
}

/// The condition in words.
pub(super) fn condition(when: When) -> String {
    match when {
        When::Any(window) => format!("emitted at least once in {}", span(window)),
        When::MoreThan(count, window) => format!("more than {count} in {}", span(window)),
        When::Above(value, window) => format!("above {value} for {}", span(window)),
        When::Slow(milliseconds, window) => {
            format!(
                "99th percentile above {milliseconds} ms in {}",
                span(window)
            )
        }
    }
}

/// A window in words.
fn span(window: Window) -> String {
    match window.as_minutes() {
        1 => "1 minute".into(),
        minutes => format!("{minutes} minutes"),
    }
}

/// The alert's name of a key: `redis.lock.lost` becomes `RedisLockLost`.
pub(super) fn alert(key: &str) -> String {
    let words = key.split(['.', '_']).map(|word| {
        let (first, rest) = word.split_at(usize::from(!word.is_empty()));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

/// The name in AWS of a key's alarm, without its prefix: `redis-lock-lost`.
pub(super) fn alarm(key: &str) -> String {
    key.replace(['.', '_'], "-")
}

/// The labels of a metric, with their values.
pub(super) fn labels(
    declaration: &Declaration,
) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    declaration.fields.iter().filter_map(|field| {
        let Role::Label(values) = field.role else {
            return None;
        };
        Some((field.name, values))
    })
}

/// The field that a metric measures: none in a counter of emits.
pub(super) fn measure(declaration: &Declaration) -> Option<&'static str> {
    let fields = declaration.fields.iter();
    let mut measures = fields.filter(|field| matches!(field.role, Role::Amount | Role::Elapsed));
    measures.next().map(|field| field.name)
}

/// The series that counts the emits or adds up their integers.
pub(super) fn counted(declaration: &Declaration) -> String {
    match declaration.kind {
        Kind::Counter | Kind::Gauge => declaration.metric.to_owned(),
        Kind::Duration => format!("{}_count", declaration.metric),
    }
}

/// The list of alarms that roll a deploy back, for the tool that deploys.
pub(super) fn rollback_alarms(contract: &Contract<'_>) -> String {
    let alarms = all_monitored(contract).filter(|(_, monitored)| monitored.rollback);
    let alarms = alarms.map(|(declaration, monitored)| {
        map([
            ("key", declaration.key.into()),
            ("prometheus", alert(declaration.key).into()),
            (
                "cloudwatch",
                format!("{}-{}", contract.name, alarm(declaration.key)).into(),
            ),
            ("runbook", monitored.link().into()),
        ])
    });
    Tree::json(&list(alarms))
}
