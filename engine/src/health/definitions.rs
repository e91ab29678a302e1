//! Whether all who know a workflow have the same definition of it.

use std::collections::{BTreeMap, BTreeSet};

use super::report::fine;
use super::{Check, Status};
use crate::store::WorkerRecord;

const NAME: &str = "definition_fingerprints";

/// Types of which live workers have more than one definition. During a deploy that is so for a
/// while, and nothing goes wrong by it: each run stays with its own.
pub(super) fn check(workers: &[WorkerRecord]) -> Check {
    let mut of_types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let types = workers.iter().filter_map(|it| it.enlistment.types.as_ref());
    for fingerprint in types.flat_map(|types| &types.definitions) {
        let text = fingerprint.as_str();
        // A definition holds no such sign, and a type may.
        let (of, definition) = text.rsplit_once('@').unwrap_or((text, ""));
        of_types.entry(of).or_default().insert(definition);
    }
    let differing = of_types.iter().filter(|(_, known)| known.len() > 1);
    let differing: Vec<_> = differing
        .map(|(of, known)| {
            let known: Vec<_> = known.iter().copied().collect();
            format!("{of} ({})", known.join(", "))
        })
        .collect();
    if differing.is_empty() {
        return fine(NAME, "all who know a workflow have one definition of it");
    }
    Check {
        status: Status::Info,
        count: differing.len() as u64,
        ..fine(
            NAME,
            format!(
                "workers have different definitions of {}",
                differing.join("; ")
            ),
        )
    }
}
