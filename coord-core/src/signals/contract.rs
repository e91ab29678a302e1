//! The contract between what the crates declare and what operators hold: rendered and checked.

mod catalogue;
mod cloudwatch;
mod grafana;
mod handwritten;
mod observer;
mod prometheus;
mod promtool;
mod runbook;
mod tree;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Declaration;

pub use observer::Observer;

/// The hand-written file with a section for each alarm.
pub const RUNBOOK: &str = "RUNBOOK.md";

/// What is held together: the declared signals, the folder that operators get, and a real run.
///
/// A service declares its own signals as the coord crates do, adds theirs, and checks the whole in
/// its tests. Everything here is plain values; the test does the reading.
///
/// # Example
/// ```
/// # #![deny(dead_code)]
/// use std::collections::BTreeMap;
/// use coord_core::signals::{self, Contract, Observer};
///
/// pub(crate) enum Signal {
///     ChargeFailed { order: coord_core::Name },
/// }
/// coord_core::declare! { "shop.";
///     ChargeFailed { order } => "shop.charge_failed", "A customer could not pay.",
///         Counter, Error, Page(MoreThan(5, FIVE_MINUTES), Runbook("charge-failed"));
/// }
/// const CRATES: &[(&str, &[signals::Declaration])] = &[("shop", SIGNALS)];
///
/// # fn main() -> Result<(), coord_core::Error> {
/// // The run: an integration test that provokes every signal, in a process with the observer.
/// let observer = Observer::new(CRATES, |_key| {});
/// # metrics::with_local_recorder(&observer, || -> Result<(), coord_core::Error> {
/// // metrics::set_global_recorder(observer.clone())?;
/// Signal::ChargeFailed { order: coord_core::Name::new("4711")? }.emit();
/// # Ok(()) })?;
///
/// // The folder: `RUNBOOK.md` is written by hand, the rest by `render`. A test reads it all.
/// let runbook = "\
/// ### charge-failed
/// **Users see** an order that stays unpaid, and an apology.
/// **First look** at the payment provider's status page, then at `shop.charge_failed` in the log.
/// **Remedy**: switch to the second provider.
/// ";
/// let mut files = BTreeMap::from([(signals::RUNBOOK.to_owned(), runbook.to_owned())]);
/// let contract = Contract {
///     name: "shop",
///     folder: "observability",
///     crates: CRATES,
///     test: "cargo test --test observability",
///     generate: "cargo run --bin generate-observability",
/// };
/// files.extend(signals::render(&contract));
///
/// let keys = observer.keys();
/// let observed = signals::Observed { run: "this process", keys: &keys };
/// let findings = signals::check(&contract, &files, Some(observed));
/// assert!(findings.is_empty(), "{findings:#?}");
///
/// // Whatever stops holding is found, with the place and the remedy.
/// files.get_mut(signals::RUNBOOK).expect("there").push_str("\n## refund-failed\n");
/// assert!(!signals::check(&contract, &files, Some(observed)).is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Contract<'a> {
    /// What the whole is called, in lower-case words: the namespace of metrics, the title of the
    /// dashboard.
    pub name: &'a str,
    /// The folder that operators get, as findings name it.
    pub folder: &'a str,
    /// Every crate that emits, with its signals.
    pub crates: &'a [(&'a str, &'a [Declaration])],
    /// The command that provokes every signal, as findings name it.
    pub test: &'a str,
    /// The command that writes the generated files, as findings name it.
    pub generate: &'a str,
}

/// The keys that were really emitted in a run.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Which run that was.
    pub run: &'a str,
    /// What was emitted in it.
    pub keys: &'a BTreeSet<String>,
}

/// One thing that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where: a crate and key, or a file and line.
    pub place: String,
    /// What does not hold there.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            what,
            remedy,
        } = self;
        write!(formatter, "{place}: {what}; {remedy}")
    }
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl<'a> Contract<'a> {
    /// Every declaration, with the crate it belongs to.
    fn declarations(&self) -> impl Iterator<Item = (&'a str, &'a Declaration)> {
        self.crates
            .iter()
            .flat_map(|(name, signals)| signals.iter().map(move |declaration| (*name, declaration)))
    }

    /// A file of the folder, as findings name it.
    fn place(&self, file: &str) -> String {
        format!("{}/{file}", self.folder)
    }

    /// The first line of a generated file, without the sign that makes it a comment.
    fn headline(&self) -> String {
        format!(
            "Generated by `{}` from the declared signals; edits are lost.",
            self.generate
        )
    }
}

/// The files that operators get, by name: all but [`RUNBOOK`].
pub fn render(contract: &Contract<'_>) -> BTreeMap<String, String> {
    let files = [
        ("CATALOGUE.md", catalogue::render(contract)),
        ("prometheus-rules.yml", prometheus::render(contract)),
        ("prometheus-rules.test.yml", promtool::render(contract)),
        ("cloudwatch.yml", cloudwatch::render(contract)),
        ("rollback-alarms.json", words::rollback_alarms(contract)),
        ("grafana-dashboard.json", grafana::render(contract)),
    ];
    files
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text))
        .collect()
}

