//! Which builds a process is, and which it can go on with.
//!
//! A run is marked with a build when it starts, and keeps the mark over its tasks, its children and
//! the runs that it continues as. Only a worker that supports the build claims its tasks: others
//! leave them as they are, with no attempt counted. A run without a mark suits every worker.

use std::str::FromStr;

use coord_core::{Env, Error, Result, Variable};

use crate::model::BuildId;

/// The runs that a worker can go on with, beside those without a mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Supported {
    /// Those of every build.
    All,
    /// Those of these builds.
    Only(Vec<BuildId>),
}

impl Supported {
    /// Whether a run that is marked with `build` can be gone on with.
    pub fn holds(&self, build: Option<&BuildId>) -> bool {
        match (self, build) {
            (Self::All, _) | (_, None) => true,
            (Self::Only(builds), Some(build)) => builds.contains(build),
        }
    }

    /// As shown: the builds, or `*` for all.
    pub(crate) fn words(&self) -> Vec<String> {
        match self {
            Self::All => vec!["*".to_owned()],
            Self::Only(builds) => builds.iter().map(ToString::to_string).collect(),
        }
    }
}

/// What happens to a start that no worker could go on with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FleetValidation {
    /// It waits for a worker, and is counted. The default: a worker may be on its way.
    #[default]
    Warn,
    /// It is refused while workers of its queue are there and none of them supports its build. The
    /// first worker of a queue is waited for: it never races with the first start.
    Fail,
}

impl FromStr for FleetValidation {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "warn" => Ok(Self::Warn),
            "fail" => Ok(Self::Fail),
            _ => Err(Error::invalid("no mode of fleet validation")),
        }
    }
}

/// What a process marks runs with, and which marks its workers support.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compatibility {
    current: Option<BuildId>,
    supported: Supported,
    validation: FleetValidation,
}

impl Default for Compatibility {
    /// No marks: runs that it starts suit every worker, and its workers leave marked runs to others.
    fn default() -> Self {
        Self {
            current: None,
            supported: Supported::Only(Vec::new()),
            validation: FleetValidation::default(),
        }
    }
}

impl Compatibility {
    /// Runs that it starts are marked with `current`, and its workers support that build alone.
    #[must_use]
    pub fn of(current: BuildId) -> Self {
        Self {
            supported: Supported::Only(vec![current.clone()]),
            current: Some(current),
            ..Self::default()
        }
    }

    /// Its workers support this.
    #[must_use]
    pub fn supporting(mut self, supported: Supported) -> Self {
        self.supported = supported;
        self
    }

    /// What happens to its starts that no worker could go on with.
    #[must_use]
    pub const fn validating(mut self, validation: FleetValidation) -> Self {
        self.validation = validation;
        self
    }

    /// From the environment: `DW_V2_CURRENT_COMPATIBILITY`, `DW_V2_SUPPORTED_COMPATIBILITIES` and
    /// `DW_V2_FLEET_VALIDATION_MODE`.
    ///
    /// # Errors
    /// `Invalid`, naming the variable, its value and what it must be.
    pub fn from_env(env: &Env) -> Result<Self> {
        let mut found = match env.text(&CURRENT)? {
            Some(current) => Self::of(build(env, &CURRENT, current)?),
            None => Self::default(),
        };
        if let Some(listed) = env.text(&SUPPORTED)? {
            found.supported = supported(env, listed)?;
        }
        if let Some(validation) = env.parsed(&VALIDATION, "warn or fail")? {
            found.validation = validation;
        }
        Ok(found)
    }

    /// What it marks runs with.
    pub const fn current(&self) -> Option<&BuildId> {
        self.current.as_ref()
    }

    /// What its workers support.
    pub const fn supported(&self) -> &Supported {
        &self.supported
    }

    /// What happens to its starts that no worker could go on with.
    pub const fn validation(&self) -> FleetValidation {
        self.validation
    }

    /// Whether it has to do with marks at all.
    pub(crate) fn is_marked(&self) -> bool {
        *self != Self::default()
    }

    /// The builds that a claim names; `None` for all.
    pub(crate) fn claims(&self) -> Option<Vec<BuildId>> {
        match &self.supported {
            Supported::All => None,
            Supported::Only(builds) => Some(builds.clone()),
        }
    }
}

