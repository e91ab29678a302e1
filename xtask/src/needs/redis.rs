//! Redis for the tests: a server to connect to, and a binary for the tests that start, pause and
//! kill servers of their own.

use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::{ALLOW_SKIP, Gap, Provided};
use crate::docker::{self, Containers};
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::resp::{self, Address, Version};
use crate::server::{self, RedisServer};
use crate::workspace::Workspace;
use crate::{apt, env};

const URL: &str = "COORD_TEST_REDIS_URL";
const BINARY: &str = "COORD_TEST_REDIS_BIN";
const DOCKER: &str = "COORD_TEST_DOCKER";

/// Every variable of this need.
pub(super) const VARIABLES: &[&str] = &[URL, BINARY, DOCKER];

/// The port of a server that somebody started without saying otherwise.
const STANDARD_PORT: u16 = 6379;

/// The server binary of the package `redis-tools`: one binary is all of Redis's programs, and does
/// what the name it is called by says. The package `redis-server` adds only that name and a service
/// that takes the standard port and stays.
const PACKAGED: &str = "/usr/bin/redis-check-rdb";

/// The servers that can be started, in the order they are looked for.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

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

/// Finds, starts or installs Redis: what the caller names, what runs or is installed here, the
/// system's package, Docker; in this order. Docker is last, because a container shares neither
/// files nor loopback addresses with the tests, and so cannot be every kind of server to them.
///
/// # Errors
/// `Missing` if what the caller names does not work; `Interrupted`.
pub(super) fn provide(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Provided> {
    let mut search = Search::new(workspace, interrupts);
    let has_server = search.named_server()? || search.local_server();
    if let Some(binary) = search.any_binary()? {
        if !has_server {
            search.start_server(&binary)?;
        }
    } else if search.docker_answers() {
        search.use_docker(has_server)?;
    } else {
        search.give_up(has_server);
    }
    Ok(search.provided)
}

/// Finds or installs a Redis binary.
///
/// # Errors
/// `Missing` if there is none, or the one that the caller names does not work; `Interrupted`.
pub(crate) fn binary(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    let mut search = Search::new(workspace, interrupts);
    let found = search.any_binary()?;
    found.map(|found| found.path).ok_or_else(|| {
        let gap = Gap {
            what: "a Redis binary to start a server from",
            tried: search.tried_binary,
            ways: WAYS_TO_A_BINARY,
        };
        Failure::Missing(gap.to_string())
    })
}

/// Finds or starts one server to connect to, for a task that breaks none.
///
/// # Errors
/// `Missing` if there is none, or the one that the caller names does not work; `Interrupted`.
pub(crate) fn server(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Server> {
    let mut search = Search::new(workspace, interrupts);
    if !(search.named_server()? || search.local_server()) {
        if let Some(binary) = search.any_binary()? {
            search.start_server(&binary)?;
        } else if search.docker_answers() {
            search.start_container()?;
        } else {
            let mut tried = search.tried_server;
            tried.append(&mut search.tried_binary);
            let gap = Gap {
                what: "a Redis server to connect to, version 6.2 or newer",
                tried,
                ways: WAYS_TO_A_SERVER,
            };
            return Err(Failure::Missing(gap.to_string()));
        }
    }
    let url = search.provided.set.iter().find(|(name, _)| *name == URL);
    let url = url.map(|(_, url)| url.to_string_lossy().into_owned());
    Ok(Server {
        url: url.expect("each way that did not fail has set it"),
        provided: search.provided,
    })
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

struct Search<'task> {
    workspace: &'task Workspace,
    interrupts: &'task mut Interrupts,
    provided: Provided,
    tried_server: Vec<String>,
    tried_binary: Vec<String>,
}

struct Binary {
    path: PathBuf,
    version: Version,
}

impl<'task> Search<'task> {
    fn new(workspace: &'task Workspace, interrupts: &'task mut Interrupts) -> Self {
        Self {
            workspace,
            interrupts,
            provided: Provided::default(),
            tried_server: Vec::new(),
            tried_binary: Vec::new(),
        }
    }

    /// The server the caller names. It works or the task fails: no other one takes its place.
    fn named_server(&mut self) -> Result<bool> {
        let Some(url) = env::text(URL)? else {
            self.tried_server.push(format!("{URL} is not set"));
            return Ok(false);
        };
        let refused = |reason: String| {
            Failure::Missing(format!(
                "{URL}={} is no server the tests can use: {reason}\n\
                 correct it, start that server, or unset it to have one found or started",
                without_login(&url)
            ))
        };
        let address = Address::parse(&url).map_err(refused)?;
        let what = if address.tls {
            // Whether its certificate is one to trust is what the tests themselves ask.
            resp::reach(&address).map_err(refused)?;
            "Redis over TLS (it accepts connections; PING is left to the tests)".to_string()
        } else {
            let found = resp::identify(&address).map_err(refused)?;
            if found.version < Version::OLDEST {
                return Err(refused(format!(
                    "{found} is older than {}",
                    Version::OLDEST
                )));
            }
            found.to_string()
        };
        self.provided
            .found
            .push(format!("{what} at {}, as {URL} says", without_login(&url)));
        self.provided.set.push((URL, url.into()));
        Ok(true)
    }

    /// A server that runs here anyway.
    fn local_server(&mut self) -> bool {
        let url = format!("redis://127.0.0.1:{STANDARD_PORT}");
        match resp::identify(&Address::local(STANDARD_PORT)) {
            Ok(found) if found.version >= Version::OLDEST => {
                self.provided
                    .found
                    .push(format!("{found} at {url}, the server that runs here"));
                self.provided.set.push((URL, url.into()));
                true
            }
            Ok(found) => {
                let oldest = Version::OLDEST;
                self.tried_server
                    .push(format!("{url} is {found}, older than {oldest}"));
                false
            }
            Err(reason) => {
                self.tried_server.push(format!("{url}: {reason}"));
                false
            }
        }
    }

    /// A binary that is here, or can be installed.
    fn any_binary(&mut self) -> Result<Option<Binary>> {
        match self.installed_binary()? {
            Some(found) => Ok(Some(found)),
            None => self.package(),
        }
    }

    /// A binary that the caller names, which then has to work, or one in `PATH`.
    fn installed_binary(&mut self) -> Result<Option<Binary>> {
        let Some(named) = env::value(BINARY).map(PathBuf::from) else {
            self.tried_binary.push(format!("{BINARY} is not set"));
            return Ok(self.binary_in_path());
        };
        let checked = if env::is_executable(&named) {
            server::version_of(&named)
        } else {
            Err("it is no file that can be executed".into())
        };
        let version = checked.map_err(|reason| {
            Failure::Missing(format!(
                "{BINARY}={} is no server the tests can use: {reason}\n\
                 correct it, or unset it to have one found in PATH or installed",
                named.display()
            ))
        })?;
        Ok(Some(self.found_binary(
            Binary {
                path: named,
                version,
            },
            "as COORD_TEST_REDIS_BIN says",
        )))
    }

    fn binary_in_path(&mut self) -> Option<Binary> {
        for program in PROGRAMS {
            let Some(path) = env::find_program(program) else {
                self.tried_binary.push(format!("{program} is not in PATH"));
                continue;
            };
            match server::version_of(&path) {
                Ok(version) => return Some(self.found_binary(Binary { path, version }, "in PATH")),
                Err(reason) => self
                    .tried_binary
                    .push(format!("{}: {reason}", path.display())),
            }
        }
        None
    }

    fn found_binary(&mut self, binary: Binary, how: &str) -> Binary {
        let Binary { path, version } = &binary;
        self.provided.found.push(format!(
            "servers that the tests start and kill: {} ({version}), {how}",
            path.display()
        ));
        self.provided.set.push((BINARY, path.into()));
        binary
    }

    fn docker_answers(&mut self) -> bool {
        match docker::answers() {
            Ok(()) => true,
            Err(reason) => {
                self.tried_binary.push(reason);
                false
            }
        }
    }

    fn use_docker(&mut self, has_server: bool) -> Result<()> {
        self.provided
            .found
            .push("servers that the tests start and kill: in Docker".into());
        self.provided.set.push((DOCKER, "1".into()));
        self.provided.features.push("coord-tests/docker");
        self.provided.gaps.push(Gap {
            what: "a Redis binary for the tests with TLS, replicas, Cluster or Sentinel, \
                   which containers cannot give them",
            tried: std::mem::take(&mut self.tried_binary),
            ways: WAYS_TO_A_BINARY,
        });
        // Where no test may skip itself, the gap above ends the run before it begins.
        if !has_server && env::is_on(ALLOW_SKIP) {
            self.start_container()?;
        }
        Ok(())
    }

    fn start_container(&mut self) -> Result<()> {
        eprintln!("xtask: no Redis here; starting one in Docker, which takes a while");
        let containers = Containers::start(self.workspace, self.interrupts)?;
        let url = containers.redis_url.clone();
        self.provided
            .found
            .push(format!("Redis at {url}, in Docker for this run"));
        self.provided.set.push((URL, url.into()));
        self.provided.containers.push(containers);
        Ok(())
    }

    /// The system's package, where this process may install it.
    fn package(&mut self) -> Result<Option<Binary>> {
        if let Err(reason) = apt::available() {
            self.tried_binary.push(reason.into());
            return Ok(None);
        }
        match self.packaged_binary() {
            Ok(binary) => Ok(Some(
                self.found_binary(binary, "from the package redis-tools"),
            )),
            Err(Failure::Missing(reason)) => {
                self.tried_binary.push(reason);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    fn packaged_binary(&mut self) -> Result<Binary> {
        let path = self.workspace.folder("tools")?.join("redis-server");
        if let Ok(version) = server::version_of(&path) {
            return Ok(Binary { path, version });
        }
        eprintln!("xtask: no redis-server here; installing the package redis-tools, which has it");
        apt::install("redis-tools", self.workspace, self.interrupts)?;
        if let Err(cause) = symlink(PACKAGED, &path)
            && cause.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(Failure::file("link", &path, &cause));
        }
        match server::version_of(&path) {
            Ok(version) => Ok(Binary { path, version }),
            Err(reason) => Err(Failure::Missing(format!(
                "the package redis-tools is installed, but of its {PACKAGED}: {reason}"
            ))),
        }
    }

    fn start_server(&mut self, binary: &Binary) -> Result<()> {
        let folder = self.workspace.folder("xtask")?;
        let server = RedisServer::start(&binary.path, &folder, self.interrupts)?;
        let url = server.url();
        self.provided.found.push(format!(
            "{} at {url}, started for this run",
            server.identity
        ));
        self.provided.set.push((URL, url.into()));
        self.provided.servers.push(server);
        Ok(())
    }

    fn give_up(&mut self, has_server: bool) {
        if !has_server {
            self.provided.gaps.push(Gap {
                what: "a Redis server to connect to, version 6.2 or newer",
                tried: std::mem::take(&mut self.tried_server),
                ways: WAYS_TO_A_SERVER,
            });
        }
        self.provided.gaps.push(Gap {
            what: "a Redis binary for the tests that start, pause and kill their own servers",
            tried: std::mem::take(&mut self.tried_binary),
            ways: WAYS_TO_A_BINARY,
        });
    }
}

/// A URL as it may be printed: its user and password are nobody else's business.
fn without_login(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let start = rest[..end].rfind('@').map_or(0, |at| at + 1);
            let hidden = if start > 0 { "***@" } else { "" };
            format!("{scheme}://{hidden}{}", &rest[start..])
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_url_shows_no_login() {
        assert_eq!(
            without_login("redis://ann:p@ss@host:1/2"),
            "redis://***@host:1/2"
        );
        assert_eq!(
            without_login("redis://host/2?user=a@b"),
            "redis://host/2?user=a@b"
        );
        assert_eq!(without_login("host"), "host");
    }
}
