//! What the contract finds, and that the files it renders mean what they say.

mod observer;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coord_core::signals::{Contract, Declaration, Finding, Observed, RUNBOOK, check, render};

enum Cause {
    Expired,
    Taken,
}
coord_core::labels! { Cause { Expired => "expired", Taken => "taken" } }

enum Signal {
    Lost { cause: Cause },
    Dropped { count: u64, cause: Cause },
    Held { locks: u64, cause: Cause },
    Wait { elapsed_ms: Duration, cause: Cause },
    Scan { elapsed_ms: Duration },
    Stall { elapsed_ms: Duration },
    Quiet {},
}
coord_core::declare! { "test.lock.", "test.scan.", "test.channel_";
    Lost { cause } => "test.lock.lost", "A held lock expired: or was taken.",
        Counter, Error, Rollback(Any(ONE_MINUTE), Runbook("lock-lost"));
    Dropped { count, cause } => "test.channel_dropped", "Messages were dropped.",
        Counter, Warn, Ticket(MoreThan(10, FIFTEEN_MINUTES), Runbook("channel-dropped"));
    Held { locks, cause } => "test.lock.held", "How many locks this process holds.",
        Gauge, Info, Ticket(Above(100, FIVE_MINUTES), Runbook("lock-held"));
    Wait { elapsed_ms, cause } => "test.lock.wait", "Time from the first attempt to the grant.",
        Duration, Info, Page(Slow(1_000, Window::minutes(10)), Runbook("lock-slow"));
    Scan { elapsed_ms } => "test.scan.late", "A scan came late.",
        Duration, Warn, Page(Any(FIVE_MINUTES), Runbook("scan-late"));
    Stall { elapsed_ms } => "test.scan.stalled", "A scan stood still.",
        Duration, Warn, Page(MoreThan(3, FIVE_MINUTES), Runbook("scan-late"));
    Quiet {} => "test.lock.quiet", "Nothing of interest.",
        Counter, Debug, Unmonitored("nobody could do anything about it");
}

const CRATES: &[(&str, &[Declaration])] = &[("test-crate", SIGNALS)];
const CONTRACT: Contract<'_> = Contract {
    name: "sample",
    folder: "ops",
    crates: CRATES,
    test: "make test",
    generate: "make files",
};

const SECTION: &str = "
**Users see** that things stand still for a while.
**First look** at `test.lock.lost` in the log: `sum(test_lock_wait_seconds_count)`.
```
## a comment in a script
```
**Remedy**: start the process again.
";

fn runbook(sections: &[&str]) -> String {
    let sections = sections
        .iter()
        .map(|name| format!("## {name}\n{SECTION}\n"));
    format!("# Runbook\n\n{}", sections.collect::<String>())
}

const SECTIONS: [&str; 5] = [
    "lock-lost",
    "channel-dropped",
    "lock-held",
    "lock-slow",
    "scan-late",
];

/// The folder as it should be.
fn files() -> BTreeMap<String, String> {
    let mut files = render(&CONTRACT);
    files.insert(RUNBOOK.to_owned(), runbook(&SECTIONS));
    files
}

/// The keys as they should be observed.
fn keys() -> BTreeSet<String> {
    SIGNALS
        .iter()
        .map(|declaration| declaration.key.to_owned())
        .collect()
}

fn findings(
    contract: &Contract<'_>,
    files: &BTreeMap<String, String>,
    keys: &BTreeSet<String>,
) -> Vec<Finding> {
    check(
        contract,
        files,
        Some(Observed {
            run: "the run of today",
            keys,
        }),
    )
}

/// The one finding, as a line.
fn only(findings: &[Finding]) -> String {
    let [finding] = findings else {
        panic!("not one finding: {findings:#?}")
    };
    finding.to_string()
}

#[test]
fn a_contract_that_holds_has_no_finding() {
    assert_eq!(findings(&CONTRACT, &files(), &keys()), []);
}

#[test]
fn a_contract_without_crates_is_a_finding() {
    let contract = Contract {
        crates: &[],
        ..CONTRACT
    };
    let mut files = render(&contract);
    files.insert(RUNBOOK.to_owned(), runbook(&[]));

    let findings = findings(&contract, &files, &BTreeSet::from(["x".to_owned()]));

    assert!(findings[0].what.contains("no crate"), "{findings:#?}");
}

#[test]
fn a_crate_without_signals_and_a_crate_listed_twice_are_findings() {
    let contract = Contract {
        crates: &[CRATES[0], ("empty", &[])],
        ..CONTRACT
    };
    let found = check(&contract, &files(), None);
    assert!(found.iter().any(|finding| {
        finding
            .to_string()
            .starts_with("empty: the crate declares no signal")
    }));

    let contract = Contract {
        crates: &[CRATES[0], CRATES[0]],
        ..CONTRACT
    };
    let found = check(&contract, &files(), None);
    assert!(
        found.iter().any(|finding| finding.what.contains("twice")),
        "{found:#?}"
    );
    assert!(
        found
            .iter()
            .any(|finding| finding.what.contains("the key test.lock.lost"))
    );
}

