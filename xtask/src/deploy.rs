//! `cargo xtask check-deploy`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::validators;
use crate::workspace::Workspace;

const FOLDER: &str = "deploy";

/// Where every variable stands that a node reads; it is generated.
const VARIABLES: &str = "docs/CONFIGURATION.md";

/// How the names of variables begin that only a node reads. Others belong to images of others as well.
const OURS: [&str; 3] = ["COORD_", "DW_", "WORKFLOW_"];

/// Checks the files of deploy/: that the variables in them are ones that a node reads, and that the
/// programs that read the files are content.
///
/// # Errors
/// `Red` if something is wrong; `Missing` if a file cannot be read; `Interrupted`.
pub(crate) fn check(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let known = fs::read_to_string(workspace.root.join(VARIABLES))
        .map_err(|cause| Failure::file("read", Path::new(VARIABLES), &cause))?;
    let mut unknown = Vec::new();
    let mut count = 0;
    for (file, text) in texts(&workspace.root.join(FOLDER))? {
        for name in names(&text) {
            count += 1;
            if !known.contains(&format!("`{name}`")) {
                unknown.push(format!("{FOLDER}/{file}: {name}"));
            }
        }
    }
    if !unknown.is_empty() {
        return Err(Failure::Red(format!(
            "variables that no node reads, as {VARIABLES} has them:\n{}",
            unknown.join("\n")
        )));
    }
    println!("xtask: {count} variables of {FOLDER}/ are ones that a node reads");
    validators::run(FOLDER, "correct the file", workspace, interrupts)
}

/// The names and texts of the files in a folder and below it.
fn texts(folder: &Path) -> Result<Vec<(String, String)>> {
    let unreadable = |cause: std::io::Error| Failure::file("read", folder, &cause);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let below = texts(&path)?;
            found.extend(
                below
                    .into_iter()
                    .map(|(file, text)| (format!("{name}/{file}"), text)),
            );
        } else {
            let text = fs::read_to_string(&path).map_err(unreadable)?;
            found.push((name.into_owned(), text));
        }
    }
    Ok(found)
}

/// The variables of ours that a file names, in whatever way it does.
fn names(text: &str) -> BTreeSet<&str> {
    let is_of_name = |sign: char| sign.is_ascii_uppercase() || sign.is_ascii_digit() || sign == '_';
    let words = text.split(|sign| !is_of_name(sign));
    words
        .filter(|word| OURS.iter().any(|ours| word.starts_with(ours)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables_are_found_however_a_file_has_them() {
        let text = "# of COORD_DRAIN_TIMEOUT\nDW_V2_MULTI_NODE: \"true\"\nCOORD_LISTEN=0.0.0.0:8080\n\
                    POSTGRES_USER: coord\nimage: coord\n";

        let found: Vec<_> = names(text).into_iter().collect();

        assert_eq!(
            found,
            ["COORD_DRAIN_TIMEOUT", "COORD_LISTEN", "DW_V2_MULTI_NODE"]
        );
    }
}
