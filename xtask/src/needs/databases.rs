//! The database servers on which the engine's stores are tested. SQLite comes with the crate.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::redis::without_login;
use super::ways::Way;
use super::{Gap, Provided};
use crate::binaries::{self, Source};
use crate::database::{DatabaseServer, Programs, Protocol};
use crate::docker::{self, Container, Image};
use crate::env;
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

pub(super) const VARIABLES: &[&str] = &["COORD_TEST_PG_URL", "COORD_TEST_MYSQL_URL"];

/// The features with which the tests know all databases, and all that carries hints.
const FEATURES: [&str; 6] = [
    "coord-engine/testing",
    "coord-engine/postgres",
    "coord-engine/mysql",
    "coord-engine/memcached",
    "coord-engine/nats",
    "coord-tests/postgres",
];

/// How long a server that was named may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(3);

/// One kind of database.
struct Database {
    protocol: Protocol,
    /// What the tests take.
    name: &'static str,
    /// Names a server, whatever runs here.
    variable: &'static str,
    image: Image,
    /// The package of Debian that has a server.
    package: &'static str,
    missing: &'static str,
    ways: &'static [&'static str],
}

const DATABASES: [Database; 2] = [
    Database {
        protocol: Protocol::Postgres,
        name: "PostgreSQL",
        variable: VARIABLES[0],
        image: Image::Postgres,
        package: "postgresql",
        missing: "a PostgreSQL server, version 13 or newer, for the tests of the engine's store",
        ways: &[
            "name one that runs: COORD_TEST_PG_URL=postgres://USER:PASSWORD@HOST:PORT (the tests \
             make databases of their own)",
            "start one on this machine, on port 5432, that lets postgres in without a password",
            "install one, which is then started and stopped for you: apt-get install postgresql, \
             dnf install postgresql-server, apk add postgresql, pacman -S postgresql, brew install \
             postgresql (on Debian this finds its own way)",
            "start Docker, or set DOCKER_HOST: a server is then started in a container",
        ],
    },
    Database {
        protocol: Protocol::Mysql,
        name: "MySQL or MariaDB",
        variable: VARIABLES[1],
        image: Image::MariaDb,
        package: "mariadb-server-core",
        missing: "a server of MariaDB or MySQL, version 10.5 or 8.0.19 or newer, for the tests of \
                  the engine's store",
        ways: &[
            "name one that runs: COORD_TEST_MYSQL_URL=mysql://USER:PASSWORD@HOST:PORT (the tests \
             make databases of their own)",
            "start one on this machine, on port 3306, that lets root in without a password",
            "install one, which is then started and stopped for you: apt-get install \
             mariadb-server, dnf install mariadb-server, apk add mariadb, pacman -S mariadb, brew \
             install mariadb (on Debian this finds its own way)",
            "start Docker, or set DOCKER_HOST: a server is then started in a container",
        ],
    },
];

/// Finds, starts or unpacks the servers: what the caller names, what runs or is installed here,
/// Docker, the system's package; in this order.
///
/// # Errors
/// `Missing` if what the caller names does not work; `Interrupted`.
pub(super) fn provide(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Provided> {
    let mut provided = Provided {
        features: FEATURES.into(),
        ..Provided::default()
    };
    for database in &DATABASES {
        let search = Search {
            database,
            workspace,
            interrupts,
            provided: &mut provided,
            tried: Vec::new(),
        };
        search.run()?;
    }
    Ok(provided)
}

/// One look for a server.
struct Search<'task> {
    database: &'task Database,
    workspace: &'task Workspace,
    interrupts: &'task mut Interrupts,
    provided: &'task mut Provided,
    /// What was tried, and why it did not do.
    tried: Vec<String>,
}

