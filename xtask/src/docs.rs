//! `cargo xtask check-docs` and `cargo xtask book`: that what people read leads where it says.

mod book;
mod html;
mod links;
mod page;

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

pub(crate) use book::Links as BookLinks;

/// Something that leads nowhere, in the one line that a person needs to mend it.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    /// From the root of the workspace.
    file: PathBuf,
    /// From 1; 0 where it is of the whole file.
    line: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what } = self;
        match line {
            0 => write!(out, "{}: {what}", file.display()),
            line => write!(out, "{}:{line}: {what}", file.display()),
        }
    }
}

/// Checks the links of all pages, and the book where `mdbook` can be had.
///
/// # Errors
/// `Red` if something leads nowhere; `Missing` if a file cannot be read; `Interrupted`.
pub(crate) fn check(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let checked = links::check(&workspace.root)?;
    judge(&checked.faults)?;
    println!(
        "xtask: {} links of {} pages lead where they say",
        checked.links, checked.pages
    );
    let Some(program) = book::program_for_check(workspace, interrupts)? else {
        println!(
            "xtask: mdbook is not here, so the book was not built (cargo xtask book gets it on \
             Debian; anywhere: cargo install mdbook)"
        );
        return Ok(());
    };
    build(&program, workspace, interrupts).map(drop)
}

/// Builds the book, and says where it is.
///
/// # Errors
/// `Red` if it does not build or leads nowhere; `Missing` if there is no `mdbook`; `Interrupted`.
pub(crate) fn make_book(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let program = book::program(workspace, interrupts)?;
    let folder = build(&program, workspace, interrupts)?;
    println!(
        "xtask: the book begins with {}",
        folder.join("index.html").display()
    );
    Ok(())
}

fn build(program: &Path, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    let folder = book::build(program, workspace, interrupts)?;
    let checked = html::check(&folder)?;
    judge(&checked.faults)?;
    println!(
        "xtask: {} links of the {} pages of the book lead where they say",
        checked.links, checked.pages
    );
    Ok(folder)
}

/// What was looked at, and what is wrong with it.
#[derive(Default)]
struct Checked {
    pages: usize,
    links: usize,
    faults: Vec<Fault>,
}

fn judge(faults: &[Fault]) -> Result<()> {
    for fault in faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => Ok(()),
        1 => Err(Failure::Red("1 fault, named above".into())),
        count => Err(Failure::Red(format!("{count} faults, one a line above"))),
    }
}

/// The files at or below a folder whose names end so, from that folder on and by name; but for what
/// is built, installed, or hidden.
fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(folder, Path::new(""), end, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(root: &Path, below: &Path, end: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    let folder = root.join(below);
    let unreadable = |cause: std::io::Error| Failure::file("read", &folder, &cause);
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let path = below.join(&name);
        let name = name.to_string_lossy();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                collect(root, &path, end, found)?;
            }
        } else if path.extension().is_some_and(|it| it == end) {
            found.push(path);
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|cause| Failure::file("read", file, &cause))
}

/// Where `target`, as a file in `folder` says it, is from the root that `folder` is counted from;
/// nowhere if that is outside.
fn resolved(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::Normal(name) => found.push(name),
            Component::CurDir => {}
            Component::ParentDir if found.pop() => {}
            _ => return None,
        }
    }
    Some(found)
}

/// Whether a link leaves the files that lie here: what is elsewhere is not asked for.
fn is_elsewhere(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// A link's path and the anchor on it.
fn split(target: &str) -> (&str, Option<&str>) {
    match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_found_from_the_root_and_not_outside() {
        let of = |folder: &str, target| resolved(Path::new(folder), target);
        assert_eq!(of("docs", "../a/b.md"), Some("a/b.md".into()));
        assert_eq!(of("", "./a.md"), Some("a.md".into()));
        assert_eq!(of("docs", "../../a.md"), None);
        assert_eq!(of("docs", "/a.md"), None);
    }

    #[test]
    fn what_has_a_scheme_is_elsewhere() {
        assert!(is_elsewhere("https://example.org/a#b"));
        assert!(is_elsewhere("mailto:ann@example.org"));
        assert!(!is_elsewhere("a/b.md#c"));
        assert!(!is_elsewhere("#redis:and-more"));
    }
}
