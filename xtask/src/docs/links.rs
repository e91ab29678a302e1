//! The links of all pages, and what else holds of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::page::Page;
use super::{Checked, Fault, files, is_elsewhere, read, resolved, split};
use crate::error::Result;

/// The pages of the book, in their order.
pub(super) const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks every page below `root`.
///
/// # Errors
/// `Missing` if one cannot be read.
pub(super) fn check(root: &Path) -> Result<Checked> {
    let mut pages = BTreeMap::new();
    for file in files(root, "md")? {
        let page = Page::read(&read(&root.join(&file))?);
        pages.insert(file, page);
    }
    let mut libraries = String::new();
    for file in files(root, "rs")? {
        if file.ends_with("src/lib.rs") {
            libraries.push_str(&read(&root.join(&file))?);
        }
    }
    let mut faults = wrong(&pages, |path| root.join(path).exists());
    faults.extend(unlisted(&pages));
    faults.extend(uncompiled(&pages, &libraries));
    faults.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
    Ok(Checked {
        pages: pages.len(),
        links: pages.values().map(|page| page.links.len()).sum(),
        faults,
    })
}

/// Links that lead nowhere.
fn wrong(pages: &BTreeMap<PathBuf, Page>, exists: impl Fn(&Path) -> bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (file, page) in pages {
        for link in &page.links {
            if let Err(why) = leads(file, &link.target, pages, &exists) {
                faults.push(Fault {
                    file: file.clone(),
                    line: link.line,
                    what: format!("{} {why}", link.target),
                });
            }
        }
    }
    faults
}

fn leads(
    file: &Path,
    target: &str,
    pages: &BTreeMap<PathBuf, Page>,
    exists: impl Fn(&Path) -> bool,
) -> std::result::Result<(), &'static str> {
    if is_elsewhere(target) {
        return Ok(());
    }
    let (path, anchor) = split(target);
    let to = if path.is_empty() {
        file.to_owned()
    } else {
        let folder = file.parent().unwrap_or(file);
        resolved(folder, path).ok_or("leads out of the checkout")?
    };
    if !exists(&to) {
        return Err("is not there");
    }
    let Some(anchor) = anchor else {
        return Ok(());
    };
    match pages.get(&to) {
        None => Err("names a place in a file that has none: lines move"),
        Some(page) if page.anchors.contains(anchor) => Ok(()),
        Some(_) => Err("names a heading that the page does not have"),
    }
}

/// Pages of the folder of the book that are not in it.
fn unlisted(pages: &BTreeMap<PathBuf, Page>) -> Vec<Fault> {
    let folder = Path::new(SUMMARY).parent().unwrap_or(Path::new(""));
    let Some(summary) = pages.get(Path::new(SUMMARY)) else {
        return Vec::new();
    };
    let listed = |file: &Path| {
        let mut targets = summary.links.iter().map(|link| link.target.as_str());
        targets.any(|target| resolved(folder, target).as_deref() == Some(file))
    };
    let of_book = pages.keys().filter(|file| file.parent() == Some(folder));
    let missing = of_book.filter(|file| *file != Path::new(SUMMARY) && !listed(file));
    missing
        .map(|file| Fault {
            file: file.clone(),
            line: 0,
            what: format!("is in no chapter: add it to {SUMMARY}"),
        })
        .collect()
}

/// Pages with Rust that no library has among its documentation, and so nobody compiles.
fn uncompiled(pages: &BTreeMap<PathBuf, Page>, libraries: &str) -> Vec<Fault> {
    let rust = pages.iter().filter(|(_, page)| page.has_rust);
    let missing = rust.filter(|(file, _)| {
        let included = format!("/{}\")]", file.display());
        !libraries.contains(&included)
    });
    missing
        .map(|(file, _)| Fault {
            file: file.clone(),
            line: 0,
            what: "has Rust that nobody compiles: include it in tests/src/lib.rs, as README.md is"
                .to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(texts: &[(&str, &str)]) -> BTreeMap<PathBuf, Page> {
        let page = |(file, text): &(&str, &str)| (PathBuf::from(file), Page::read(text));
        texts.iter().map(page).collect()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named_with_its_line() {
        let pages = pages(&[
            ("README.md", "# Top\n[a](docs/a.md#here)\n[b](docs/b.md)\n"),
            (
                "docs/a.md",
                "# Here\n[up](../README.md#top)\n[no](#there)\n[out](../../x)\n[l](c.rs#L1)\n",
            ),
        ]);
        let there = ["README.md", "docs/a.md", "docs/c.rs"];

        let faults = wrong(&pages, |path| there.contains(&path.to_str().expect("text")));

        let said: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "README.md:3: docs/b.md is not there",
                "docs/a.md:3: #there names a heading that the page does not have",
                "docs/a.md:4: ../../x leads out of the checkout",
                "docs/a.md:5: c.rs#L1 names a place in a file that has none: lines move",
            ]
        );
    }

    #[test]
    fn a_page_of_the_book_is_in_a_chapter() {
        let pages = pages(&[
            (SUMMARY, "- [A](a.md)\n- [Read me](../README.md)\n"),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
            ("README.md", ""),
        ]);

        let faults = unlisted(&pages);

        let files: Vec<_> = faults.iter().map(|fault| fault.file.as_path()).collect();
        assert_eq!(files, [Path::new("docs/b.md")]);
    }

    #[test]
    fn rust_on_a_page_is_compiled_by_somebody() {
        let rust = "```rust\nlet a = 1;\n```\n";
        let pages = pages(&[("docs/a.md", rust), ("docs/b.md", rust), ("c.md", "")]);

        let faults = uncompiled(&pages, "#[doc = include_str!(\"../../docs/a.md\")]");

        let files: Vec<_> = faults.iter().map(|fault| fault.file.as_path()).collect();
        assert_eq!(files, [Path::new("docs/b.md")]);
    }
}
