//! What a command found, as people and as programs read it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use coord_core::Calendar;
use coord_engine::model::{JSON, Payload, Timestamp};
use serde_json::{Value, json};

/// What is printed at the end of a command.
pub(super) struct Shown {
    json: Value,
    text: String,
    code: u8,
}

impl Shown {
    /// `text` for people, `json` for programs.
    pub(super) fn new(json: Value, text: impl Into<String>) -> Self {
        Self {
            json,
            text: text.into(),
            code: 0,
        }
    }

    /// What a program reads as well as people do.
    pub(super) fn plain(text: String) -> Self {
        Self::new(Value::String(text.clone()), text)
    }

    /// Nothing more than was printed before.
    pub(super) fn nothing() -> Self {
        Self::new(Value::Null, "")
    }

    /// It ends with `code`.
    pub(super) const fn ending(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    pub(super) fn print(&self, is_json: bool) -> ExitCode {
        let text = match (is_json, &self.json) {
            (false, _) | (true, Value::Null) => self.text.clone(),
            (true, json) => format!("{json:#}"),
        };
        if !text.is_empty() {
            // Whoever reads may stop before the end, as `head` does.
            _ = writeln!(io::stdout().lock(), "{}", text.trim_end());
        }
        ExitCode::from(self.code)
    }
}

/// Rows under their headings.
pub(super) fn table<const WIDTH: usize>(
    headings: [&str; WIDTH],
    rows: impl IntoIterator<Item = [String; WIDTH]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    let mut text = String::new();
    for line in table.lines() {
        // Without a border a row begins with the padding of its first cell.
        text.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
        text.push('\n');
    }
    text
}

/// Names and values, one below the other; what has no value is left out.
pub(super) fn list<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let rows: Vec<_> = rows.into_iter().filter(|row| !row.1.is_empty()).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = rows.iter();
    let lines = lines.map(|(name, value)| format!("{name:width$}  {value}\n"));
    lines.collect()
}

/// Where the next page begins.
pub(super) fn more(next: &str) -> String {
    format!("\nmore: --after {next}\n")
}

/// An instant, in UTC; nothing for one that does not come.
pub(super) fn instant(at: Timestamp) -> String {
    if at.comes() {
        Calendar::text(at.as_micros().div_euclid(1000))
    } else {
        String::new()
    }
}

/// How long something is so, to the second; finer what is shorter than ten.
pub(super) fn age(age: Duration) -> String {
    if age < Duration::from_secs(10) {
        return format!("{age:.1?}");
    }
    let (seconds, minutes) = (age.as_secs() % 60, age.as_secs() / 60 % 60);
    match (age.as_secs() / 3600, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m {seconds}s"),
        (hours, minutes) => format!("{hours}h {minutes}m"),
    }
}

/// An instant for programs.
pub(super) fn instant_json(at: Timestamp) -> Value {
    if at.comes() {
        Value::String(instant(at))
    } else {
        Value::Null
    }
}

/// What a workflow was given or gave; of another codec, how much it is.
pub(super) fn payload(payload: &Payload) -> Value {
    let value = (&*payload.codec == JSON).then(|| serde_json::from_slice(&payload.bytes).ok());
    value
        .flatten()
        .unwrap_or_else(|| json!({ "codec": &*payload.codec, "bytes": payload.bytes.len() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_as_fine_as_it_is_short() {
        let ages = [1_234, 59_000, 61_000, 90_061_000].map(Duration::from_millis);

        assert_eq!(ages.map(age), ["1.2s", "59s", "1m 1s", "25h 1m"]);
    }

    #[test]
    fn a_table_has_its_columns_below_each_other_and_no_border() {
        let rows = [
            ["a".to_owned(), "1".to_owned()],
            ["long".to_owned(), String::new()],
        ];

        assert_eq!(table(["NAME", "N"], rows), "NAME  N\na     1\nlong\n");
    }

    #[test]
    fn what_has_no_value_is_not_listed() {
        let rows = [("id", "a".to_owned()), ("closed", String::new())];

        assert_eq!(list(rows), "id  a\n");
    }
}
