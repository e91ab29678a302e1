//! The programs of a database server: where they are, and how they are called.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Protocol;
use crate::env;
use crate::error::{Failure, Result};

/// Clients that a server of ours lets in: more than the tests of a large machine open at once.
const CLIENTS: u32 = 1000;

/// Where servers are put that `PATH` seldom has; `*` stands for any one name.
const FOLDERS: [&str; 7] = [
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/libexec",
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/*/bin",
    "/usr/local/opt/*/bin",
];

/// The scripts from which `MariaDB` makes its system tables.
const SYSTEM_TABLES: [&str; 3] = [
    "system_tables.sql",
    "performance_tables.sql",
    "system_tables_data.sql",
];

/// What stands before their names, in newer versions and in older ones.
const FAMILIES: [&str; 2] = ["mariadb", "mysql"];

/// An installed server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Programs {
    kind: Kind,
    pub(super) server: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Postgres {
        initdb: PathBuf,
    },
    MariaDb {
        /// Its messages and scripts.
        share: PathBuf,
    },
    Mysql {
        share: PathBuf,
    },
}

impl Programs {
    /// Those that are installed here.
    ///
    /// # Errors
    /// What was looked for and not found, as sentence parts.
    pub(crate) fn installed(protocol: Protocol) -> std::result::Result<Self, Vec<String>> {
        let mut folders = env::path();
        folders.extend(FOLDERS.iter().flat_map(|pattern| expanded(pattern)));
        let servers: &[&str] = match protocol {
            Protocol::Postgres => &["postgres"],
            Protocol::Mysql => &["mariadbd", "mysqld"],
        };
        let mut tried = Vec::new();
        for name in servers {
            let found = folders.iter().map(|folder| folder.join(name));
            let mut found = found.filter(|path| env::is_executable(path)).peekable();
            if found.peek().is_none() {
                tried.push(format!("{name} is in none of the folders of programs"));
            }
            for server in found {
                // A link's neighbours are not its program's.
                let server = server.canonicalize().unwrap_or(server);
                match Self::at(protocol, &server) {
                    Ok(programs) => return Ok(programs),
                    Err(reason) => tried.push(format!("{}: {reason}", server.display())),
                }
            }
        }
        Err(tried)
    }

    /// Those that belong to a server program, which lies where its package has it.
    ///
    /// # Errors
    /// What is missing beside it, as a sentence part.
    pub(crate) fn at(protocol: Protocol, server: &Path) -> std::result::Result<Self, String> {
        let folder = server.parent().unwrap_or(server);
        let kind = match protocol {
            Protocol::Postgres => {
                let initdb = folder.join("initdb");
                if !env::is_executable(&initdb) {
                    return Err("it has no initdb beside it".into());
                }
                Kind::Postgres { initdb }
            }
            Protocol::Mysql => {
                let prefix = folder.parent().unwrap_or(folder);
                Self::of_mysql(server, prefix)?
            }
        };
        Ok(Self {
            kind,
            server: server.to_owned(),
        })
    }

    /// The same, called by programs of their names in another folder.
    pub(crate) fn called_from(mut self, folder: &Path) -> Self {
        let call = |program: &mut PathBuf| {
            *program = folder.join(program.file_name().unwrap_or_default());
        };
        call(&mut self.server);
        if let Kind::Postgres { initdb } = &mut self.kind {
            call(initdb);
        }
        self
    }

