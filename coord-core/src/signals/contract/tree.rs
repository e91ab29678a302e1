//! Text, lists and maps that keep their order, written as JSON and as YAML.
//!
//! The generated files are compared byte for byte, so the order of a map may not depend on which
//! features other crates give to a serializer.

use std::fmt::Write as _;

/// A value of the generated files.
#[derive(Debug, Clone)]
pub(super) enum Tree {
    Text(String),
    Number(u64),
    Flag(bool),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// A map of these entries, in this order.
pub(super) fn map<K: Into<String>>(entries: impl IntoIterator<Item = (K, Tree)>) -> Tree {
    let entries = entries.into_iter();
    Tree::Map(entries.map(|(key, value)| (key.into(), value)).collect())
}

/// A list of these values.
pub(super) fn list(values: impl IntoIterator<Item = Tree>) -> Tree {
    Tree::List(values.into_iter().collect())
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Tree {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Tree {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl Tree {
    /// As JSON, two spaces a level, with a newline at the end.
    pub(super) fn json(&self) -> String {
        let mut text = String::new();
        self.write_json(&mut text, 0);
        text.push('\n');
        text
    }

    fn write_json(&self, text: &mut String, depth: usize) {
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Text(value) => write!(text, "{}", serde_json::Value::from(value.as_str())),
            Self::Number(value) => write!(text, "{value}"),
            Self::Flag(value) => write!(text, "{value}"),
            Self::List(values) if values.is_empty() => write!(text, "[]"),
            Self::Map(entries) if entries.is_empty() => write!(text, "{{}}"),
            Self::List(values) => {
                text.push('[');
                for (index, value) in values.iter().enumerate() {
                    text.push_str(if index == 0 { "\n" } else { ",\n" });
                    text.push_str(&"  ".repeat(depth + 1));
                    value.write_json(text, depth + 1);
                }
                write!(text, "\n{}]", "  ".repeat(depth))
            }
            Self::Map(entries) => {
                text.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    text.push_str(if index == 0 { "\n" } else { ",\n" });
                    text.push_str(&"  ".repeat(depth + 1));
                    let _ = write!(text, "{}: ", serde_json::Value::from(key.as_str()));
                    value.write_json(text, depth + 1);
                }
                write!(text, "\n{}}}", "  ".repeat(depth))
            }
        };
    }

    /// As YAML in block style, two spaces a level, with a newline at the end.
    pub(super) fn yaml(&self) -> String {
        let mut text = String::new();
        self.write_yaml(&mut text, 0);
        text
    }

    /// Writes lines, each with its indentation and its end.
    fn write_yaml(&self, text: &mut String, depth: usize) {
        match self {
            Self::List(values) if !values.is_empty() => {
                for value in values {
                    // The dash stands where the value's own indentation would begin.
                    let start = text.len();
                    value.write_yaml(text, depth + 1);
                    let dash = start + 2 * depth;
                    text.replace_range(dash..dash + 2, "- ");
                }
            }
            Self::Map(entries) if !entries.is_empty() => {
                for (key, value) in entries {
                    let _ = write!(text, "{}{}:", "  ".repeat(depth), yaml_text(key));
                    if value.is_block() {
                        text.push('\n');
                        value.write_yaml(text, depth + 1);
                    } else {
                        let _ = writeln!(text, " {}", value.yaml_scalar());
                    }
                }
            }
            scalar => {
                let _ = writeln!(text, "{}{}", "  ".repeat(depth), scalar.yaml_scalar());
            }
        }
    }

    fn is_block(&self) -> bool {
        match self {
            Self::List(values) => !values.is_empty(),
            Self::Map(entries) => !entries.is_empty(),
            Self::Text(_) | Self::Number(_) | Self::Flag(_) => false,
        }
    }

    fn yaml_scalar(&self) -> String {
        match self {
            Self::Text(value) => yaml_text(value),
            Self::Number(value) => value.to_string(),
            Self::Flag(value) => value.to_string(),
            Self::List(_) => "[]".into(),
            Self::Map(_) => "{}".into(),
        }
    }
}

/// `text` plain where YAML reads it back as the same text, otherwise in single quotes, in which
/// nothing but the quote itself has a meaning.
fn yaml_text(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || " _./()[]<>=,+*;#-:".contains(char))
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([' ', ':'])
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        map([
            ("zero", 0_u64.into()),
            ("flag", true.into()),
            ("name", "redis.lock.lost".into()),
            ("word", "true".into()),
            ("expr", "sum(x{a=\"b\"}) > 0".into()),
            ("said", "it's lost: now".into()),
            ("none", list([])),
            (
                "many",
                list([
                    "a".into(),
                    map([("b", "c".into()), ("d", list(["e".into()]))]),
                ]),
            ),
        ])
    }

    #[test]
    fn yaml_keeps_the_order_and_quotes_what_would_be_read_as_something_else() {
        assert_eq!(
            tree().yaml(),
            "zero: 0\nflag: true\nname: redis.lock.lost\nword: 'true'\n\
             expr: 'sum(x{a=\"b\"}) > 0'\nsaid: 'it''s lost: now'\nnone: []\n\
             many:\n  - a\n  - b: c\n    d:\n      - e\n"
        );
    }

    #[test]
    fn json_keeps_the_order_and_is_read_back() {
        let text = tree().json();

        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["expr"], "sum(x{a=\"b\"}) > 0");
        assert_eq!(read["many"][1]["d"][0], "e");
        let places = ["zero", "flag", "name", "word"].map(|key| text.find(key));
        assert!(places.is_sorted(), "{text}");
    }
}
