//! A pooler in front of a `PostgreSQL` server of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Folder, Protocol, Running, TRIES, prepared, user};
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;
use crate::server::{free_port, tail};
use crate::workspace::Workspace;

/// `PgBouncer`, which gives each transaction another connection. Dropping it ends it.
pub(crate) struct Pooler {
    _running: Running,
    port: u16,
}

impl Pooler {
    /// Starts `program` in front of the server at the port `server`.
    ///
    /// # Errors
    /// `Missing` if it does not come up, with the end of its log; `Interrupted`.
    pub(crate) fn start(
        program: &Path,
        server: u16,
        workspace: &Workspace,
        interrupts: &mut Interrupts,
    ) -> Result<Self> {
        let user = user(Protocol::Postgres);
        let mut last = String::new();
        for _ in 0..TRIES {
            let port = free_port()?;
            let folder = Folder::new("pgbouncer", port, user.as_ref(), workspace)?;
            let log = folder.0.join("log");
            let settings = settings(&folder.0, port, server)?;
            let mut command = Command::new(program);
            command.arg(settings).stdin(Stdio::null());
            prepared(&mut command, &log, user.as_ref())?;
            let child = process::spawn_bound(&mut command)
                .map_err(|cause| Failure::file("start", program, &cause))?;
            let mut running = Running {
                child,
                protocol: Protocol::Postgres,
                _folder: folder,
            };
            match running.wait(port, interrupts)? {
                Ok(_) => {
                    return Ok(Self {
                        _running: running,
                        port,
                    });
                }
                Err(reason) => last = format!("{reason}\n{}", tail(&log)),
            }
        }
        Err(Failure::Missing(format!(
            "{} does not come up; the last of {TRIES} tries: {last}",
            program.display()
        )))
    }

    pub(crate) fn url(&self) -> String {
        Protocol::Postgres.url(self.port)
    }
}

/// Writes its settings, and who may use it.
fn settings(folder: &Path, port: u16, server: u16) -> Result<PathBuf> {
    let users = folder.join("users");
    let settings = folder.join("pgbouncer.ini");
    let text = format!(
        "[databases]\n\
         * = host=127.0.0.1 port={server}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = trust\n\
         auth_file = {}\n\
         pool_mode = transaction\n\
         max_client_conn = 1000\n\
         default_pool_size = 20\n\
         ignore_startup_parameters = extra_float_digits\n",
        users.display()
    );
    for (file, text) in [(&users, "\"postgres\" \"\"\n"), (&settings, &text)] {
        fs::write(file, text).map_err(|cause| Failure::file("write", file, &cause))?;
    }
    Ok(settings)
}
