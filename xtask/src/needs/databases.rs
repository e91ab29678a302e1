//! The database servers on which the engine's stores are tested.
//!
//! SQLite comes with the crate. The tests of another database are compiled where a server is named
//! or answers here; where none does, the run says so and goes on without them.

use std::process::Command;

use super::Provided;
use crate::env;
use crate::error::Result;
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

/// The store in memory, which needs nothing.
const TESTING: &str = "coord-engine/testing";

/// One kind of database.
struct Database {
    name: &'static str,
    /// Names a server, whatever runs here.
    variable: &'static str,
    /// Its tests are compiled only with this feature.
    feature: &'static str,
    /// Asks the server that the tests take by default; any of these programs will do.
    clients: &'static [&'static [&'static str]],
}

const DATABASES: [Database; 2] = [
    Database {
        name: "PostgreSQL",
        variable: "COORD_TEST_PG_URL",
        feature: "coord-engine/postgres",
        clients: &[&[
            "psql",
            "--no-psqlrc",
            "--no-password",
            "--host=127.0.0.1",
            "--username=postgres",
            "--tuples-only",
            "--no-align",
            "--command=SHOW server_version",
        ]],
    },
    Database {
        name: "MySQL or MariaDB",
        variable: "COORD_TEST_MYSQL_URL",
        feature: "coord-engine/mysql",
        clients: &[
            &["mariadb", MYSQL[0], MYSQL[1], MYSQL[2], MYSQL[3], MYSQL[4]],
            &["mysql", MYSQL[0], MYSQL[1], MYSQL[2], MYSQL[3], MYSQL[4]],
        ],
    },
];

const MYSQL: [&str; 5] = [
    "--host=127.0.0.1",
    "--user=root",
    "--connect-timeout=3",
    "--skip-column-names",
    "--execute=SELECT VERSION()",
];

/// Finds the servers that are there.
///
/// # Errors
/// `Missing` if a variable is no text.
pub(super) fn provide(_: &Workspace, _: &mut Interrupts) -> Result<Provided> {
    let mut provided = Provided {
        features: vec![TESTING],
        ..Provided::default()
    };
    for database in &DATABASES {
        let Database { name, variable, .. } = database;
        let found = match env::text(variable)? {
            Some(_) => Ok(format!("that {variable} names")),
            None => database.here(),
        };
        provided.found.push(match found {
            Ok(which) => {
                provided.features.push(database.feature);
                format!("the engine's store is tested on the {name} {which}")
            }
            Err(why) => format!(
                "the engine's store is NOT tested on {name}: {why}; start one here, or name it in \
                 {variable}"
            ),
        });
    }
    Ok(provided)
}

impl Database {
    /// The version of the server that runs here and lets the tests in, or why there is none.
    fn here(&self) -> std::result::Result<String, String> {
        let mut why = Vec::new();
        for client in self.clients {
            let [program, arguments @ ..] = client else {
                continue;
            };
            let mut command = Command::new(program);
            command.args(arguments).env("PGCONNECT_TIMEOUT", "3");
            match command.output() {
                Ok(answer) if answer.status.success() => {
                    let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
                    return Ok(format!("{version} that runs here"));
                }
                Ok(answer) => {
                    let said = String::from_utf8_lossy(&answer.stderr);
                    why.push(format!(
                        "{program}: {}",
                        said.lines().next().unwrap_or("refused")
                    ));
                }
                Err(cause) => why.push(format!("{program}: {cause}")),
            }
        }
        Err(why.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_without_a_client_is_not_here_and_says_why() {
        let database = Database {
            name: "none",
            variable: "NONE",
            feature: "none",
            clients: &[&["/nonexistent/client"], &["false"]],
        };

        let why = database.here().expect_err("there is none");

        assert!(why.contains("/nonexistent/client"), "{why}");
        assert!(why.contains("false: refused"), "{why}");
    }
}
