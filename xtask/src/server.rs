//! A Redis server of our own, for as long as a task runs.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;
use crate::resp::{self, Address, Identity, Version};

/// How long a server may take to answer. It needs some 15 ms; a loaded machine a hundred times
/// that.
const START: Duration = Duration::from_secs(15);

/// How often a start is tried: another process may take the free port before the server does.
const TRIES: u32 = 3;

/// A running server without persistence, reachable from this machine only. Dropping it ends it.
pub(crate) struct RedisServer {
    child: Child,
    port: u16,
    log: PathBuf,
    /// What the server said of itself when it was up.
    pub(crate) identity: Identity,
}

impl RedisServer {
    /// Starts the binary on a free port and waits until it answers. Its log goes to `folder`.
    ///
    /// # Errors
    /// `Missing` if it does not come up, with the end of its log; `Interrupted`.
    pub(crate) fn start(binary: &Path, folder: &Path, interrupts: &mut Interrupts) -> Result<Self> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let port = free_port()?;
            let log = folder.join(format!("redis-{port}.log"));
            let mut starting = Starting {
                child: spawn(binary, folder, port, &log)?,
                log,
            };
            match starting.wait(port, interrupts)? {
                Ok(identity) => {
                    let Starting { child, log } = starting;
                    return Ok(Self {
                        child,
                        port,
                        log,
                        identity,
                    });
                }
                Err(reason) => {
                    last = format!("{reason}\n{}", tail(&starting.log));
                    starting.end();
                }
            }
        }
        Err(Failure::Missing(format!(
            "{} does not come up as a server; the last of {TRIES} tries: {last}",
            binary.display()
        )))
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It holds nothing that anybody wants to keep, so there is nothing to end gently.
        process::end_within(&mut self.child, Duration::ZERO);
        // A log that stays behind is no harm.
        let _ = fs::remove_file(&self.log);
    }
}

struct Starting {
    child: Child,
    log: PathBuf,
}

impl Starting {
    /// The outer error ends the task, the inner one this try.
    fn wait(
        &mut self,
        port: u16,
        interrupts: &mut Interrupts,
    ) -> Result<std::result::Result<Identity, String>> {
        let address = Address::local(port);
        let deadline = Instant::now() + START;
        loop {
            if let Err(interrupted) = interrupts.check() {
                self.end();
                return Err(interrupted);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Ok(Err(format!("it ended with {status}")));
            }
            match resp::identify(&address) {
                // Another server may have taken the port in between and be the one that answers.
                Ok(found) if found.process_id == Some(self.child.id()) => return Ok(Ok(found)),
                Ok(_) => return Ok(Err(format!("another server took port {port}"))),
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

    fn end(&mut self) {
        process::end_within(&mut self.child, Duration::ZERO);
    }
}

fn spawn(binary: &Path, folder: &Path, port: u16, log: &Path) -> Result<Child> {
    let output = File::create(log).map_err(|cause| Failure::file("write", log, &cause))?;
    let errors = output
        .try_clone()
        .map_err(|cause| Failure::file("write", log, &cause))?;
    let mut command = Command::new(binary);
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--dir")
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    process::spawn_bound(&mut command).map_err(|cause| Failure::file("start", binary, &cause))
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|cause| Failure::Missing(format!("no free port on the loopback address: {cause}")))
}

/// The last lines of a log, indented.
pub(crate) fn tail(log: &Path) -> String {
    const LINES: usize = 8;
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The version a server binary prints of itself.
///
/// # Errors
/// Why the binary is no use, as a sentence part.
pub(crate) fn version_of(binary: &Path) -> std::result::Result<Version, String> {
    let output = Command::new(binary)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| format!("it cannot be started: {cause}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().next().unwrap_or_default();
    let version =
        printed_version(said).ok_or_else(|| format!("what it says with --version is {said:?}"))?;
    if version < Version::OLDEST {
        return Err(format!(
            "it is version {version}, older than {}",
            Version::OLDEST
        ));
    }
    Ok(version)
}

/// Reads `Redis server v=7.0.15 sha=…`, or the same with Valkey.
fn printed_version(text: &str) -> Option<Version> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix("v="))
        .and_then(Version::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_server_print_their_version_alike() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
        let valkey = "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";

        assert_eq!(printed_version(redis), Some(Version(7, 0, 15)));
        assert_eq!(printed_version(valkey), Some(Version(8, 1, 1)));
        assert_eq!(printed_version("something else"), None);
    }
}