impl Search<'_> {
    fn run(mut self) -> Result<()> {
        if self.named()?
            || self.running()?
            || self.installed()?
            || self.container()?
            || self.package()?
        {
            return Ok(());
        }
        self.provided.gaps.push(Gap {
            what: self.database.missing,
            tried: self.tried,
            ways: self.database.ways,
        });
        Ok(())
    }

    /// The server the caller names. It works or the task fails: no other one takes its place.
    fn named(&mut self) -> Result<bool> {
        let Database { name, variable, .. } = *self.database;
        let Some(url) = env::text(variable)? else {
            self.tried.push(format!("{variable} is not set"));
            return Ok(false);
        };
        let shown = without_login(&url);
        // Whether it lets them in is what the tests themselves ask.
        reach(&url, self.database.protocol.standard_port()).map_err(|reason| {
            Failure::Missing(format!(
                "{variable}={shown} is no server the tests can use: {reason}\n\
                 correct it, start that server, or unset it to have one found or started"
            ))
        })?;
        self.take(&format!("{name} at {shown}, as {variable} says"), url);
        Ok(true)
    }

    /// A server that runs here anyway.
    fn running(&mut self) -> Result<bool> {
        let protocol = self.database.protocol;
        let port = protocol.standard_port();
        if self.is_closed(Way::Here)? {
            return Ok(false);
        }
        match protocol.identify(port) {
            Ok(product) => {
                let url = protocol.url(port);
                self.take(
                    &format!("{product} at {url}, the server that runs here"),
                    url,
                );
                Ok(true)
            }
            Err(reason) => {
                self.tried.push(format!("127.0.0.1:{port}: {reason}"));
                Ok(false)
            }
        }
    }

    /// A server of our own, from what is installed.
    fn installed(&mut self) -> Result<bool> {
        if Way::Here.is_open()?.is_err() {
            return Ok(false);
        }
        match Programs::installed(self.database.protocol) {
            Ok(programs) => self.start(&programs, "started for this run"),
            Err(mut reasons) => {
                self.tried.append(&mut reasons);
                Ok(false)
            }
        }
    }

    fn container(&mut self) -> Result<bool> {
        if self.is_closed(Way::Docker)? {
            return Ok(false);
        }
        if let Err(reason) = docker::answers() {
            self.tried.push(reason);
            return Ok(false);
        }
        let name = self.database.name;
        eprintln!("xtask: no {name} here; trying one in Docker, which takes a while");
        match Container::start(self.database.image, self.workspace, self.interrupts) {
            Ok(container) => {
                let url = container.url.clone();
                self.take(&format!("{name} at {url}, in Docker for this run"), url);
                self.provided.containers.push(container);
                Ok(true)
            }
            Err(Failure::Missing(reason)) => {
                self.tried.push(format!("Docker answers, but {reason}"));
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// A server of our own, from the package of this release of Debian, which is only unpacked:
    /// installed, its service would start, and stay.
    fn package(&mut self) -> Result<bool> {
        if self.is_closed(Way::Package)? {
            return Ok(false);
        }
        let Database {
            package, protocol, ..
        } = *self.database;
        let source = Source::DebianHere(package);
        match binaries::database(source, protocol, self.workspace, self.interrupts) {
            Ok(programs) => self.start(
                &programs,
                &format!("started for this run from the package {package}"),
            ),
            Err(Failure::Missing(reason)) => {
                self.tried.push(reason);
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    fn start(&mut self, programs: &Programs, how: &str) -> Result<bool> {
        match DatabaseServer::start(programs, &[], self.workspace, self.interrupts) {
            Ok(server) => {
                let url = server.url();
                self.take(&format!("{} at {url}, {how}", server.product), url);
                self.provided.databases.push(server);
                Ok(true)
            }
            Err(Failure::Missing(reason)) => {
                self.tried.push(reason);
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    fn is_closed(&mut self, way: Way) -> Result<bool> {
        Ok(match way.is_open()? {
            Ok(()) => false,
            Err(reason) => {
                self.tried.push(reason);
                true
            }
        })
    }

    fn take(&mut self, found: &str, url: String) {
        self.provided.found.push(found.to_owned());
        self.provided.set.push((self.database.variable, url.into()));
    }
}

/// Whether somebody accepts connections where a URL leads.
fn reach(url: &str, standard_port: u16) -> std::result::Result<(), String> {
    let (_, rest) = url.split_once("://").ok_or("it is no URL")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (_, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let has_port = place
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let place = match place {
        "" => format!("localhost:{standard_port}"),
        place if has_port => place.to_owned(),
        place => format!("{place}:{standard_port}"),
    };
    let mut places = place.to_socket_addrs().map_err(|cause| cause.to_string())?;
    let first = places.next().ok_or("its host has no address")?;
    let reached = TcpStream::connect_timeout(&first, PATIENCE);
    reached.map(drop).map_err(|cause| cause.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_named_server_is_reached_where_its_url_leads() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it has one").port();
        for (url, standard) in [
            (format!("postgres://ann:p@ss@127.0.0.1:{port}/db?a=b"), 1),
            ("mysql://root@127.0.0.1".into(), port),
        ] {
            assert_eq!(reach(&url, standard), Ok(()), "{url}");
        }
        drop(listener);
        assert!(reach(&format!("mysql://127.0.0.1:{port}"), 1).is_err());
        assert!(reach("127.0.0.1", port).is_err());
    }
}