/// `*`, or builds between commas.
fn supported(env: &Env, listed: &str) -> Result<Supported> {
    let names = listed.split(',').map(str::trim);
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    if names.contains(&"*") {
        return Ok(Supported::All);
    }
    let builds = names.into_iter().map(|name| build(env, &SUPPORTED, name));
    builds.collect::<Result<_>>().map(Supported::Only)
}

fn build(env: &Env, variable: &Variable, name: &str) -> Result<BuildId> {
    BuildId::new(name).map_err(|error| {
        let variable = env.name_of(variable);
        Error::invalid(format!("{variable} names {name:?}: {}", error.message()))
    })
}

const CURRENT: Variable = Variable::new(
    "DW_V2_CURRENT_COMPATIBILITY",
    "",
    "The build that new runs are marked with: only workers that support it go on with them. Not set: no mark, any worker.",
)
.or("WORKFLOW_V2_CURRENT_COMPATIBILITY");
const SUPPORTED: Variable = Variable::new(
    "DW_V2_SUPPORTED_COMPATIBILITIES",
    "",
    "The builds whose runs the workers of this process go on with, between commas, or `*` for all. Not set: the one of DW_V2_CURRENT_COMPATIBILITY.",
)
.or("WORKFLOW_V2_SUPPORTED_COMPATIBILITIES");
const VALIDATION: Variable = Variable::new(
    "DW_V2_FLEET_VALIDATION_MODE",
    "warn",
    "What becomes of a start whose build no live worker of its queue supports: `warn`, it waits and is counted; `fail`, it is refused.",
)
.or("WORKFLOW_V2_FLEET_VALIDATION_MODE");

/// The environment variables that [`Compatibility::from_env`] reads.
pub(crate) const VARIABLES: [Variable; 3] = [CURRENT, SUPPORTED, VALIDATION];

#[cfg(test)]
mod tests {
    use super::*;

    fn build(name: &str) -> BuildId {
        BuildId::new(name).expect("a build")
    }

    fn read(pairs: &[(&'static str, &'static str)]) -> Result<Compatibility> {
        Compatibility::from_env(&Env::from_pairs(pairs.iter().copied()))
    }

    #[test]
    fn without_a_word_runs_are_not_marked_and_marked_ones_left_to_others() {
        let none = read(&[]).expect("nothing");

        assert_eq!(none, Compatibility::default());
        assert!(none.supported().holds(None));
        assert!(!none.supported().holds(Some(&build("a"))));
        assert!(!none.is_marked());
    }

    #[test]
    fn what_is_supported_is_the_current_build_where_nothing_is_said() {
        let one = read(&[("DW_V2_CURRENT_COMPATIBILITY", "b")]).expect("a build");

        assert_eq!(one, Compatibility::of(build("b")));
        assert!(one.supported().holds(Some(&build("b"))));
        assert!(!one.supported().holds(Some(&build("a"))));
        assert!(one.supported().holds(None), "no mark suits all");
    }

    #[test]
    fn a_list_and_a_star_read_and_the_new_name_wins() {
        let list = read(&[
            ("WORKFLOW_V2_CURRENT_COMPATIBILITY", "old"),
            ("DW_V2_CURRENT_COMPATIBILITY", "b"),
            ("WORKFLOW_V2_SUPPORTED_COMPATIBILITIES", "a , b,"),
            ("DW_V2_FLEET_VALIDATION_MODE", "fail"),
        ]);
        let list = list.expect("builds");
        let all = read(&[("DW_V2_SUPPORTED_COMPATIBILITIES", "*")]).expect("all");

        assert_eq!(list.current(), Some(&build("b")));
        assert_eq!(list.claims(), Some(vec![build("a"), build("b")]));
        assert_eq!(list.validation(), FleetValidation::Fail);
        assert_eq!(all.claims(), None);
    }

    #[test]
    fn a_mode_that_is_none_is_named() {
        let error = read(&[("DW_V2_FLEET_VALIDATION_MODE", "maybe")]).expect_err("no mode");

        let text = error.to_string();
        assert!(
            text.contains("DW_V2_FLEET_VALIDATION_MODE") && text.contains("maybe"),
            "{text}"
        );
    }
}
