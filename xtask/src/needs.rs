//! What the tests need, and how it is provided.

mod brokers;
mod clients;
mod clock;
mod databases;
mod redis;
mod sqs;
mod ways;

use std::ffi::OsString;
use std::fmt;
use std::process::Command;

use crate::database::DatabaseServer;
use crate::docker::Container;
use crate::error::Result;
use crate::interrupt::Interrupts;
use crate::server::RedisServer;
use crate::workspace::Workspace;

pub(crate) use redis::{Server, binary as redis_binary, server as redis_server};

/// Lets the tests run though something they need is missing. Tests that need it then skip
/// themselves, which they may not when this is not `1`.
pub(crate) const ALLOW_SKIP: &str = "COORD_TEST_ALLOW_SKIP";

/// One thing the tests need. A row of [`NEEDS`] is all that another one takes.
struct Need {
    /// Finds, starts or installs it.
    provide: fn(&Workspace, &mut Interrupts) -> Result<Provided>,
    /// The variables that tell the tests about it. Those it does not set are removed, so that
    /// nothing stale from the caller's environment reaches them.
    variables: &'static [&'static str],
}

/// Everything the tests need.
const NEEDS: &[Need] = &[
    Need {
        provide: redis::provide,
        variables: redis::VARIABLES,
    },
    Need {
        provide: sqs::provide,
        variables: &[],
    },
    Need {
        provide: databases::provide,
        variables: databases::VARIABLES,
    },
    Need {
        provide: brokers::provide,
        variables: brokers::VARIABLES,
    },
    Need {
        provide: clock::provide,
        variables: clock::VARIABLES,
    },
    Need {
        provide: clients::provide,
        variables: &[],
    },
];

/// What was found or started. The servers in it live as long as it does.
#[derive(Default)]
pub(crate) struct Provided {
    /// What the tests are told.
    set: Vec<(&'static str, OsString)>,
    /// What the tests must not be told, though the caller's environment may.
    removed: Vec<&'static str>,
    /// The cargo features with which the tests use it.
    pub(crate) features: Vec<&'static str>,
    /// What was found and which way was taken, one line each.
    pub(crate) found: Vec<String>,
    /// What could not be had. Without it the tests run only where skipping is allowed.
    pub(crate) gaps: Vec<Gap>,
    /// What only some tests need, which skip themselves: the others run, and those are counted.
    pub(crate) partial: Vec<Gap>,
    servers: Vec<RedisServer>,
    containers: Vec<Container>,
    databases: Vec<DatabaseServer>,
}

impl Provided {
    /// Tells a command what the tests are told.
    pub(crate) fn tell(&self, command: &mut Command) {
        for name in &self.removed {
            command.env_remove(name);
        }
        command.envs(self.set.iter().map(|(name, value)| (name, value)));
    }
}

/// Something the tests need that could not be had.
pub(crate) struct Gap {
    /// What it is, and what needs it.
    pub(crate) what: &'static str,
    /// What was tried, and why it did not do.
    pub(crate) tried: Vec<String>,
    /// Each way to get it.
    pub(crate) ways: &'static [&'static str],
}

impl fmt::Display for Gap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\n  tried:", self.what)?;
        for tried in &self.tried {
            write!(out, "\n    {}", tried.replace('\n', "\n      "))?;
        }
        write!(out, "\n  any of these will do:")?;
        for way in self.ways {
            write!(out, "\n    {way}")?;
        }
        Ok(())
    }
}

/// Provides everything the tests need, in the order of the table.
///
/// # Errors
/// `Missing` if something that was asked for by name does not work; `Interrupted`. What merely is
/// not there is a gap, not an error.
pub(crate) fn provide(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Provided> {
    let mut all = Provided::default();
    for need in NEEDS {
        let one = (need.provide)(workspace, interrupts)?;
        let unset = need
            .variables
            .iter()
            .filter(|name| one.set.iter().all(|(set, _)| set != *name));
        all.removed.extend(unset);
        all.set.extend(one.set);
        all.features.extend(one.features);
        all.found.extend(one.found);
        all.gaps.extend(one.gaps);
        all.partial.extend(one.partial);
        all.servers.extend(one.servers);
        all.containers.extend(one.containers);
        all.databases.extend(one.databases);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_names_what_was_tried_and_each_way_out() {
        let gap = Gap {
            what: "a server",
            tried: vec!["PATH\nand more".into()],
            ways: &["buy one"],
        };

        let text = gap.to_string();

        for part in ["a server", "    PATH\n      and more", "    buy one"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}