    fn of_mysql(server: &Path, prefix: &Path) -> std::result::Result<Kind, String> {
        let shares = FAMILIES.map(|family| prefix.join("share").join(family));
        if let Some(share) = shares.into_iter().find(|share| script(share, 0).is_some()) {
            return Ok(Kind::MariaDb { share });
        }
        let share = ["share/mysql", "share/mysql-8.0", "share"].map(|share| prefix.join(share));
        let messages = |share: &&PathBuf| share.join("english").is_dir();
        match share.iter().find(messages) {
            Some(share) if !server.ends_with("mariadbd") => Ok(Kind::Mysql {
                share: share.clone(),
            }),
            _ => Err(format!(
                "its messages and scripts are not in {}",
                prefix.join("share").display()
            )),
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self.kind {
            Kind::Postgres { .. } => Protocol::Postgres,
            Kind::MariaDb { .. } | Kind::Mysql { .. } => Protocol::Mysql,
        }
    }

    /// The calls that make an empty database below `folder`, whose administrator has no password.
    ///
    /// # Errors
    /// `Missing` if a script of it cannot be read or written.
    pub(super) fn initialize(&self, folder: &Path) -> Result<Vec<Command>> {
        let mut command = match &self.kind {
            Kind::Postgres { initdb } => {
                let mut command = Command::new(initdb);
                command
                    .args(["--username=postgres", "--auth=trust", "--no-sync"])
                    .args(["--locale=C", "--encoding=UTF8", "--pgdata"])
                    .arg(data(folder));
                command
            }
            Kind::MariaDb { share } => {
                let script = folder.join("system.sql");
                write_system_tables(share, &script)?;
                let input =
                    File::open(&script).map_err(|cause| Failure::file("read", &script, &cause))?;
                fs::create_dir_all(data(folder))
                    .map_err(|cause| Failure::file("make the folder", folder, &cause))?;
                let mut command = self.mysql(folder, share);
                command.args(["--bootstrap", "--max-allowed-packet=8M"]);
                command.stdin(input);
                return Ok(vec![command]);
            }
            Kind::Mysql { share } => {
                let mut command = self.mysql(folder, share);
                command.arg("--initialize-insecure");
                command
            }
        };
        command.stdin(Stdio::null());
        Ok(vec![command])
    }

    /// The call that serves it at a loopback port.
    pub(super) fn serve(&self, folder: &Path, port: u16) -> Command {
        let port = port.to_string();
        let clients = CLIENTS.to_string();
        let mut command = match &self.kind {
            Kind::Postgres { .. } => {
                let mut command = Command::new(&self.server);
                command.arg("-D").arg(data(folder)).args(["-p", &port]);
                for option in [
                    "listen_addresses=127.0.0.1",
                    "unix_socket_directories=",
                    "fsync=off",
                    "synchronous_commit=off",
                    "full_page_writes=off",
                    &format!("max_connections={clients}"),
                ] {
                    command.args(["-c", option]);
                }
                command
            }
            Kind::MariaDb { share } | Kind::Mysql { share } => {
                let mut command = self.mysql(folder, share);
                command
                    .args(["--bind-address=127.0.0.1", "--port", &port])
                    // Relative to the data, because the whole path may be too long for one.
                    .args(["--socket=socket", "--pid-file=pid", "--skip-log-bin"])
                    .args(["--innodb-flush-log-at-trx-commit=0", "--max-connections"])
                    .arg(&clients);
                command
            }
        };
        if let Kind::Mysql { .. } = self.kind {
            command.arg("--mysqlx=OFF");
        }
        command.stdin(Stdio::null());
        command
    }

    fn mysql(&self, folder: &Path, share: &Path) -> Command {
        let mut command = Command::new(&self.server);
        // Has to be the first argument.
        command.arg("--no-defaults");
        let with = |name: &str, path: &Path| format!("--{name}={}", path.display());
        command.args([
            with("datadir", &data(folder)),
            with("lc-messages-dir", share),
            with("character-sets-dir", &share.join("charsets")),
            with("secure-file-priv", Path::new("")),
        ]);
        if nix::unistd::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    }
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// One of the scripts that make the system tables.
fn script(share: &Path, number: usize) -> Option<PathBuf> {
    let file = |family| share.join(format!("{family}_{}", SYSTEM_TABLES[number]));
    FAMILIES.map(file).into_iter().find(|file| file.is_file())
}

/// What the server reads while it makes its system tables.
fn write_system_tables(share: &Path, script: &Path) -> Result<()> {
    // Without the plugin of the system's users, so that root needs no password over TCP.
    let mut text = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n".to_owned();
    for (number, name) in SYSTEM_TABLES.into_iter().enumerate() {
        let file = self::script(share, number).unwrap_or_else(|| share.join(name));
        let part = fs::read_to_string(&file);
        text += &part.map_err(|cause| Failure::file("read", &file, &cause))?;
    }
    fs::write(script, text).map_err(|cause| Failure::file("write", script, &cause))
}

/// The folders that a path with at most one `*` stands for, the last ones first: those of the newest
/// versions.
fn expanded(pattern: &str) -> Vec<PathBuf> {
    let Some((start, end)) = pattern.split_once('*') else {
        return vec![pattern.into()];
    };
    let (parent, prefix) = start.rsplit_once('/').unwrap_or((".", start));
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort_by_key(|name| {
        let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        digits
            .split(|letter: char| !letter.is_ascii_digit())
            .next()
            .and_then(|number| number.parse::<u32>().ok())
    });
    let names = names.iter().rev();
    names
        .map(|name| format!("{parent}/{name}{end}").into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(path.parent().expect("it has one")).expect("room");
        fs::write(path, "").expect("room");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }

    /// A folder that goes with its test.
    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("room");
        folder
    }

    #[test]
    fn a_newer_version_comes_before_an_older_one_though_its_name_does_not() {
        let root = folder("versions");
        for version in ["9", "15", "13"] {
            fs::create_dir_all(root.join(version).join("bin")).expect("room");
        }

        let found = expanded(&format!("{}/*/bin", root.display()));

        let expected = ["15", "13", "9"].map(|version| root.join(version).join("bin"));
        fs::remove_dir_all(&root).expect("ours");
        assert_eq!(found, expected);
    }

    #[test]
    fn a_server_without_what_it_needs_beside_it_is_none() {
        let root = folder("neighbours");
        let (postgres, mysql) = (root.join("bin/postgres"), root.join("sbin/mariadbd"));
        file(&postgres, 0o755);
        file(&mysql, 0o755);
        let at = |protocol, server| Programs::at(protocol, server).is_ok();

        let before = (
            at(Protocol::Postgres, &postgres),
            at(Protocol::Mysql, &mysql),
        );
        file(&root.join("bin/initdb"), 0o755);
        let script = format!("mysql_{}", SYSTEM_TABLES[0]);
        file(&root.join("share/mysql").join(script), 0o644);
        let after = (
            at(Protocol::Postgres, &postgres),
            at(Protocol::Mysql, &mysql),
        );

        fs::remove_dir_all(&root).expect("ours");
        assert_eq!((before, after), ((false, false), (true, true)));
    }
}
