//! Builds, over the time in which one follows another.

use crate::model::{BuildId, Namespace, Timestamp};

/// What an operator does with a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildStep {
    /// New runs are marked with it, whoever starts them.
    Promote,
    /// It is to end: its runs go on until they close, and no new ones come. Not the promoted one.
    Drain,
    /// It was a mistake: the build that it replaced is promoted again. Its runs stay with it.
    RollBack,
}

impl BuildStep {
    /// As stored of a build that is to end.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Promote => "promoted",
            Self::Drain => Ending::Draining.as_str(),
            Self::RollBack => Ending::RolledBack.as_str(),
        }
    }
}

/// A step to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildChange {
    /// The tenant.
    pub namespace: Namespace,
    /// Which build.
    pub build: BuildId,
    /// What becomes of it.
    pub step: BuildStep,
}

/// How a build is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// When its runs have.
    Draining,
    /// As a mistake.
    RolledBack,
}

impl Ending {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// Open runs of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenRuns {
    /// The build.
    pub build: BuildId,
    /// How many.
    pub runs: u64,
    /// When the first of them was started.
    pub since: Timestamp,
}

/// What is stored of the builds of a tenant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Builds {
    /// What new runs are marked with.
    pub promoted: Option<BuildId>,
    /// Those that are to end, and since when.
    pub endings: Vec<(BuildId, Ending, Timestamp)>,
    /// Those with open runs, at a cost that grows with the number of these.
    pub open: Vec<OpenRuns>,
}

/// What a step comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decided {
    /// The build is promoted, and not to end any more.
    Goes,
    /// It is the promoted one, and nothing would follow it.
    Refused,
    /// It is to end.
    Ends,
    /// It is to end, and the one that it replaced is promoted again.
    Returns,
}

impl BuildChange {
    /// What it comes to when `promoted` is, which has replaced `replaced`.
    pub(crate) fn decide(&self, promoted: Option<&str>, replaced: Option<&str>) -> Decided {
        let is_promoted = promoted == Some(self.build.as_str());
        match self.step {
            BuildStep::Promote => Decided::Goes,
            BuildStep::RollBack if is_promoted && replaced.is_some() => Decided::Returns,
            BuildStep::Drain | BuildStep::RollBack if is_promoted => Decided::Refused,
            BuildStep::Drain | BuildStep::RollBack => Decided::Ends,
        }
    }
}
