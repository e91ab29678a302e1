//! Looking for Redis on this machine, one way after the other.

use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::{BINARY, DOCKER, URL};
use crate::docker::{self, Container, Image};
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs::Provided;
use crate::needs::ways::Way;
use crate::resp::{self, Address, Version};
use crate::server::{self, RedisServer};
use crate::workspace::Workspace;
use crate::{apt, env};

/// The port of a server that somebody started without saying otherwise.
const STANDARD_PORT: u16 = 6379;

/// The server binary of the package `redis-tools`: one binary is all of Redis's programs, and does
/// what the name it is called by says. The package `redis-server` adds only that name and a service
/// that takes the standard port and stays.
const PACKAGED: &str = "/usr/bin/redis-check-rdb";

/// The servers that can be started, in the order they are looked for.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// One look for Redis, and what it found.
pub(super) struct Search<'task> {
    workspace: &'task Workspace,
    interrupts: &'task mut Interrupts,
    pub(super) provided: Provided,
    /// What was tried to find a server to connect to, and why it did not do.
    pub(super) tried_server: Vec<String>,
    /// The same for servers of the tests' own.
    pub(super) tried_binary: Vec<String>,
}

/// A server binary that starts.
pub(super) struct Binary {
    pub(super) path: PathBuf,
    version: Version,
}

impl<'task> Search<'task> {
    pub(super) fn new(workspace: &'task Workspace, interrupts: &'task mut Interrupts) -> Self {
        Self {
            workspace,
            interrupts,
            provided: Provided::default(),
            tried_server: Vec::new(),
            tried_binary: Vec::new(),
        }
    }

    /// The server the caller names. It works or the task fails: no other one takes its place.
    pub(super) fn named_server(&mut self) -> Result<bool> {
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
    pub(super) fn local_server(&mut self) -> Result<bool> {
        if let Err(reason) = Way::Here.is_open()? {
            self.tried_server.push(reason);
            return Ok(false);
        }
        let url = format!("redis://127.0.0.1:{STANDARD_PORT}");
        match resp::identify(&Address::local(STANDARD_PORT)) {
            Ok(found) if found.version >= Version::OLDEST => {
                self.provided
                    .found
                    .push(format!("{found} at {url}, the server that runs here"));
                self.provided.set.push((URL, url.into()));
                Ok(true)
            }
            Ok(found) => {
                let oldest = Version::OLDEST;
                self.tried_server
                    .push(format!("{url} is {found}, older than {oldest}"));
                Ok(false)
            }
            Err(reason) => {
                self.tried_server.push(format!("{url}: {reason}"));
                Ok(false)
            }
        }
    }

    /// A binary that the caller names, which then has to work, or one in `PATH`.
    pub(super) fn installed_binary(&mut self) -> Result<Option<Binary>> {
        let Some(named) = env::value(BINARY).map(PathBuf::from) else {
            self.tried_binary.push(format!("{BINARY} is not set"));
            if let Err(reason) = Way::Here.is_open()? {
                self.tried_binary.push(reason);
                return Ok(None);
            }
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

    pub(super) fn docker_answers(&mut self) -> Result<bool> {
        let open = Way::Docker.is_open()?.and_then(|()| docker::answers());
        Ok(self.is_possible(open))
    }

    /// Starts a server in a container, which proves that containers can be had. It is the one to
    /// connect to unless there is one already.
    pub(super) fn start_container(&mut self, has_server: bool) -> Result<bool> {
        eprintln!("xtask: no Redis to start here; trying one in Docker, which takes a while");
        let container = match Container::start(Image::Redis, self.workspace, self.interrupts) {
            Ok(container) => container,
            Err(Failure::Missing(reason)) => {
                self.tried_binary
                    .push(format!("Docker answers, but {reason}"));
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        };
        if !has_server {
            let url = container.url.clone();
            self.provided
                .found
                .push(format!("Redis at {url}, in Docker for this run"));
            self.provided.set.push((URL, url.into()));
            self.provided.containers.push(container);
        }
        Ok(true)
    }

    /// Has the tests start their servers in containers, as far as containers go.
    pub(super) fn use_containers(&mut self) {
        self.provided
            .found
            .push("servers that the tests start and kill: in Docker".into());
        self.provided.set.push((DOCKER, "1".into()));
        self.provided.features.push("coord-tests/docker");
    }

    /// Whether the system's packages can be installed here.
    pub(super) fn packages_can_be_had(&mut self) -> Result<bool> {
        let open = Way::Package.is_open()?;
        let open = open.and_then(|()| apt::available().map_err(Into::into));
        Ok(self.is_possible(open))
    }

    fn is_possible(&mut self, way: std::result::Result<(), String>) -> bool {
        match way {
            Ok(()) => true,
            Err(reason) => {
                self.tried_binary.push(reason);
                false
            }
        }
    }

    /// The system's package.
    pub(super) fn package(&mut self) -> Result<Option<Binary>> {
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

    pub(super) fn start_server(&mut self, binary: &Binary) -> Result<()> {
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
}

/// A URL as it may be printed: its user and password are nobody else's business.
pub(in crate::needs) fn without_login(url: &str) -> String {
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
