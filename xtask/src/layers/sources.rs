//! The rules on source text.

use super::Violation;
use super::tokens::{self, Token, find, inside};

/// The list of every crate that declares signals.
const SIGNALS_LIST: &str = "tests/src/contract.rs";

/// The one file that reads the client's error codes.
const VENDOR_CODES: &str = "coord-redis/src/error.rs";

/// The one file that reads the environment.
const ENVIRONMENT: &str = "coord-core/src/env.rs";

/// A Rust file.
pub(super) struct Source {
    /// Its path from the root.
    pub(super) path: String,
    pub(super) text: String,
}

/// A file with its tokens.
struct Tokens<'source> {
    path: &'source str,
    tokens: Vec<Token>,
}

impl Tokens<'_> {
    fn violation(&self, line: usize, rule: &'static str, what: &str) -> Violation {
        Violation {
            path: self.path.into(),
            line,
            rule,
            what: what.into(),
        }
    }

    fn at(&self, starts: &[usize], rule: &'static str, what: &str) -> Vec<Violation> {
        starts
            .iter()
            .map(|start| self.violation(self.tokens[*start].line, rule, what))
            .collect()
    }
}

/// Every violation of a rule on source text.
pub(super) fn violations(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut files = Vec::new();
    for Source { path, text } in sources {
        match tokens::tokens(text) {
            Ok(tokens) => files.push(Tokens { path, tokens }),
            Err(cause) => violations.push(Violation {
                path: path.clone(),
                line: cause.span().start().line,
                rule: "rust",
                what: "this is not Rust: correct it, or name it otherwise than .rs".into(),
            }),
        }
    }
    for file in &files {
        violations.extend(dead_code(file));
        violations.extend(ignored_tests(file));
        violations.extend(vendor_codes(file));
        violations.extend(environment(file));
    }
    violations.extend(unlisted_signals(&files));
    violations
}

/// A signal that nobody emits is found by the lint `dead_code` alone, so nobody may turn it off,
/// nor a group of lints that contains it.
fn dead_code(file: &Tokens<'_>) -> Vec<Violation> {
    let tokens = &file.tokens;
    let mut starts = find(tokens, &["allow", "("]);
    starts.extend(find(tokens, &["expect", "("]));
    starts.retain(|&start| {
        // The method `expect` stands behind a dot.
        let is_attribute = start > 0 && ["[", "(", ","].contains(&tokens[start - 1].text.as_str());
        let lints = inside(tokens, start + 1);
        let names =
            |lint: &Token| ["dead_code", "unused", "warnings"].contains(&lint.text.as_str());
        is_attribute && lints.iter().any(names)
    });
    let what = "the lint dead_code proves that every declared signal is emitted: delete the dead \
                code instead";
    file.at(&starts, "dead code", what)
}

fn ignored_tests(file: &Tokens<'_>) -> Vec<Violation> {
    let tokens = &file.tokens;
    let mut starts = find(tokens, &["#", "[", "ignore"]);
    for start in find(tokens, &["cfg_attr", "("]) {
        if !find(inside(tokens, start + 1), &[",", "ignore"]).is_empty() {
            starts.push(start);
        }
    }
    let what = "an ignored test is one that nobody runs: make it run, or delete it";
    file.at(&starts, "ignored test", what)
}

fn vendor_codes(file: &Tokens<'_>) -> Vec<Violation> {
    if file.path == VENDOR_CODES {
        return Vec::new();
    }
    let tokens = &file.tokens;
    let mut starts = find(tokens, &["redis", ":", ":", "ErrorKind"]);
    starts.extend(imported(tokens, "redis", "ErrorKind"));
    starts.extend(find(tokens, &["ServerErrorKind"]));
    let what = "only coord-redis/src/error.rs reads the client's error codes: ask for the kind of \
                coord_core's error instead";
    file.at(&starts, "vendor code", what)
}

fn environment(file: &Tokens<'_>) -> Vec<Violation> {
    let is_test = file.path.split('/').any(|part| part == "tests");
    if file.path == ENVIRONMENT || file.path.starts_with("xtask/") || is_test {
        return Vec::new();
    }
    let tokens = &file.tokens;
    let mut starts = find(tokens, &["std", ":", ":", "env"]);
    starts.extend(imported(tokens, "std", "env"));
    let what = "only coord-core/src/env.rs reads the environment: take the value as an argument, \
                or declare the variable and read it through coord_core's Env";
    file.at(&starts, "environment", what)
}

/// Where `item` is named in a group `module::{…}`.
fn imported(tokens: &[Token], module: &str, item: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    for start in find(tokens, &[module, ":", ":", "{"]) {
        let open = start + 3;
        let group = inside(tokens, open);
        let named = group
            .iter()
            .enumerate()
            .filter(|(_, token)| token.text == item);
        starts.extend(named.map(|(index, _)| open + 1 + index));
    }
    starts
}

