//! The only reader of the process environment.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use crate::{Error, Result};

/// One environment variable that a crate reads; each crate lists its own as `VARIABLES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// The name, such as `COORD_REDIS_URL`.
    pub name: &'static str,
    /// What holds when it is not set, as one would write it; empty when nothing does.
    pub default: &'static str,
    /// What it sets, with its form and the reason for the default.
    pub about: &'static str,
}

/// A snapshot of the environment.
///
/// A variable that is set to white space counts as not set. Durations carry their unit (`250ms`,
/// `30s`, `1h 30m`); a bare number is refused, since nobody can see what it means.
#[derive(Debug, Clone, Default)]
pub struct Env {
    /// `None` for a value that is not UTF-8.
    values: BTreeMap<String, Option<String>>,
}

impl Env {
    /// The environment of this process, read now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one home of environment reads"
    )]
    pub fn process() -> Self {
        let values = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok())));
        Self {
            values: values.collect(),
        }
    }

    /// An environment of these pairs, for tests and for settings that come from elsewhere.
    pub fn from_pairs<N: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let values = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), Some(value.into())));
        Self {
            values: values.collect(),
        }
    }

    /// The text of `variable`, without surrounding white space.
    ///
    /// # Errors
    /// `Invalid` when the value is not UTF-8.
    pub fn text(&self, variable: &Variable) -> Result<Option<&str>> {
        match self.values.get(variable.name) {
            None => Ok(None),
            Some(None) => Err(Error::invalid(format!("{} is not UTF-8", variable.name))),
            Some(Some(value)) => Ok(Some(value.trim()).filter(|text| !text.is_empty())),
        }
    }

    /// The value of `variable` as any type that reads itself from text, such as a number.
    ///
    /// # Errors
    /// `Invalid` naming the variable, its value and what it must be (`form`).
    pub fn parsed<T: FromStr>(&self, variable: &Variable, form: &str) -> Result<Option<T>> {
        self.convert(variable, form, |text| text.parse().ok())
    }

    /// `true`, `1`, `yes`, `on` or `false`, `0`, `no`, `off`, in any case.
    ///
    /// # Errors
    /// `Invalid` for any other text.
    pub fn flag(&self, variable: &Variable) -> Result<Option<bool>> {
        self.convert(variable, "true or false", |text| {
            match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Some(true),
                "false" | "0" | "no" | "off" => Some(false),
                _ => None,
            }
        })
    }

    /// A duration with its unit, such as `250ms`, `30s` or `1h 30m`.
    ///
    /// # Errors
    /// `Invalid` for a number without a unit and for any other text.
    pub fn duration(&self, variable: &Variable) -> Result<Option<Duration>> {
        self.convert(
            variable,
            "a duration with its unit, such as 250ms or 30s",
            |text| humantime::parse_duration(text).ok().filter(|_| text != "0"),
        )
    }

    /// The names that are set and start with `prefix`, but that nobody in `known` reads.
    ///
    /// A misspelt name would otherwise leave a default in force without a word.
    pub fn unknown(&self, prefix: &str, known: &[Variable]) -> Vec<&str> {
        self.values
            .keys()
            .map(String::as_str)
            .filter(|name| name.starts_with(prefix))
            .filter(|name| known.iter().all(|variable| variable.name != *name))
            .collect()
    }

    fn convert<T>(
        &self,
        variable: &Variable,
        form: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(variable)? else {
            return Ok(None);
        };
        read(text).map(Some).ok_or_else(|| {
            Error::invalid(format!("{} is {text:?}, but must be {form}", variable.name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const WAIT: Variable = Variable {
        name: "COORD_WAIT",
        default: "5s",
        about: "how long to wait",
    };

    fn env(value: &str) -> Env {
        Env::from_pairs([("COORD_WAIT", value)])
    }

    #[test]
    fn a_duration_carries_its_unit() {
        assert_eq!(
            env("250ms").duration(&WAIT).expect("valid"),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            env(" 1h 30m ").duration(&WAIT).expect("valid"),
            Some(Duration::from_mins(90))
        );
        for bare in ["250", "0", "1.5", "fast"] {
            let error = env(bare).duration(&WAIT).expect_err(bare);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.message().contains("COORD_WAIT"), "{error}");
            assert!(error.message().contains(bare), "{error}");
        }
    }

    #[test]
    fn white_space_counts_as_not_set() {
        assert_eq!(env("  ").text(&WAIT).expect("valid"), None);
        assert_eq!(Env::default().duration(&WAIT).expect("valid"), None);
    }

    #[test]
    fn a_flag_takes_the_usual_words_and_nothing_else() {
        assert_eq!(env("Yes").flag(&WAIT).expect("valid"), Some(true));
        assert_eq!(env("0").flag(&WAIT).expect("valid"), Some(false));
        assert_eq!(
            env("maybe").flag(&WAIT).expect_err("refused").kind(),
            ErrorKind::Invalid
        );
    }

    #[test]
    fn a_misspelt_name_is_found_and_a_foreign_one_is_left_alone() {
        let env = Env::from_pairs([
            ("COORD_WAIT", "1s"),
            ("COORD_WIAT", "1s"),
            ("HOME", "/root"),
        ]);

        assert_eq!(env.unknown("COORD_", &[WAIT]), ["COORD_WIAT"]);
    }
}
