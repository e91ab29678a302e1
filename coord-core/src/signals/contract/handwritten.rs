//! Files that people write beside the generated ones: they may name only what is declared.

use std::collections::{BTreeMap, BTreeSet};

use super::{Contract, Finding, render};
use crate::signals::Kind;

pub(super) fn check(contract: &Contract<'_>, files: &BTreeMap<String, String>) -> Vec<Finding> {
    let known = Known::of(contract);
    let generated = render(contract);
    let mut findings = Vec::new();
    for (name, text) in files
        .iter()
        .filter(|(name, _)| !generated.contains_key(*name))
    {
        for (index, line) in text.lines().enumerate() {
            for unknown in known.unknown_in(line) {
                findings.push(Finding::new(
                    format!("{}:{}", contract.place(name), index + 1),
                    format!("no signal is called {unknown}"),
                    "correct the name, or declare the signal",
                ));
            }
        }
    }
    findings
}

/// The names that a text may use, and what shows that it means one of them: all that stands before
/// a key's last word (`redis.lock.`, `redis_lock_`).
///
/// One word alone shows little (`shop.example.com` is a host): behind it only the ending of a
/// counter or duration means a metric.
struct Known {
    names: BTreeSet<String>,
    prefixes: BTreeSet<String>,
}

impl Known {
    fn of(contract: &Contract<'_>) -> Self {
        let mut known = Self {
            names: BTreeSet::new(),
            prefixes: BTreeSet::new(),
        };
        for (_, declaration) in contract.declarations() {
            known.names.insert(declaration.key.to_owned());
            known.names.insert(declaration.metric.to_owned());
            if declaration.kind == Kind::Duration {
                for part in ["bucket", "count", "sum"] {
                    known.names.insert(format!("{}_{part}", declaration.metric));
                }
            }
            if let Some((before, _)) = declaration.key.rsplit_once('.') {
                known.prefixes.insert(format!("{before}."));
                known
                    .prefixes
                    .insert(format!("{}_", before.replace('.', "_")));
            }
        }
        known
    }

    /// The names in `line` that mean a signal and are none.
    fn unknown_in<'a>(&self, line: &'a str) -> impl Iterator<Item = &'a str> {
        let is_part = |char: char| char.is_ascii_alphanumeric() || "_.".contains(char);
        let words = line.split(move |char| !is_part(char));
        let words = words.map(|word| word.trim_end_matches('.'));
        words.filter(|word| {
            let prefixes = &mut self.prefixes.iter();
            let means_signal = prefixes.any(|prefix| {
                word.starts_with(prefix) && (!is_one_word(prefix) || has_metric_ending(word))
            });
            means_signal && !self.names.contains(*word)
        })
    }
}

fn is_one_word(prefix: &str) -> bool {
    let joints = ['.', '_'];
    !prefix.trim_end_matches(joints).contains(joints)
}

fn has_metric_ending(word: &str) -> bool {
    let endings = [
        "_total",
        "_seconds",
        "_seconds_bucket",
        "_seconds_sum",
        "_seconds_count",
    ];
    !word.contains('.') && endings.iter().any(|ending| word.ends_with(ending))
}
