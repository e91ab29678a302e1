//! The only reader of the process environment.

mod effective;
mod variable;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use crate::{Error, Result};

pub use effective::{Effective, Source};
pub use variable::{Shown, Variable};

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

    /// What this process was called by whoever started it, for telling people what to type;
    /// nothing when that is no text.
    pub fn program() -> Option<String> {
        std::env::args_os().next()?.into_string().ok()
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

    /// This environment in which `name` is `value`, whatever it was: what a flag of a command line
    /// says wins.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.values.insert(name.into(), Some(value.into()));
        self
    }

    /// The text of `variable`, without surrounding white space.
    ///
    /// # Errors
    /// `Invalid` when the value is not UTF-8.
    pub fn text(&self, variable: &Variable) -> Result<Option<&str>> {
        Ok(self.find(variable)?.map(|(_, text)| text))
    }

    /// Under which of its names `variable` is set; the first one when it is not.
    pub fn name_of(&self, variable: &Variable) -> &'static str {
        let found = self.find(variable).ok().flatten();
        found.map_or(variable.name, |(name, _)| name)
    }

    /// The text of `variable` with the name under which it is set.
    fn find(&self, variable: &Variable) -> Result<Option<(&'static str, &str)>> {
        for name in [Some(variable.name), variable.fallback]
            .into_iter()
            .flatten()
        {
            match self.values.get(name) {
                None => {}
                Some(None) => return Err(Error::invalid(format!("{name} is not UTF-8"))),
                Some(Some(value)) => {
                    let text = value.trim();
                    if !text.is_empty() {
                        return Ok(Some((name, text)));
                    }
                }
            }
        }
        Ok(None)
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
            .filter(|name| {
                let is_read = |variable: &Variable| {
                    variable.name == *name || variable.fallback == Some(*name)
                };
                !known.iter().any(is_read)
            })
            .collect()
    }

    fn convert<T>(
        &self,
        variable: &Variable,
        form: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some((name, text)) = self.find(variable)? else {
            return Ok(None);
        };
        read(text).map(Some).ok_or_else(|| {
            let value = variable.shown.of(text);
            Error::invalid(format!("{name} is {value:?}, but must be {form}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const WAIT: Variable = Variable::new("COORD_WAIT", "5s", "how long to wait");

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
    fn the_first_name_wins_and_the_one_that_was_set_is_named() {
        const NAMED: Variable = WAIT.or("OLD_WAIT");
        let both = Env::from_pairs([("COORD_WAIT", "1s"), ("OLD_WAIT", "2s")]);
        let blank = Env::from_pairs([("COORD_WAIT", " "), ("OLD_WAIT", "fast")]);

        assert_eq!(
            both.duration(&NAMED).expect("valid"),
            Some(Duration::from_secs(1))
        );
        let error = blank.duration(&NAMED).expect_err("no duration");
        assert!(
            error.message().starts_with("OLD_WAIT is \"fast\""),
            "{error}"
        );
        assert!(both.unknown("OLD_", &[NAMED]).is_empty());
    }

    #[test]
    fn what_is_refused_is_not_shown_when_it_is_secret() {
        const PORT: Variable = Variable::new("SECRET_PORT", "", "what nobody sees").secret();
        let env = Env::from_pairs([("SECRET_PORT", "s3cret")]);

        let error = env.parsed::<u16>(&PORT, "a port").expect_err("no port");

        assert!(!error.message().contains("s3cret"), "{error}");
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