/// Everything that does not hold of `contract`, of the `files` in the folder that operators get,
/// and of what was `observed` in a run that provokes every signal.
///
/// It proves that
/// - there is something to prove: crates, each of them with signals;
/// - keys, metrics and alerts have one meaning each;
/// - each alarm has its section of the runbook, with what users see, a first look and a remedy,
///   and each section an alarm;
/// - the generated files are what [`render`] makes now, byte for byte;
/// - the other files name no key and no metric that is not declared;
/// - the declared keys were emitted, and no others.
///
/// That what is declared is emitted by some line of code at all, and has an alarm or a reason, is
/// the compiler's to prove: see [`declare!`](crate::declare).
pub fn check(
    contract: &Contract<'_>,
    files: &BTreeMap<String, String>,
    observed: Option<Observed<'_>>,
) -> Vec<Finding> {
    let mut findings = check_substance(contract);
    findings.extend(check_names(contract));
    findings.extend(runbook::check(contract, files));
    findings.extend(check_generated(contract, files));
    findings.extend(handwritten::check(contract, files));
    findings.extend(check_observed(contract, observed));
    findings
}

fn check_substance(contract: &Contract<'_>) -> Vec<Finding> {
    if contract.crates.is_empty() {
        return vec![Finding::new(
            contract.name,
            "the contract has no crate, so it holds of nothing",
            "list every crate that emits, with its SIGNALS",
        )];
    }
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, signals) in contract.crates {
        if signals.is_empty() {
            findings.push(Finding::new(
                *name,
                "the crate declares no signal",
                "declare what can go wrong in it, or take it out of the list",
            ));
        }
        if !seen.insert(name) {
            findings.push(Finding::new(
                *name,
                "the crate is in the list twice",
                "take one of the two out",
            ));
        }
    }
    findings
}

fn check_names(contract: &Contract<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut owners = BTreeMap::new();
    for (owner, declaration) in contract.declarations() {
        let key = declaration.key;
        let names = [
            ("key", key.to_owned()),
            ("metric", declaration.metric.to_owned()),
            ("alert", words::alert(key)),
        ];
        for name in names {
            let Some((other, other_key)) = owners.insert(name.clone(), (owner, key)) else {
                continue;
            };
            let (sort, name) = name;
            findings.push(Finding::new(
                format!("{owner}: {key}"),
                format!("the {sort} {name} is also that of {other_key} in {other}"),
                "rename one of the two",
            ));
        }
    }
    findings
}

fn check_generated(contract: &Contract<'_>, files: &BTreeMap<String, String>) -> Vec<Finding> {
    let remedy = format!("run `{}` and commit what it writes", contract.generate);
    let files = render(contract).into_iter().filter_map(|(name, expected)| {
        let found = files.get(&name).map(String::as_str);
        stale(&contract.place(&name), found, &expected, &remedy)
    });
    files.collect()
}

/// What differs in a generated file between what was `found`, if it is there, and what is
/// `expected`.
///
/// For what a workspace generates besides the files of [`render`].
pub fn stale(file: &str, found: Option<&str>, expected: &str, remedy: &str) -> Option<Finding> {
    let Some(found) = found else {
        return Some(Finding::new(file, "the file is missing", remedy));
    };
    let (line, found, expected) = first_difference(found, expected)?;
    Some(Finding::new(
        format!("{file}:{line}"),
        format!("the file is not current: {found:?} should be {expected:?}"),
        remedy,
    ))
}

/// The number of the first line in which two texts differ, and that line of both.
fn first_difference<'a>(found: &'a str, expected: &'a str) -> Option<(usize, &'a str, &'a str)> {
    if found == expected {
        return None;
    }
    // With their ends, so that a missing last newline or a carriage return shows.
    let mut found = found.split_inclusive('\n');
    let mut expected = expected.split_inclusive('\n');
    let mut number = 1;
    loop {
        let (one, other) = (found.next(), expected.next());
        if one != other {
            return Some((number, one.unwrap_or_default(), other.unwrap_or_default()));
        }
        number += 1;
    }
}

fn check_observed(contract: &Contract<'_>, observed: Option<Observed<'_>>) -> Vec<Finding> {
    let Some(Observed { run, keys }) = observed.filter(|observed| !observed.keys.is_empty()) else {
        return vec![Finding::new(
            contract.name,
            "no run was observed, so nobody knows whether the signals come when they should",
            format!("run `{}` first", contract.test),
        )];
    };
    let mut findings = Vec::new();
    let mut declared = BTreeSet::new();
    for (owner, declaration) in contract.declarations() {
        declared.insert(declaration.key);
        if !keys.contains(declaration.key) {
            findings.push(Finding::new(
                format!("{owner}: {}", declaration.key),
                format!("declared, but not emitted in {run}"),
                format!(
                    "provoke it in a test, or delete it; then run all of `{}`",
                    contract.test
                ),
            ));
        }
    }
    for key in keys {
        if !declared.contains(key.as_str()) {
            findings.push(Finding::new(
                key,
                format!("emitted in {run}, but not declared"),
                format!(
                    "add its crate to the list, or run `{}` again if it was renamed",
                    contract.test
                ),
            ));
        }
    }
    findings
}
