//! What some servers do not know, and what stands in for it.
//!
//! `MariaDB` before 10.6 has neither `JSON_TABLE`, as which statements get their rows, nor `SKIP
//! LOCKED`, by which claims pass by what somebody has. There a statement takes the rows apart by
//! `JSON_VALUE`, a value at a time; and it is refused when one of its rows is locked, upon which the
//! caller asks for one row after the other.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use super::server;

const SKIP: &str = " SKIP LOCKED";
const REFUSED: &str = " NOWAIT";
const ROWS: &str = "JSON_TABLE(?, '$[*]' COLUMNS (";

/// A table of numbers, as `MariaDB` makes them: the numbers that a statement has rows for are read.
const NUMBERS: &str = "seq_0_to_9999999";

/// Which statements a server takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Dialect {
    /// As they stand here.
    #[default]
    Whole,
    /// Those without `JSON_TABLE` and `SKIP LOCKED`.
    Old,
}

impl Dialect {
    /// That of the server that says this of its version.
    pub(super) fn of(said: &str) -> Self {
        if server::knows_rows(said) {
            Self::Whole
        } else {
            Self::Old
        }
    }

    /// `sql` as the server takes it.
    pub(super) fn text(self, sql: &'static str) -> SqlStr {
        match self {
            Self::Whole => sql.into_sql_str(),
            // Made of what stands here, and of nothing else.
            Self::Old => AssertSqlSafe(old(sql)).into_sql_str(),
        }
    }

    /// The most bytes of rows in one statement, if it has more than one. Each value of an old one is
    /// looked for from the beginning of them all.
    pub(super) const fn most(self, whole: usize) -> usize {
        match self {
            Self::Whole => whole,
            Self::Old => 32 * 1024,
        }
    }
}

/// `sql` for a server that knows neither tables of JSON nor how to skip what is locked.
fn old(sql: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(sql.len() * 2), sql);
    while let Some((before, from)) = rest.split_once(ROWS) {
        let (columns, after) = until_closed(from);
        text.push_str(before);
        text.push_str("(SELECT ");
        for (place, column) in columns.split(',').enumerate() {
            let glue = if place == 0 { "" } else { ", " };
            _ = write!(text, "{glue}{}", value_of(column));
        }
        _ = write!(
            text,
            " FROM (SELECT ? AS doc) d STRAIGHT_JOIN {NUMBERS} s WHERE s.seq < JSON_LENGTH(d.doc))"
        );
        // The bracket of the table itself.
        rest = after.strip_prefix(')').unwrap_or(after);
    }
    text.push_str(rest);
    text.replace(SKIP, REFUSED)
}

/// What stands before the bracket that closes one that is open, and what stands behind it.
fn until_closed(text: &str) -> (&str, &str) {
    let mut open = 1;
    for (at, letter) in text.char_indices() {
        open += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if open == 0 {
            return (&text[..at], &text[at + 1..]);
        }
    }
    (text, "")
}

/// A column of a table of JSON as the value that stands at its path.
fn value_of(column: &str) -> String {
    let words: Vec<_> = column.split_whitespace().collect();
    let at = |path: &str| {
        let path = path.trim_matches('\'').trim_start_matches('$');
        format!("JSON_VALUE(d.doc, CONCAT('$[', s.seq, ']{path}'))")
    };
    match *words.as_slice() {
        [name, "BIGINT", "PATH", path] => format!("CAST({} AS SIGNED) AS {name}", at(path)),
        [name, "DOUBLE", "PATH", path] => format!("CAST({} AS DOUBLE) AS {name}", at(path)),
        // Where it is compared with a column, the collation is that of the column, all of which are
        // binary; one that it named itself would stand against it.
        [name, _, "CHARACTER", "SET", set, .., "PATH", path] => {
            format!("CONVERT({} USING {set}) AS {name}", at(path))
        }
        [name, _, "PATH", path] => format!("{} AS {name}", at(path)),
        // No statement has it; the server would say where.
        _ => column.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &str = "SELECT w.`id` FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `id` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin
                PATH '$.id',
            name LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]', n BIGINT PATH '$')) w
        FOR UPDATE SKIP LOCKED";

    #[test]
    fn an_old_server_gets_each_value_by_its_path() {
        let text = Dialect::Old.text(CLAIM);

        assert_eq!(
            text.as_str(),
            "SELECT w.`id` FROM (SELECT \
             CONVERT(JSON_VALUE(d.doc, CONCAT('$[', s.seq, '].id')) USING ascii) AS `id`, \
             CONVERT(JSON_VALUE(d.doc, CONCAT('$[', s.seq, '][1]')) USING utf8mb4) AS name, \
             CAST(JSON_VALUE(d.doc, CONCAT('$[', s.seq, ']')) AS SIGNED) AS n \
             FROM (SELECT ? AS doc) d STRAIGHT_JOIN seq_0_to_9999999 s \
             WHERE s.seq < JSON_LENGTH(d.doc)) w
        FOR UPDATE NOWAIT"
        );
    }

    #[test]
    fn another_gets_a_statement_as_it_stands() {
        assert_eq!(Dialect::Whole.text(CLAIM).as_str(), CLAIM);
    }
}
