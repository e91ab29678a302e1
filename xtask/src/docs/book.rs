//! The book: built by mdBook, which asks this program to mend its links.
//!
//! Most pages lie in docs/, others where they belong. On a code host the links between them lead to
//! files; in the book they lead to its pages, and what is no page of it is left as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::page::Page;
use super::{is_elsewhere, resolved, split};
use crate::binaries::{self, Source};
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;
use crate::{apt, env};

const MDBOOK: &str = "mdbook";

/// The oldest release of Debian that has it.
const RELEASE: &str = "trixie";

/// How mdBook is told of another command for the links than book.toml has.
const CALLED_BACK: &str = "MDBOOK_PREPROCESSOR__COORD_LINKS__COMMAND";

/// Where its pages are counted from, as book.toml says.
const SOURCE: &str = "docs";

/// Mend the links of the book, as mdBook asks for it.
#[derive(clap::Args)]
pub(crate) struct Links {
    #[command(subcommand)]
    question: Option<Question>,
}

#[derive(clap::Subcommand)]
enum Question {
    /// Whether a renderer can have it: all of them can.
    Supports {
        /// Which one.
        renderer: String,
    },
}

impl Links {
    /// Reads a book as mdBook has it, and writes it with links that lead to its own pages.
    ///
    /// # Errors
    /// `Missing` if what stands on standard input is no book.
    pub(crate) fn run(&self) -> Result<()> {
        if self.question.is_some() {
            return Ok(());
        }
        let unreadable =
            |cause: serde_json::Error| Failure::Missing(format!("mdBook gave no book: {cause}"));
        let (_, mut book): (Value, Value) =
            serde_json::from_reader(io::stdin().lock()).map_err(unreadable)?;
        mend(&mut book);
        serde_json::to_writer(io::stdout().lock(), &book).map_err(unreadable)
    }
}