/// Every crate with a `signals.rs` is in the list that the contract check reads; what is not in it
/// is checked by nobody. coord-core holds the grammar of signals there, and declares none.
fn unlisted_signals(files: &[Tokens<'_>]) -> Vec<Violation> {
    let listed = |package: &str| {
        let quoted = format!("\"{package}\"");
        let list = files.iter().find(|file| file.path == SIGNALS_LIST);
        list.is_some_and(|list| list.tokens.iter().any(|token| token.text == quoted))
    };
    let mut violations = Vec::new();
    for file in files {
        let Some(package) = file.path.strip_suffix("/src/signals.rs") else {
            continue;
        };
        if package.starts_with("coord-") && package != "coord-core" && !listed(package) {
            let name = package.replace('-', "_");
            let what = format!(
                "{SIGNALS_LIST} does not list this crate, so nobody checks its signals: add \
                 (\"{package}\", {name}::SIGNALS) there"
            );
            violations.push(file.violation(1, "unlisted signals", &what));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    /// The rule and line of each violation in one file.
    fn found(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let violations = violations(&[source(path, text)]);
        violations
            .iter()
            .map(|violation| (violation.rule, violation.line))
            .collect()
    }

    #[test]
    fn dead_code_may_not_be_allowed_in_any_way() {
        for attribute in [
            "#[allow(dead_code)]",
            "#[expect(dead_code, reason = \"soon\")]",
            "#[allow(clippy::all, unused)]",
            "#[cfg_attr(test, allow(warnings))]",
        ] {
            let text = format!("\n{attribute}\nfn f() {{}}");
            assert_eq!(
                found("coord-lock/src/a.rs", &text),
                [("dead code", 2)],
                "{attribute}"
            );
        }
        assert_eq!(
            found("coord-lock/src/lib.rs", "#![allow(dead_code)]"),
            [("dead code", 1)]
        );
    }

    #[test]
    fn other_lints_and_mere_mentions_are_accepted() {
        let text = "//! `allow(dead_code)` is refused.\n#[allow(unused_imports)]\nuse a::b;\n\
                    fn f() { b(\"#[allow(dead_code)]\").expect(unused); }";

        assert_eq!(found("coord-lock/src/a.rs", text), []);
    }

    #[test]
    fn no_test_is_ignored() {
        for attribute in [
            "#[ignore]",
            "#[ignore = \"slow\"]",
            "#[cfg_attr(unix, ignore)]",
        ] {
            let text = format!("#[test]\n{attribute}\nfn f() {{}}");
            assert_eq!(
                found("tests/tests/a.rs", &text),
                [("ignored test", 2)],
                "{attribute}"
            );
        }
        assert_eq!(found("tests/tests/a.rs", "fn ignore() { ignore(); }"), []);
    }

    #[test]
    fn vendor_codes_are_read_in_one_file() {
        for text in [
            "fn f(kind: redis::ErrorKind) {}",
            "use redis::{Client, ErrorKind};",
            "use redis::{\n    Client, ServerErrorKind as Kind};",
        ] {
            let rules: Vec<_> = found("coord-lock/src/error.rs", text);
            assert_eq!(rules[0].0, "vendor code", "{text}");
            assert_eq!(found(VENDOR_CODES, text), [], "{text}");
        }
        assert_eq!(found("coord-lock/src/a.rs", "use std::io::ErrorKind;"), []);
        assert_eq!(
            found("coord-lock/src/a.rs", "use coord_core::{ErrorKind, Name};"),
            []
        );
    }

    #[test]
    fn the_environment_is_read_in_one_file() {
        for text in [
            "fn f() { std::env::var(\"A\"); }",
            "use std::env;",
            "use std::{env, fs};",
            "use std::{fs, env::var};",
        ] {
            assert_eq!(
                found("coord-lock/src/a.rs", text),
                [("environment", 1)],
                "{text}"
            );
            for exempt in [
                ENVIRONMENT,
                "xtask/src/a.rs",
                "tests/src/a.rs",
                "coord-core/tests/a.rs",
            ] {
                assert_eq!(found(exempt, text), [], "{text} in {exempt}");
            }
        }
        assert_eq!(
            found(
                "coord-lock/src/a.rs",
                "use coord_core::env; fn f() { env!(\"A\") }"
            ),
            []
        );
    }

    #[test]
    fn a_crate_with_signals_is_listed() {
        let signals = source("coord-lock/src/signals.rs", "");
        let list = |text: &str| source(SIGNALS_LIST, text);
        let count = |files: &[Source]| violations(files).len();

        let listed = list("const ALL: &[Row] = &[(\"coord-lock\", coord_lock::SIGNALS)];");
        assert_eq!(count(&[source("coord-lock/src/signals.rs", ""), listed]), 0);

        let other = list("// coord-lock\nconst ALL: &[Row] = &[(\"coord-lease\", 1)];");
        assert_eq!(count(&[source("coord-lock/src/signals.rs", ""), other]), 1);
        assert_eq!(count(&[signals]), 1);
        assert_eq!(count(&[source("coord-core/src/signals.rs", "")]), 0);
    }

    #[test]
    fn a_file_that_is_not_rust_is_found() {
        assert_eq!(
            found("coord-lock/src/a.rs", "fn f() {\n  (\n}"),
            [("rust", 3)]
        );
    }
}
