//! The engine's suite on other databases than those of the first row.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::End;
use crate::binaries::{self, Source};
use crate::database::{DatabaseServer, Pooler, Programs, Protocol};
use crate::docker::{self, Container, Image};
use crate::env;
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::needs::ALLOW_SKIP;
use crate::test::{Counts, OBSERVED, Outcome};
use crate::workspace::Workspace;

/// The test program that has the suite.
const SUITE: &str = "conformance";

const POOLER: &str = "COORD_TEST_PG_POOLER_URL";

/// npm's packages of `PostgreSQL`.
const POSTGRES: &str = "@embedded-postgres";

/// A row.
pub(super) struct Variant {
    pub(super) name: &'static str,
    protocol: Protocol,
    origin: Origin,
    /// Options of the server.
    options: &'static [&'static str],
    way: Way,
}

/// Where a server comes from.
#[derive(Clone, Copy)]
enum Origin {
    /// It is installed, or else of this system's package.
    Here,
    From(Source),
    Docker(Image),
}

/// How the stores reach the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Straight,
    /// Through a pooler that gives each transaction another connection, and knows no named
    /// statements.
    Pooled,
}

/// Those of every run: they take seconds, and what they find no other row would.
pub(super) const ALWAYS: &[Variant] = &[
    Variant {
        name: "engine, PostgreSQL behind PgBouncer by the transaction",
        way: Way::Pooled,
        ..Variant::of(Protocol::Postgres, Origin::Here)
    },
    Variant {
        name: "engine, MariaDB that refuses changes behind a snapshot",
        options: &["--innodb-snapshot-isolation=ON"],
        ..Variant::of(Protocol::Mysql, Origin::Here)
    },
];

/// Those of the matrix.
pub(super) const OTHERS: &[Variant] = &[
    Variant {
        name: "engine, PostgreSQL 13",
        ..Variant::of(
            Protocol::Postgres,
            Origin::From(Source::Npm(POSTGRES, "13.23.0-beta.16")),
        )
    },
    Variant {
        name: "engine, PostgreSQL 18",
        ..Variant::of(
            Protocol::Postgres,
            Origin::From(Source::Npm(POSTGRES, "18.4.0-beta.17")),
        )
    },
    Variant {
        // Without JSON_TABLE and SKIP LOCKED.
        name: "engine, MariaDB 10.5",
        ..Variant::of(
            Protocol::Mysql,
            Origin::From(Source::Debian("bullseye", "mariadb-server-core-10.5")),
        )
    },
    Variant {
        name: "engine, MariaDB 11.8",
        ..Variant::of(
            Protocol::Mysql,
            Origin::From(Source::Debian("trixie", "mariadb-server-core")),
        )
    },
    Variant {
        name: "engine, MySQL 9",
        ..Variant::of(
            Protocol::Mysql,
            Origin::From(Source::Debian("sid", "mysql-server-core")),
        )
    },
    Variant {
        name: "engine, PostgreSQL in Docker",
        ..Variant::of(Protocol::Postgres, Origin::Docker(Image::Postgres))
    },
    Variant {
        name: "engine, MariaDB in Docker",
        ..Variant::of(Protocol::Mysql, Origin::Docker(Image::MariaDb))
    },
];

impl Variant {
    const fn of(protocol: Protocol, origin: Origin) -> Self {
        Self {
            name: "",
            protocol,
            origin,
            options: &[],
            way: Way::Straight,
        }
    }

    /// Starts the server and runs the suite on it, compiled as for the first row.
    pub(super) fn run(
        &self,
        features: &[&str],
        workspace: &Workspace,
        interrupts: &mut Interrupts,
    ) -> Result<End> {
        let server = self.server(workspace, interrupts)?;
        let pooler = match (self.way, &server) {
            (Way::Pooled, Server::Process(server)) => {
                let program = pgbouncer(workspace, interrupts)?;
                Some(Pooler::start(
                    &program,
                    server.port(),
                    workspace,
                    interrupts,
                )?)
            }
            _ => None,
        };
        println!("xtask: {} at {}", server.product(), server.url());
        let observed = workspace.emptied(&format!("matrix/{}", self.name.replace(' ', "-")))?;
        let (variable, tests) = match self.protocol {
            Protocol::Postgres => ("COORD_TEST_PG_URL", "postgres::"),
            Protocol::Mysql => ("COORD_TEST_MYSQL_URL", "mysql::"),
        };
        let mut command = workspace.cargo();
        command.args(["test", "--workspace"]);
        for feature in features {
            command.args(["--features", feature]);
        }
        command
            .args(["--test", SUITE, "--", tests])
            .env(variable, server.url())
            .env(OBSERVED, &observed)
            // The server is there.
            .env_remove(ALLOW_SKIP);
        if let Some(pooler) = &pooler {
            command.env(POOLER, pooler.url());
        }
        let (start, mut counts) = (Instant::now(), Counts::default());
        let status = interrupts.run_heard(&mut command, |line| counts.hear(line))?;
        let outcome = Outcome {
            counts,
            skipped: 0,
            is_green: status.success(),
        };
        Ok(End::Ran(outcome, start.elapsed(), server.product()))
    }

    fn server(&self, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Server> {
        let programs = match self.origin {
            Origin::Docker(image) => {
                docker::answers().map_err(Failure::Missing)?;
                return Container::start(image, workspace, interrupts).map(Server::Container);
            }
            Origin::From(source) => {
                binaries::database(source, self.protocol, workspace, interrupts)?
            }
            Origin::Here => self.programs(workspace, interrupts)?,
        };
        let started = DatabaseServer::start(&programs, self.options, workspace, interrupts);
        started.map(Server::Process)
    }

    /// Those that are installed, or else of this system's package.
    fn programs(&self, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Programs> {
        let package = match self.protocol {
            Protocol::Postgres => "postgresql",
            Protocol::Mysql => "mariadb-server-core",
        };
        Programs::installed(self.protocol).or_else(|tried| {
            let source = Source::DebianHere(package);
            let got = binaries::database(source, self.protocol, workspace, interrupts);
            got.map_err(|failure| match failure {
                Failure::Missing(reason) => {
                    Failure::Missing(format!("{}; {reason}", tried.join("; ")))
                }
                failure => failure,
            })
        })
    }
}

/// A server that ends with it.
enum Server {
    Process(DatabaseServer),
    Container(Container),
}

impl Server {
    fn url(&self) -> String {
        match self {
            Self::Process(server) => server.url(),
            Self::Container(container) => container.url.clone(),
        }
    }

    /// What it is, as far as it was asked.
    fn product(&self) -> String {
        match self {
            Self::Process(server) => server.product.to_string(),
            Self::Container(_) => "in a container".into(),
        }
    }
}

/// The one that is installed, or else this system's package.
fn pgbouncer(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    const NAME: &str = "pgbouncer";
    let installed = ["/usr/sbin", "/usr/local/sbin"].map(|folder| Path::new(folder).join(NAME));
    let installed = installed.into_iter().find(|path| env::is_executable(path));
    match env::find_program(NAME).or(installed) {
        Some(program) => Ok(program),
        None => binaries::program(Source::DebianHere(NAME), NAME, workspace, interrupts),
    }
}
