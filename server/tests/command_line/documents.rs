//! What the documents tell people to type.

use std::fs;
use std::path::Path;

use crate::on_every_database;
use crate::stage::Database;

on_every_database! {
    every_statement_of_the_documents_runs,
}

/// The blocks of code of `language` in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(document);
    let text = fs::read_to_string(path).expect("a document");
    let opening = format!("```{language}\n");
    let blocks = text.split(&opening).skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap_or_default().to_owned());
    blocks.collect()
}

async fn every_statement_of_the_documents_runs(database: Database) {
    let database = database.migrated();
    let documents = ["engine.md", "troubleshooting.md"];
    let statements = documents.map(|document| blocks(document, "sql"));
    assert!(
        statements.iter().all(|found| !found.is_empty()),
        "{statements:?}"
    );

    for statement in statements.concat() {
        database.execute(statement).await;
    }
}

#[test]
fn every_command_of_the_documents_is_one() {
    let lines = blocks("troubleshooting.md", "sh").concat();
    assert!(lines.lines().count() > 3, "{lines}");

    for line in lines.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let (program, words) = words.split_first().expect("a line");
        assert_eq!(*program, "coord", "{line}");
        let help = crate::stage::call(&[words, &["--help"]].concat());
        assert!(help.out.contains("Usage: coord"), "{line}: {help:?}");
        // Asked in earnest, it looks for a database; one that does not read is refused with help.
        let asked = crate::stage::call(words);
        assert!(asked.err.starts_with("coord: "), "{line}: {asked:?}");
    }
}
