//! Redis for the tests: a server to connect to, and servers of their own that they start, pause and
//! kill.

mod plan;
mod search;

use std::path::PathBuf;

use super::{Gap, Provided};
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;
use plan::{Machine, Own, Shared};
use search::Search;

pub(super) use search::without_login;

const URL: &str = "COORD_TEST_REDIS_URL";
const BINARY: &str = "COORD_TEST_REDIS_BIN";
const DOCKER: &str = "COORD_TEST_DOCKER";

/// Every variable of this need.
pub(super) const VARIABLES: &[&str] = &[URL, BINARY, DOCKER];

const SERVER: &str = "a Redis server to connect to, version 6.2 or newer";
const WAYS_TO_A_SERVER: &[&str] = &[
    "name one that runs: COORD_TEST_REDIS_URL=redis://HOST:PORT (the tests use key prefixes of their own)",
    "start one on this machine, on port 6379",
    "install a binary, see below: a server is then started and stopped for you",
    "start Docker, or set DOCKER_HOST: a server is then started in a container",
];
const WAYS_TO_A_BINARY: &[&str] = &[
    "name one that is installed: COORD_TEST_REDIS_BIN=/path/to/redis-server",
    "Debian, Ubuntu: apt-get install redis-server (run as root, this finds its own way)",
    "Fedora, Alpine, Arch: dnf install valkey, apk add redis, pacman -S valkey",
    "macOS: brew install redis",
];

/// Finds, starts or installs Redis: what the caller names, what runs or is installed here, Docker,
/// the system's package; in this order.
///
/// # Errors
/// `Missing` if what the caller names does not work; `Interrupted`.
pub(super) fn provide(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Provided> {
    let mut search = Search::new(workspace, interrupts);
    let server = search.named_server()? || search.local_server()?;
    let machine = take_what_there_is(&mut search, server, Wants::Servers)?;
    Ok(with_gaps(search, machine))
}

/// What a task needs of Redis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// One plain server to connect to.
    Server,
    /// That, and servers of every kind to start and kill.
    Servers,
}

/// Finds, starts or installs what is not there, the first way that works.
fn take_what_there_is(search: &mut Search<'_>, server: bool, wants: Wants) -> Result<Machine> {
    let mut binary = search.installed_binary()?;
    let mut machine = Machine {
        server,
        binary: binary.is_some(),
        // Whoever has a binary is not asked about the rest.
        docker: binary.is_none() && search.docker_answers()?,
        packages: binary.is_none() && search.packages_can_be_had()?,
    };
    // What can be had only turns out when it is tried; each failure leaves one way less.
    let own = loop {
        let own = machine.own();
        match own {
            Own::Containers | Own::ContainersAndPackage if !search.start_container(server)? => {
                machine.docker = false;
                continue;
            }
            Own::ContainersAndPackage if wants == Wants::Server => {}
            Own::ContainersAndPackage | Own::Package if binary.is_none() => {
                binary = search.package()?;
                machine.packages = binary.is_some();
                if binary.is_none() {
                    continue;
                }
            }
            _ => {}
        }
        break own;
    };
    if matches!(own, Own::Containers | Own::ContainersAndPackage) {
        search.use_containers();
    }
    if let (Shared::Started, Some(binary)) = (machine.shared(), &binary) {
        search.start_server(binary)?;
    }
    Ok(machine)
}

/// What was found, and what could not be had.
fn with_gaps(search: Search<'_>, machine: Machine) -> Provided {
    let mut provided = search.provided;
    if machine.shared() == Shared::Nothing {
        provided.gaps.push(Gap {
            what: SERVER,
            tried: search.tried_server,
            ways: WAYS_TO_A_SERVER,
        });
    }
    match machine.own() {
        Own::Nothing => provided.gaps.push(Gap {
            what: "a Redis binary for the tests that start, pause and kill their own servers",
            tried: search.tried_binary,
            ways: WAYS_TO_A_BINARY,
        }),
        Own::Containers => provided.partial.push(Gap {
            what: "a Redis binary for the tests with TLS, replicas, Cluster or Sentinel, which \
                   containers cannot give them",
            tried: search.tried_binary,
            ways: WAYS_TO_A_BINARY,
        }),
        Own::Binary | Own::Package | Own::ContainersAndPackage => {}
    }
    provided
}

/// Finds or installs a Redis binary.
///
/// # Errors
/// `Missing` if there is none, or the one that the caller names does not work; `Interrupted`.
pub(crate) fn binary(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    let mut search = Search::new(workspace, interrupts);
    let mut found = search.installed_binary()?;
    if found.is_none() && search.packages_can_be_had()? {
        found = search.package()?;
    }
    found.map(|found| found.path).ok_or_else(|| {
        let gap = Gap {
            what: "a Redis binary to start a server from",
            tried: search.tried_binary,
            ways: WAYS_TO_A_BINARY,
        };
        Failure::Missing(gap.to_string())
    })
}

/// Finds or starts one server to connect to, for a task that breaks none; or says what was tried.
///
/// # Errors
/// `Missing` if the one that the caller names does not work; `Interrupted`.
pub(crate) fn server(
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<std::result::Result<Server, Gap>> {
    let mut search = Search::new(workspace, interrupts);
    if !(search.named_server()? || search.local_server()?)
        && take_what_there_is(&mut search, false, Wants::Server)?.shared() == Shared::Nothing
    {
        let mut tried = search.tried_server;
        tried.append(&mut search.tried_binary);
        return Ok(Err(Gap {
            what: SERVER,
            tried,
            ways: WAYS_TO_A_SERVER,
        }));
    }
    let provided = search.provided;
    let url = provided.set.iter().find(|(name, _)| *name == URL);
    let url = url.map(|(_, url)| url.to_string_lossy().into_owned());
    Ok(Ok(Server {
        url: url.expect("each way that did not fail has set it"),
        provided,
    }))
}

/// A server to connect to. One that was started ends with it.
pub(crate) struct Server {
    pub(crate) url: String,
    provided: Provided,
}

impl Server {
    /// What was found and which way was taken.
    pub(crate) fn found(&self) -> &[String] {
        &self.provided.found
    }
}
