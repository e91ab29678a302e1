//! The servers beside Redis that carry the engine's hints. Each test starts its own, since it breaks
//! it; what is provided is the program.

use std::path::{Path, PathBuf};

use super::ways::Way;
use super::{Gap, Provided};
use crate::binaries::{self, Source};
use crate::env;
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

pub(super) const VARIABLES: &[&str] = &["COORD_TEST_MEMCACHED_BIN", "COORD_TEST_NATS_BIN"];

/// Where systems put servers, which is not in everybody's `PATH`.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/bin"];

/// One kind of server.
struct Broker {
    /// The program, which is also what its package of Debian is called.
    name: &'static str,
    variable: &'static str,
    missing: &'static str,
    ways: &'static [&'static str],
}

const BROKERS: [Broker; 2] = [
    Broker {
        name: "memcached",
        variable: VARIABLES[0],
        missing: "memcached 1.6 or newer, for the tests of the hints that it carries",
        ways: &[
            "install memcached (a package of that name nearly everywhere)",
            "set COORD_TEST_MEMCACHED_BIN to the path of memcached",
        ],
    },
    Broker {
        name: "nats-server",
        variable: VARIABLES[1],
        missing: "nats-server 2, for the tests of the hints that it carries",
        ways: &[
            "install nats-server (a package of that name on Debian, Alpine, Arch and in Homebrew)",
            "set COORD_TEST_NATS_BIN to the path of nats-server",
        ],
    },
];

/// Finds the programs, or unpacks their packages: installed, their services would start, and stay.
///
/// # Errors
/// `Missing` if the way to servers that was chosen is none; `Interrupted`. A program that was named
/// is taken as it is.
pub(super) fn provide(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Provided> {
    let mut provided = Provided::default();
    for broker in &BROKERS {
        match find(broker, workspace, interrupts)? {
            Ok((path, how)) => {
                let found = format!("hints go through {}, {how}", path.display());
                provided.found.push(found);
                provided.set.push((broker.variable, path.into_os_string()));
            }
            Err(tried) => provided.gaps.push(Gap {
                what: broker.missing,
                tried,
                ways: broker.ways,
            }),
        }
    }
    Ok(provided)
}

type Found = std::result::Result<(PathBuf, &'static str), Vec<String>>;

fn find(broker: &Broker, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Found> {
    if let Some(named) = env::text(broker.variable)? {
        return Ok(Ok((named.into(), "where you said")));
    }
    let mut tried = Vec::new();
    match Way::Here.is_open()? {
        Ok(()) => match installed(broker.name) {
            Some(path) => return Ok(Ok((path, "installed here"))),
            None => tried.push(format!(
                "no {} in PATH or {}",
                broker.name,
                FOLDERS.join(", ")
            )),
        },
        Err(reason) => tried.push(reason),
    }
    let got = match Way::Package.is_open()? {
        Ok(()) => {
            let source = Source::DebianHere(broker.name);
            binaries::program(source, broker.name, workspace, interrupts)
        }
        Err(reason) => Err(Failure::Missing(reason)),
    };
    match got {
        Ok(path) => Ok(Ok((path, "unpacked from its package"))),
        Err(Failure::Missing(reason)) => {
            tried.push(reason);
            Ok(Err(tried))
        }
        Err(failure) => Err(failure),
    }
}

fn installed(name: &str) -> Option<PathBuf> {
    let elsewhere = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let elsewhere = elsewhere.into_iter().find(|path| env::is_executable(path));
    env::find_program(name).or(elsewhere)
}
