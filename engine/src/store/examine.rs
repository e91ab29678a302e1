//! What a database is asked about itself, for those who look after it.

use std::time::Duration;

use crate::model::Timestamp;

/// What a database says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examination {
    /// Its clock.
    pub now: Timestamp,
    /// The product and its version.
    pub server: String,
    /// The rule that it breaks, when the engine does not work with it.
    pub too_old: Option<String>,
    /// The version of the schema that is there, and the one that this program brings.
    pub schema: (u32, u32),
    /// At which level writes run; `None` where there is but one.
    pub isolation: Option<String>,
    /// Settings with which it may lose what it has confirmed, or refuse what the engine asks.
    pub risks: Vec<Risk>,
    /// Indexes that the schema of that version has, and that are not there or not valid.
    pub missing_indexes: Vec<String>,
    /// How a claim would find its tasks.
    pub claim: Plan,
    /// What stands between this process and the server.
    pub pooler: Pooler,
    /// Transactions that have been under way for longer than was asked for.
    pub long: Long,
}

/// A setting that is dangerous.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Risk {
    /// It, as it is.
    pub setting: String,
    /// What comes of it.
    pub danger: &'static str,
}

/// How rows are found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Whether by the index that is made for it.
    pub is_indexed: bool,
    /// As the database tells it, or why it does not.
    pub told: String,
}

/// What stands between a process and a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pooler {
    /// Nothing that gives a transaction another session.
    None,
    /// A pooler that gives each transaction another session, and this store was told so.
    Told,
    /// Such a pooler, and nobody has told.
    Untold,
}

/// Long transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Long {
    /// So many, and for how long the oldest.
    Seen(u64, Duration),
    /// This user may not see those of others.
    Hidden,
    /// So many pages wait behind somebody who reads, as SQLite counts them.
    Pages(u64),
}

/// The indexes that the statements of a schema leave behind.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) fn indexes(steps: &[&str]) -> Vec<String> {
    let mut indexes = std::collections::BTreeSet::new();
    for step in steps {
        let code = step.lines().filter(|line| !line.trim().starts_with("--"));
        let words: Vec<_> = code
            .flat_map(|line| line.split(|letter: char| !is_of_word(letter)))
            .filter(|word| !word.is_empty())
            .collect();
        for (place, word) in words.iter().enumerate() {
            if *word != "INDEX" {
                continue;
            }
            let is_dropped = place > 0 && words[place - 1] == "DROP";
            let mut after = words[place + 1..].iter();
            let name = after.find(|word| !["IF", "NOT", "EXISTS"].contains(word));
            let Some(name) = name.filter(|name| name.starts_with(|it: char| it.is_lowercase()))
            else {
                continue;
            };
            if is_dropped {
                indexes.remove(*name);
            } else {
                indexes.insert((*name).to_owned());
            }
        }
    }
    indexes.into_iter().collect()
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Those of the first `version` of `steps` that are not `there`.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) fn missing(steps: &[&str], version: i64, there: &[String]) -> Vec<String> {
    let version = usize::try_from(version).unwrap_or(0).min(steps.len());
    let mut wanted = indexes(&steps[..version]);
    wanted.retain(|index| !there.contains(index));
    wanted
}

#[cfg(all(test, any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_of_a_schema_are_those_that_its_statements_leave() {
        let steps = [
            "-- no INDEX of a comment\nCREATE TABLE t (a INT, INDEX t_by_a (a));
             CREATE UNIQUE INDEX t_by_b ON t (b);",
            "SET @step = 'CREATE INDEX t_by_c ON t (c)'; DROP INDEX t_by_b;
             CREATE INDEX IF NOT EXISTS t_by_d ON t (d);",
        ];

        assert_eq!(indexes(&steps), ["t_by_a", "t_by_c", "t_by_d"]);
        assert_eq!(missing(&steps, 1, &["t_by_a".to_owned()]), ["t_by_b"]);
    }
}
