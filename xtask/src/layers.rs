//! `cargo xtask check-layers`: which crate may depend on which, and rules on the source text that
//! no compiler lint can hold.
//!
//! Reading happens here; the rules are functions of plain values, each tested with a violation.

mod dependencies;
mod sources;
mod tokens;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::error::{Failure, Result};
use crate::workspace::Workspace;
use dependencies::{Dependency, Member};
use sources::Source;

/// One broken rule, in the one line that a person needs to mend it.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    path: String,
    line: usize,
    rule: &'static str,
    /// What is there, and what to do about it.
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.what
        )
    }
}

/// Checks every rule and prints each violation.
///
/// # Errors
/// `Red` if there is one; `Missing` if the workspace cannot be read.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .map_err(|cause| Failure::Missing(format!("cargo cannot read this workspace: {cause}")))?;
    let members = members(workspace, &metadata)?;
    let sources = sources(workspace, &metadata)?;
    let lock = read(&workspace.root.join("Cargo.lock"))?;

    let mut violations = dependencies::layers(&members, dependencies::LAYERS);
    violations.extend(dependencies::reserved(&members));
    violations.extend(dependencies::single_versions(&lock));
    violations.extend(sources::violations(&sources));
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!(
            "xtask: layers hold: {} crates, {} source files",
            members.len(),
            sources.len()
        );
        return Ok(());
    }
    Err(Failure::Red(format!(
        "{} violations, one a line above",
        violations.len()
    )))
}

fn members(workspace: &Workspace, metadata: &Metadata) -> Result<Vec<Member>> {
    let member = |package: &Package| {
        let manifest = package.manifest_path.as_std_path();
        Ok(Member {
            name: package.name.to_string(),
            manifest: shown(workspace, manifest),
            text: read(manifest)?,
            dependencies: package.dependencies.iter().map(dependency).collect(),
        })
    };
    metadata
        .workspace_packages()
        .into_iter()
        .map(member)
        .collect()
}

fn dependency(declared: &cargo_metadata::Dependency) -> Dependency {
    Dependency {
        package: declared.name.clone(),
        key: declared
            .rename
            .clone()
            .unwrap_or_else(|| declared.name.clone()),
        is_normal: declared.kind == cargo_metadata::DependencyKind::Normal,
    }
}

fn sources(workspace: &Workspace, metadata: &Metadata) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest = package.manifest_path.as_std_path();
        rust_files(manifest.parent().unwrap_or(manifest), &mut paths)?;
    }
    paths.sort();
    let source = |path: &PathBuf| {
        Ok(Source {
            path: shown(workspace, path),
            text: read(path)?,
        })
    };
    paths.iter().map(source).collect()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = |cause: std::io::Error| Failure::file("read", folder, &cause);
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            // What cargo builds holds generated sources that nobody wrote.
            if entry.file_name() != "target" {
                rust_files(&path, found)?;
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn shown(workspace: &Workspace, path: &Path) -> String {
    workspace.relative(path).display().to_string()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|cause| Failure::file("read", path, &cause))
}
