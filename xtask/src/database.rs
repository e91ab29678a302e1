//! A database server of our own, for as long as a task runs.

mod ask;
mod pooler;
mod programs;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::User;

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;
use crate::server::{free_port, tail};
use crate::workspace::Workspace;

pub(crate) use ask::Product;
pub(crate) use pooler::Pooler;
pub(crate) use programs::Programs;

/// How long a server may take to answer. `MySQL` needs two seconds, a loaded machine many times that.
const START: Duration = Duration::from_mins(1);

/// How long a server may take to put its shared memory away.
const STOP: Duration = Duration::from_secs(5);

/// How often a start is tried: another process may take the free port before the server does.
const TRIES: u32 = 3;

/// Under root, what a server that will not be root cannot reach in the target folder lies here.
const ROOM: &str = "/var/cache/coord-xtask";

/// Databases that speak one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Postgres,
    /// That of `MySQL` and `MariaDB`.
    Mysql,
}

impl Protocol {
    /// The server that listens at a loopback port and lets the tests in without a password.
    ///
    /// # Errors
    /// Why there is none, as a sentence part.
    pub(crate) fn identify(self, port: u16) -> std::result::Result<Product, String> {
        ask::identify(self, port)
    }

    /// How the tests are told of the server at a loopback port.
    pub(crate) fn url(self, port: u16) -> String {
        match self {
            Self::Postgres => format!("postgres://postgres@127.0.0.1:{port}"),
            Self::Mysql => format!("mysql://root@127.0.0.1:{port}"),
        }
    }

    /// The port of a server that somebody started without saying otherwise.
    pub(crate) fn standard_port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
            Self::Mysql => 3306,
        }
    }

    /// What the folder of a server's data is called.
    fn folder(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }
}

/// A running server, reachable from this machine only. Dropping it ends it and removes its data.
///
/// Its data does not survive the machine: nobody waits for the disk.
pub(crate) struct DatabaseServer {
    _running: Running,
    protocol: Protocol,
    port: u16,
    /// What the server said of itself when it was up.
    pub(crate) product: Product,
}

impl DatabaseServer {
    /// Makes a database cluster and starts its server on a free port, with more options if any.
    ///
    /// # Errors
    /// `Missing` if it does not come up, with the end of its log; `Interrupted`.
    pub(crate) fn start(
        programs: &Programs,
        options: &[&str],
        workspace: &Workspace,
        interrupts: &mut Interrupts,
    ) -> Result<Self> {
        let protocol = programs.protocol();
        let user = user(protocol);
        let mut last = String::new();
        for _ in 0..TRIES {
            let port = free_port()?;
            let folder = Folder::new(protocol.folder(), port, user.as_ref(), workspace)?;
            let log = folder.0.join("log");
            for mut step in programs.initialize(&folder.0)? {
                if !interrupts
                    .run(prepared(&mut step, &log, user.as_ref())?)?
                    .success()
                {
                    return Err(Failure::Missing(format!(
                        "{} makes no database:\n{}",
                        step.get_program().display(),
                        tail(&log)
                    )));
                }
            }
            let mut command = programs.serve(&folder.0, port);
            command.args(options);
            prepared(&mut command, &log, user.as_ref())?;
            let child = process::spawn_bound(&mut command)
                .map_err(|cause| Failure::file("start", &programs.server, &cause))?;
            let mut running = Running {
                child,
                protocol,
                _folder: folder,
            };
            match running.wait(port, interrupts)? {
                Ok(product) => {
                    return Ok(Self {
                        _running: running,
                        protocol,
                        port,
                        product,
                    });
                }
                Err(reason) => last = format!("{reason}\n{}", tail(&log)),
            }
        }
        Err(Failure::Missing(format!(
            "{} does not come up as a server; the last of {TRIES} tries: {last}",
            programs.server.display()
        )))
    }

    pub(crate) fn url(&self) -> String {
        self.protocol.url(self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// A server process, and the folder of its data, which goes after it.
struct Running {
    child: Child,
    protocol: Protocol,
    _folder: Folder,
}

impl Running {
    /// The outer error ends the task, the inner one this try.
    fn wait(
        &mut self,
        port: u16,
        interrupts: &mut Interrupts,
    ) -> Result<std::result::Result<Product, String>> {
        let deadline = Instant::now() + START;
        loop {
            interrupts.check()?;
            let answer = self.protocol.identify(port);
            // One that lost the race for its port ends at once, so that another's answer is not
            // taken for its own.
            if let Ok(Some(status)) = self.child.try_wait() {
                return Ok(Err(format!("it ended with {status}")));
            }
            match answer {
                Ok(product) => return Ok(Ok(product)),
                Err(reason) if Instant::now() >= deadline => {
                    return Ok(Err(format!(
                        "no answer within {} s: {reason}",
                        START.as_secs()
                    )));
                }
                Err(_) => thread::sleep(process::POLL),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match self.protocol {
            // Its shared memory would outlive it.
            Protocol::Postgres => {
                process::signal_group(&self.child, Signal::SIGINT);
                process::end_within(&mut self.child, STOP);
            }
            Protocol::Mysql => process::end_within(&mut self.child, Duration::ZERO),
        }
    }
}

/// A folder that goes with its server.
struct Folder(PathBuf);

impl Folder {
    fn new(kind: &str, port: u16, user: Option<&User>, workspace: &Workspace) -> Result<Self> {
        let name = format!("{kind}-{port}");
        let folder = room(workspace, "databases")?.join(name);
        let failed = |cause: std::io::Error| Failure::file("make the folder", &folder, &cause);
        // One of a server that was killed may lie there.
        match fs::remove_dir_all(&folder) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(cause));
            }
            _ => {}
        }
        fs::create_dir_all(&folder).map_err(failed)?;
        if let Some(user) = user {
            chown(&folder, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(failed)?;
        }
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Data that stays behind is no harm; the next server at this port removes it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A folder that a server can reach which is not root: in the target folder, if it can be.
///
/// # Errors
/// `Missing` if it cannot be made.
pub(crate) fn room(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let own = workspace.folder(name)?;
    // Whoever is not root reaches what it made itself.
    let everyone = |folder: &Path| folder.metadata().is_ok_and(|found| found.mode() & 0o1 != 0);
    if !nix::unistd::geteuid().is_root() || own.ancestors().all(everyone) {
        return Ok(own);
    }
    let folder = Path::new(ROOM).join(name);
    fs::create_dir_all(&folder)
        .map_err(|cause| Failure::file("make the folder", &folder, &cause))?;
    Ok(folder)
}

/// Whom a server runs as; as ourselves unless that is root, whom `PostgreSQL` refuses.
fn user(protocol: Protocol) -> Option<User> {
    if !nix::unistd::geteuid().is_root() || protocol == Protocol::Mysql {
        return None;
    }
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| User::from_name(name).ok().flatten())
}

/// Has a command run as `user`, and write to `log`.
fn prepared<'a>(
    command: &'a mut Command,
    log: &Path,
    user: Option<&User>,
) -> Result<&'a mut Command> {
    let failed = |cause: std::io::Error| Failure::file("write", log, &cause);
    let output = File::options().create(true).append(true).open(log);
    let output = output.map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    if let Some(user) = user {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    // Where it was called from may be closed to that user.
    command.current_dir("/").stdout(output).stderr(errors);
    Ok(command)
}
