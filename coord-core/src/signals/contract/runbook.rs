//! `RUNBOOK.md`: a section for each alarm, and an alarm for each section.

use std::collections::{BTreeMap, BTreeSet};

use super::{Contract, Finding, RUNBOOK, words};

/// What a section says, each in bold where it begins.
const PARTS: [&str; 3] = ["**Users see**", "**First look**", "**Remedy**"];

/// The shortest part that can say something.
const SHORTEST_PART: usize = 20;

/// A second-level heading and what stands below it.
struct Section<'a> {
    line: usize,
    heading: &'a str,
    body: String,
}

pub(super) fn check(contract: &Contract<'_>, files: &BTreeMap<String, String>) -> Vec<Finding> {
    let file = contract.place(RUNBOOK);
    let Some(text) = files.get(RUNBOOK) else {
        return vec![Finding::new(
            file,
            "the file is missing",
            "write it, with a section (`## name`) for each alarm",
        )];
    };
    let sections = sections(text);
    let mut findings = Vec::new();
    let headings: BTreeSet<_> = sections.iter().map(|section| section.heading).collect();
    let mut named = BTreeSet::new();
    for (declaration, monitored) in words::all_monitored(contract) {
        let name = monitored.runbook.0;
        named.insert(name);
        if !headings.contains(name) {
            findings.push(Finding::new(
                &file,
                format!("no section for the alarm of {}", declaration.key),
                format!("write `## {name}` with {}", PARTS.join(", ")),
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for section in &sections {
        let place = format!("{file}:{}", section.line);
        let heading = section.heading;
        if !named.contains(heading) {
            findings.push(Finding::new(
                &place,
                format!("no alarm leads to the section {heading}"),
                "name it in a row as Runbook(..), or delete it",
            ));
        }
        if !seen.insert(heading) {
            findings.push(Finding::new(
                &place,
                format!("a second section {heading}"),
                "make one of the two",
            ));
        }
        for part in missing_parts(&section.body) {
            findings.push(Finding::new(
                &place,
                format!("the section {heading} does not say {part}"),
                "whoever is woken needs all three parts: write it",
            ));
        }
    }
    findings
}

/// The sections of `text`; a heading inside a block of code is none.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        match line.strip_prefix("## ").filter(|_| !in_code) {
            Some(heading) => sections.push(Section {
                line: index + 1,
                heading: heading.trim(),
                body: String::new(),
            }),
            None => {
                if let Some(section) = sections.last_mut() {
                    section.body.push_str(line);
                    section.body.push('\n');
                }
            }
        }
    }
    sections
}

/// The parts that `body` lacks, or has with nothing behind them.
fn missing_parts(body: &str) -> impl Iterator<Item = &'static str> {
    PARTS.into_iter().filter(move |part| {
        let Some((_, text)) = body.split_once(part) else {
            return true;
        };
        let end = PARTS.iter().filter_map(|next| text.find(next)).min();
        text[..end.unwrap_or(text.len())].trim().len() < SHORTEST_PART
    })
}
