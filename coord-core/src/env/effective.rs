//! What holds, for people: each variable with its value and where that comes from.

use std::fmt;

use super::{Env, Variable};

/// A setting as it holds, for people; a secret is hidden in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effective {
    /// The variable.
    pub name: &'static str,
    /// Its value as it was written; empty when nothing sets it.
    pub value: String,
    /// Where the value comes from.
    pub source: Source,
    /// Why it has no effect, where it has none.
    pub without_effect: Option<String>,
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The variable of this name, its own or its fallback.
    Variable(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Variable(name) => formatter.write_str(name),
        }
    }
}

impl Effective {
    /// Whether somebody set it.
    pub fn is_set(&self) -> bool {
        self.source != Source::Default
    }
}

impl Env {
    /// What holds for each of `variables`.
    pub fn effective(&self, variables: &[Variable]) -> Vec<Effective> {
        let effective = |variable: &Variable| {
            let (value, source) = match self.find(variable) {
                Ok(Some((name, text))) => (variable.shown.of(text), Source::Variable(name)),
                // Who reads it refuses it.
                Err(_) => ("(not UTF-8)".to_owned(), Source::Variable(variable.name)),
                Ok(None) => (variable.default.to_owned(), Source::Default),
            };
            Effective {
                name: variable.name,
                value,
                source,
                without_effect: variable.inert.map(str::to_owned),
            }
        };
        variables.iter().map(effective).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_said_with_its_source_and_without_its_secret() {
        const ALL: [Variable; 4] = [
            Variable::new("NEW_WAIT", "5s", "how long").or("OLD_WAIT"),
            Variable::new("NEW_NAME", "shop", "what for").or("OLD_NAME"),
            Variable::new("PASSWORD", "", "what nobody sees").secret(),
            Variable::new("TUNING", "1", "of another system").inert("there is nothing to tune"),
        ];
        let env = Env::from_pairs([("OLD_WAIT", "7s"), ("PASSWORD", "s3cret")]);

        let found = env.effective(&ALL);

        let rows: Vec<_> = found
            .iter()
            .map(|row| (row.name, row.value.as_str(), row.source))
            .collect();
        assert_eq!(
            rows,
            [
                ("NEW_WAIT", "7s", Source::Variable("OLD_WAIT")),
                ("NEW_NAME", "shop", Source::Default),
                ("PASSWORD", "(hidden)", Source::Variable("PASSWORD")),
                ("TUNING", "1", Source::Default),
            ]
        );
        assert!(found[3].without_effect.is_some() && !found[3].is_set());
    }
}
