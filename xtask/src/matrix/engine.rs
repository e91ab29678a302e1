//! The engine's suite on other databases than those of the first row.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::End;
use crate::binaries::{self, Source};
use crate::database::{DatabaseServer, Pooler, Programs, Protocol};
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
    /// Where the server comes from; none is one that is installed, or else this system's package.
    source: Option<Source>,
    /// Options of the server.
    options: &'static [&'static str],
    way: Way,
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
        ..Variant::of(Protocol::Postgres, None)
    },
    Variant {
        name: "engine, MariaDB that refuses changes behind a snapshot",
        options: &["--innodb-snapshot-isolation=ON"],
        ..Variant::of(Protocol::Mysql, None)
    },
];

/// Those of the matrix.
pub(super) const OTHERS: &[Variant] = &[
    Variant {
        name: "engine, PostgreSQL 13",
        ..Variant::of(
            Protocol::Postgres,
            Some(Source::Npm(POSTGRES, "13.23.0-beta.16")),
        )
    },
    Variant {
        name: "engine, PostgreSQL 18",
        ..Variant::of(
            Protocol::Postgres,
            Some(Source::Npm(POSTGRES, "18.4.0-beta.17")),
        )
    },
    Variant {
        name: "engine, MariaDB 10.5",
        ..Variant::of(
            Protocol::Mysql,
            Some(Source::Debian("bullseye", "mariadb-server-core-10.5")),
        )
    },
    Variant {
        name: "engine, MariaDB 11.8",
        ..Variant::of(
            Protocol::Mysql,
            Some(Source::Debian("trixie", "mariadb-server-core")),
        )
    },
    Variant {
        name: "engine, MySQL 9",
        ..Variant::of(
            Protocol::Mysql,
            Some(Source::Debian("sid", "mysql-server-core")),
        )
    },
];

impl Variant {
    const fn of(protocol: Protocol, source: Option<Source>) -> Self {
        Self {
            name: "",
            protocol,
            source,
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
        let programs = self.programs(workspace, interrupts)?;
        let server = DatabaseServer::start(&programs, self.options, workspace, interrupts)?;
        let pooler = match self.way {
            Way::Straight => None,
            Way::Pooled => {
                let program = pgbouncer(workspace, interrupts)?;
                Some(Pooler::start(
                    &program,
                    server.port(),
                    workspace,
                    interrupts,
                )?)
            }
        };
        println!("xtask: {} at {}", server.product, server.url());
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
        Ok(End::Ran(
            outcome,
            start.elapsed(),
            server.product.to_string(),
        ))
    }

    fn programs(&self, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Programs> {
        let get =
            |source, interrupts| binaries::database(source, self.protocol, workspace, interrupts);
        if let Some(source) = self.source {
            return get(source, interrupts);
        }
        let package = match self.protocol {
            Protocol::Postgres => "postgresql",
            Protocol::Mysql => "mariadb-server-core",
        };
        Programs::installed(self.protocol).or_else(|tried| {
            let got = get(Source::DebianHere(package), interrupts);
            got.map_err(|failure| match failure {
                Failure::Missing(reason) => {
                    Failure::Missing(format!("{}; {reason}", tried.join("; ")))
                }
                failure => failure,
            })
        })
    }
}

/// The one that is installed, or else this system's package.
fn pgbouncer(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<PathBuf> {
    const NAME: &str = "pgbouncer";
    let installed = ["/usr/sbin", "/usr/local/sbin"].map(|folder| Path::new(folder).join(NAME));
    let installed = installed.into_iter().find(|path| env::is_executable(path));
    match env::find_program(NAME).or(installed) {
        Some(program) => Ok(program),
        None => binaries::program(NAME, NAME, workspace, interrupts),
    }
}
