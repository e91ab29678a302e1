//! What the documents tell people to type.

use std::fs;
use std::path::Path;

use crate::command_line::on_every_database;
use crate::command_line::stage::Database;

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

/// The commands that the table of a document names: those that stand in its first column, without
/// what is to be put in their place. One of several in a cell begins as the first one does.
fn commands_of_the_table(document: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(document);
    let text = fs::read_to_string(path).expect("a document");
    let (_, table) = text.split_once("| command | does |").expect("a table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut commands = Vec::new();
    for row in rows {
        let cell = row.split(" | ").next().expect("a cell");
        let named: Vec<_> = cell.split('`').skip(1).step_by(2).collect();
        let group = named[0].split(' ').next().expect("a word");
        for name in named {
            let is_word = |word: &&str| word.chars().all(|it| it.is_ascii_lowercase() || it == '-');
            let words = name.split(' ').take_while(is_word);
            let words: Vec<_> = words.filter(|word| !word.starts_with('-')).collect();
            let mut command: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            let help = crate::command_line::stage::call(&[&words[..], &["--help"]].concat());
            if help.code != 0 {
                command.insert(0, group.to_owned());
            }
            commands.push(command);
        }
    }
    commands
}

#[test]
fn every_command_of_the_table_is_one_and_every_command_is_in_the_table() {
    let commands = commands_of_the_table("command-line.md");
    assert!(commands.len() > 30, "{commands:?}");

    for command in &commands {
        let words: Vec<_> = command.iter().map(String::as_str).collect();
        let help = crate::command_line::stage::call(&[&words[..], &["--help"]].concat());
        let usage = format!("Usage: coord {}", words.join(" "));
        assert!(help.out.contains(&usage), "{usage}: {help:?}");
    }
    let help = crate::command_line::stage::call(&["--help"]).done();
    let (_, listed) = help.split_once("Commands:").expect("a list");
    let listed = listed.lines().skip(1).take_while(|line| !line.is_empty());
    for line in listed.filter(|line| !line.starts_with("   ")) {
        let command = line.trim().split(' ').next().expect("a word");
        let is_known = commands.iter().any(|known| known[0] == command);
        assert!(
            is_known || command == "help",
            "{command} is not in the table"
        );
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
        let help = crate::command_line::stage::call(&[words, &["--help"]].concat());
        assert!(help.out.contains("Usage: coord"), "{line}: {help:?}");
        // Asked in earnest, it looks for a database; one that does not read is refused with help.
        let asked = crate::command_line::stage::call(words);
        assert!(asked.err.starts_with("coord: "), "{line}: {asked:?}");
    }
}
