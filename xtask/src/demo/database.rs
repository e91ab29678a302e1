//! The database that the runs are kept in.

use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use crate::env;
use crate::error::{Failure, Result};

/// The variable that names it where `--database` does not.
pub(crate) const VARIABLE: &str = "DATABASE_URL";

/// How long its server may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(3);

const FORMS: &str = "sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/DATABASE or \
                     mysql://USER:PASSWORD@HOST:PORT/DATABASE";

/// A database, as the nodes are told of it.
pub(crate) struct Database {
    pub(crate) url: String,
    /// The feature with which the nodes have its driver; SQLite's is always there.
    pub(crate) feature: Option<&'static str>,
    /// Without its password.
    shown: String,
}

impl Database {
    /// The one that the caller names, or else a new file in `folder`.
    ///
    /// # Errors
    /// `Missing` if it is none that the engine runs on, or its server does not answer.
    pub(crate) fn find(argument: Option<&str>, folder: &Path) -> Result<Self> {
        let (named, by) = match argument {
            Some(url) => (Some(url.to_owned()), "--database"),
            None => (env::text(VARIABLE)?, VARIABLE),
        };
        let Some(url) = named else {
            return Ok(Self::sqlite(&folder.join("work.db").display().to_string()));
        };
        let found = Self::named(&url, by)?;
        found.reach(by)?;
        Ok(found)
    }

    fn sqlite(path: &str) -> Self {
        Self {
            url: format!("sqlite:{path}"),
            feature: None,
            shown: format!("SQLite in {path}"),
        }
    }

    fn named(url: &str, by: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let (name, feature) = match scheme {
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() || path.starts_with(':') {
                    return Err(Failure::Missing(format!(
                        "{by} names no file: the nodes share one, as in sqlite:/tmp/work.db"
                    )));
                }
                let folder = Path::new(path)
                    .parent()
                    .filter(|it| !it.as_os_str().is_empty());
                if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                    return Err(Failure::Missing(format!(
                        "{by} names a file in {}, which is no folder: make it, or name another one",
                        folder.display()
                    )));
                }
                return Ok(Self::sqlite(path));
            }
            "postgres" | "postgresql" => ("PostgreSQL", "postgres"),
            "mysql" | "mariadb" => ("MySQL or MariaDB", "mysql"),
            _ => {
                return Err(Failure::Missing(format!(
                    "{by} names a database of the kind {scheme:?}, on which the engine does not \
                     run: take {FORMS}, or leave it out for a file of SQLite"
                )));
            }
        };
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        Ok(Self {
            url: url.to_owned(),
            feature: Some(feature),
            shown: format!("{name} at {}", place.trim_start_matches('/')),
        })
    }

    /// What the run leaves in a database that others use, too, and how it goes.
    pub(crate) fn kept(&self) -> Option<String> {
        self.feature?;
        Some(format!(
            "its runs stay in {self}, in tables that begin with workflow_, activity_ and engine_: \
             drop these when nothing else of that database uses the engine"
        ))
    }

    /// The host and port of its server, where it has one.
    fn address(&self) -> Option<String> {
        let default = match self.feature? {
            "postgres" => 5432,
            _ => 3306,
        };
        let (_, rest) = self.url.split_once("://")?;
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let host = place
            .split(['/', '?'])
            .next()
            .filter(|host| !host.is_empty())?;
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit())
        });
        Some(if has_port {
            host.to_owned()
        } else {
            format!("{host}:{default}")
        })
    }

    /// Whether its server accepts connections: before anything is built for it.
    fn reach(&self, by: &str) -> Result<()> {
        let Some(address) = self.address() else {
            // A file, or a socket whose place is for the driver to find.
            return Ok(());
        };
        let unreachable = |cause: &dyn fmt::Display| {
            Failure::Missing(format!(
                "no database answers at {address}, which {by} names: {cause}\n\
                 start its server, correct the address, or leave it out for a file of SQLite"
            ))
        };
        let mut last = None;
        for address in address
            .to_socket_addrs()
            .map_err(|cause| unreachable(&cause))?
        {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(_) => return Ok(()),
                Err(cause) => last = Some(cause),
            }
        }
        Err(match last {
            Some(cause) => unreachable(&cause),
            None => unreachable(&"the name has no address"),
        })
    }
}

impl fmt::Display for Database {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let found = Database::named("postgres://ann:s3cret@db:5433/shop", "--database");

        let shown = found.expect("it is one").to_string();

        assert_eq!(shown, "PostgreSQL at db:5433/shop");
    }

    #[test]
    fn what_a_run_leaves_in_a_server_is_said_and_a_file_goes_with_its_folder() {
        let kept = |url| {
            Database::named(url, "--database")
                .expect("it is one")
                .kept()
        };

        let said = kept("mysql://ann:s3cret@db/shop").expect("tables stay");

        assert!(
            said.contains("workflow_") && !said.contains("s3cret"),
            "{said}"
        );
        assert_eq!(kept("sqlite:work.db"), None);
    }

    #[test]
    fn the_port_is_the_usual_one_unless_the_url_says_otherwise() {
        for (url, address) in [
            ("postgres://root@127.0.0.1/test", Some("127.0.0.1:5432")),
            ("mysql://root:a:b@[::1]/test", Some("[::1]:3306")),
            ("mariadb://db:3307", Some("db:3307")),
            ("postgres:///test?host=/run/postgresql", None),
            ("sqlite:work.db", None),
        ] {
            let found = Database::named(url, "--database").expect("it is one");
            assert_eq!(found.address().as_deref(), address, "{url}");
        }
    }

    #[test]
    fn what_the_engine_does_not_run_on_is_named_with_what_it_does_run_on() {
        for url in [
            "sqlite:/no such folder/work.db",
            "mssql://sa@db/shop",
            "work.db",
            "sqlite::memory:",
            "sqlite://",
        ] {
            let failure = Database::named(url, VARIABLE).err().expect(url).to_string();
            assert!(failure.contains(VARIABLE), "{failure}");
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_named_with_the_way_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let url = format!("postgres://ann:s3cret@{address}/shop");

        let found = Database::find(Some(&url), Path::new("."));

        let failure = found.err().expect("nobody listens").to_string();
        for part in [&address.to_string(), "--database", "SQLite"] {
            assert!(failure.contains(part), "{failure}");
        }
        assert!(!failure.contains("s3cret"), "{failure}");
    }
}