#[test]
fn two_keys_with_one_metric_are_a_finding() {
    let alike = [Declaration {
        key: "test.lock_lost",
        ..SIGNALS[0]
    }];
    let contract = Contract {
        crates: &[CRATES[0], ("other", &alike)],
        ..CONTRACT
    };

    let found = check(&contract, &files(), None);

    let metric = "other: test.lock_lost: the metric test_lock_lost_total is also that of \
                  test.lock.lost in test-crate";
    assert!(
        found
            .iter()
            .any(|finding| finding.to_string().starts_with(metric)),
        "{found:#?}"
    );
}

#[test]
fn an_alarm_without_a_section_and_a_section_without_an_alarm_are_findings() {
    let mut files = files();
    files.insert(RUNBOOK.to_owned(), runbook(&SECTIONS[1..]));
    let line = only(&findings(&CONTRACT, &files, &keys()));
    assert!(
        line.contains("no section for the alarm of test.lock.lost"),
        "{line}"
    );

    files.insert(
        RUNBOOK.to_owned(),
        runbook(&[&SECTIONS[..], &["gone"]].concat()),
    );
    let line = only(&findings(&CONTRACT, &files, &keys()));
    assert!(
        line.contains("no alarm leads to the section gone"),
        "{line}"
    );

    files.insert(
        RUNBOOK.to_owned(),
        runbook(&[&SECTIONS[..], &["lock-lost"]].concat()),
    );
    let line = only(&findings(&CONTRACT, &files, &keys()));
    assert!(line.contains("a second section lock-lost"), "{line}");

    files.remove(RUNBOOK);
    let line = only(&findings(&CONTRACT, &files, &keys()));
    assert!(
        line.contains("ops/RUNBOOK.md: the file is missing"),
        "{line}"
    );
}

#[test]
fn a_section_that_leaves_out_a_part_is_a_finding() {
    for (old, new) in [
        ("**Remedy**: start the process again.", ""),
        ("**Remedy**: start the process again.", "**Remedy**: later."),
        (
            "**Users see** that things stand still for a while.\n",
            "**Users see**\n",
        ),
    ] {
        let mut files = files();
        let text = runbook(&SECTIONS).replacen(old, new, 1);
        files.insert(RUNBOOK.to_owned(), text);

        let line = only(&findings(&CONTRACT, &files, &keys()));

        assert!(
            line.contains("the section lock-lost does not say **"),
            "{line}"
        );
    }
}

#[test]
fn a_generated_file_that_is_missing_or_differs_is_a_finding_with_its_line() {
    let mut files = files();
    let rules = files.remove("prometheus-rules.yml").expect("rendered");
    let line = only(&findings(&CONTRACT, &files, &keys()));
    assert!(line.starts_with("ops/prometheus-rules.yml: the file is missing; run `make files`"));

    let (number, last) = rules.lines().enumerate().last().expect("lines");
    files.insert(
        "prometheus-rules.yml".to_owned(),
        rules.replacen(last, "edited", 1),
    );
    let line = only(&findings(&CONTRACT, &files, &keys()));
    assert!(line.contains("\"edited\\n\" should be"), "{line}");

    files.insert(
        "prometheus-rules.yml".to_owned(),
        rules.trim_end().to_owned(),
    );
    let line = only(&findings(&CONTRACT, &files, &keys()));
    assert!(
        line.starts_with(&format!("ops/prometheus-rules.yml:{}", number + 1)),
        "{line}"
    );

    files.insert("prometheus-rules.yml".to_owned(), rules + "more\n");
    let line = only(&findings(&CONTRACT, &files, &keys()));
    assert!(
        line.starts_with(&format!("ops/prometheus-rules.yml:{}", number + 2)),
        "{line}"
    );
}

#[test]
fn a_key_that_was_not_observed_and_one_that_is_not_declared_are_findings_of_that_run() {
    let mut seen = keys();
    seen.remove("test.lock.held");
    let line = only(&findings(&CONTRACT, &files(), &seen));
    assert!(line.contains("test.lock.held: declared, but not emitted in the run of today"));

    let mut seen = keys();
    seen.insert("test.lock.stolen".to_owned());
    let line = only(&findings(&CONTRACT, &files(), &seen));
    assert!(line.contains("test.lock.stolen: emitted in the run of today, but not declared"));
}

#[test]
fn no_observed_run_and_an_empty_one_are_a_finding_that_says_what_to_run() {
    for found in [
        check(&CONTRACT, &files(), None),
        findings(&CONTRACT, &files(), &BTreeSet::new()),
    ] {
        let line = only(&found);
        assert!(line.contains("no run was observed"), "{line}");
        assert!(line.ends_with("run `make test` first"), "{line}");
    }
}

#[test]
fn a_hand_written_file_that_names_an_unknown_signal_is_a_finding_with_its_line() {
    let mut files = files();
    for known in [
        "rate(test_lock_lost_total[1m])",
        "test_lock_wait_seconds_bucket",
        "`test.lock.lost`.",
        "test.rs",
        "test_runs",
        "redis_up",
    ] {
        files.insert("own-rules.yml".to_owned(), format!("one\n{known}\n"));
        assert_eq!(findings(&CONTRACT, &files, &keys()), []);
    }
    for unknown in [
        "test_lock_stolen_total",
        "test.lock.stolen",
        "test_lock_lost_bucket",
    ] {
        files.insert("own-rules.yml".to_owned(), format!("one\n({unknown})\n"));
        let line = only(&findings(&CONTRACT, &files, &keys()));
        assert!(line.starts_with(&format!(
            "ops/own-rules.yml:2: no signal is called {unknown}"
        )));
    }
}