/// The program, if it is here; the pipeline gets it.
pub(super) fn program_for_check(
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<Option<PathBuf>> {
    if let Some(program) = env::find_program(MDBOOK) {
        return Ok(Some(program));
    }
    if !env::is_pipeline() || apt::available().is_err() {
        return Ok(None);
    }
    match got(workspace, interrupts) {
        Ok(program) => Ok(Some(program)),
        Err(Failure::Missing(reason)) => {
            println!("xtask: {MDBOOK} cannot be had: {reason}");
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// The program, got if it is not here.
pub(super) fn program(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    if let Some(program) = env::find_program(MDBOOK) {
        return Ok(program);
    }
    got(workspace, interrupts).map_err(|failure| match failure {
        Failure::Missing(reason) => Failure::Missing(format!(
            "the book is built by mdbook, which is not here: {reason}\n\
             install it: cargo install mdbook"
        )),
        failure => failure,
    })
}

fn got(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    binaries::program(
        Source::Debian(RELEASE, MDBOOK),
        MDBOOK,
        workspace,
        interrupts,
    )
}

/// Builds the book into the target folder, and gives its folder.
///
/// # Errors
/// `Red` if it does not build; `Interrupted`.
pub(super) fn build(
    program: &Path,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<PathBuf> {
    let folder = workspace.emptied("book")?;
    let mut command = Command::new(program);
    command
        .arg("build")
        .arg("--dest-dir")
        .arg(&folder)
        .arg(&workspace.root);
    // It calls this program back, which is here: cargo might wait for another build.
    if let Ok(own) = std::env::current_exe() {
        command.env(CALLED_BACK, format!("'{}' book-links", own.display()));
    }
    let status = interrupts.run(&mut command)?;
    if status.success() {
        Ok(folder)
    } else {
        Err(Failure::Red(format!(
            "mdbook ended with {status}; what is wrong stands above"
        )))
    }
}

/// Puts every chapter where the book has it, and mends its links.
fn mend(book: &mut Value) {
    let mut places = BTreeMap::new();
    each_chapter(book, &mut |_, path, source| {
        places.insert(source.to_owned(), place(path));
    });
    each_chapter(book, &mut |content, path, source| {
        *content = mended(content, source, &places);
        *path = place(path).display().to_string();
    });
}

/// Calls with the text, the path and the source of each chapter; the source from the root of the
/// checkout.
fn each_chapter(value: &mut Value, call: &mut dyn FnMut(&mut String, &mut String, &Path)) {
    match value {
        Value::Array(values) => {
            for value in values {
                each_chapter(value, call);
            }
        }
        Value::Object(fields) => {
            let source = fields.get("source_path").and_then(Value::as_str);
            let source = source.and_then(|source| resolved(Path::new(SOURCE), source));
            let (mut content, mut path) = (String::new(), String::new());
            if let (Some(source), Some(Value::String(text)), Some(Value::String(at))) =
                (&source, fields.get("content"), fields.get("path"))
            {
                content.clone_from(text);
                path.clone_from(at);
                call(&mut content, &mut path, source);
                fields.insert("content".to_owned(), content.into());
                fields.insert("path".to_owned(), path.into());
            }
            for (_, value) in fields.iter_mut() {
                each_chapter(value, call);
            }
        }
        _ => {}
    }
}

/// Where the book has a page: one from outside its folder under the path from the root.
fn place(path: &str) -> PathBuf {
    let parts = Path::new(path).components();
    parts.filter(|part| *part != Component::ParentDir).collect()
}

/// The text of a page with links that lead to pages of the book, or none.
fn mended(text: &str, source: &Path, places: &BTreeMap<PathBuf, PathBuf>) -> String {
    let here = places.get(source).map_or(source, PathBuf::as_path);
    let folder = source.parent().unwrap_or(source);
    let mut whole = String::new();
    let mut done = 0;
    for link in &Page::read(text).links {
        let (path, anchor) = split(&link.target);
        if is_elsewhere(&link.target) || path.is_empty() {
            continue;
        }
        let shown = text.get(link.shown.clone()).unwrap_or_default();
        let to = resolved(folder, path).and_then(|file| places.get(&file));
        whole.push_str(&text[done..link.place.start]);
        match to {
            Some(to) => {
                let up = here
                    .parent()
                    .map_or(0, |folder| folder.components().count());
                let anchor = anchor.map(|anchor| format!("#{anchor}"));
                // Writing to a string cannot fail.
                let _ = write!(
                    whole,
                    "[{shown}]({}{}{})",
                    "../".repeat(up),
                    to.display(),
                    anchor.unwrap_or_default()
                );
            }
            None => whole.push_str(shown),
        }
        done = link.place.end;
    }
    whole.push_str(&text[done..]);
    whole
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chapter(content: &str, path: &str, source: &str) -> Value {
        let fields = json!({
            "name": "a", "content": content, "path": path, "source_path": source, "sub_items": [],
        });
        json!({ "Chapter": fields })
    }

    #[test]
    fn links_lead_to_pages_of_the_book_wherever_these_lie() {
        let front = "[a](docs/a.md#b) [code](src/lib.rs) [b](https://b/)\n";
        let page = "[up](../README.md) [alarm](../observability/RUNBOOK.md#c) [here](#d)\n";
        let runbook = "[a](../docs/a.md)\n";
        let mut book = json!({ "sections": [
            chapter(front, "../index.md", "../README.md"),
            chapter(page, "a.md", "a.md"),
            chapter(runbook, "../observability/RUNBOOK.md", "../observability/RUNBOOK.md"),
        ]});

        mend(&mut book);

        let of = |index: usize, field: &str| {
            let value = &book["sections"][index]["Chapter"][field];
            value.as_str().expect("text").to_owned()
        };
        assert_eq!(of(0, "content"), "[a](a.md#b) code [b](https://b/)\n");
        assert_eq!(of(0, "path"), "index.md");
        assert_eq!(
            of(1, "content"),
            "[up](index.md) [alarm](observability/RUNBOOK.md#c) [here](#d)\n"
        );
        assert_eq!(of(2, "content"), "[a](../a.md)\n");
        assert_eq!(of(2, "path"), "observability/RUNBOOK.md");
    }
}
