//! nginx in front of the nodes, with the file that operators copy.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;
use crate::server::{free_port, tail};
use crate::workspace::Workspace;

/// The file, from the root of the workspace.
const FILE: &str = "deploy/nginx/coord.conf";

/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// A running nginx. Dropping it ends it.
pub(super) struct Front {
    child: Child,
    address: SocketAddr,
}

impl Front {
    pub(super) fn start(
        program: &Path,
        nodes: &[SocketAddr],
        workspace: &Workspace,
        folder: &Path,
        interrupts: &mut Interrupts,
    ) -> Result<Self> {
        let file = workspace.root.join(FILE);
        let text =
            fs::read_to_string(&file).map_err(|cause| Failure::file("read", &file, &cause))?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let own = placed(&text, nodes, address)
            .ok_or_else(|| Failure::Red(format!("{FILE} names no three nodes, or no port")))?;
        write(folder, "coord.conf", &own)?;
        let whole = write(folder, "nginx.conf", &whole())?;
        let log = folder.join("nginx.log");
        let output = File::create(&log).map_err(|cause| Failure::file("write", &log, &cause))?;
        let mut command = Command::new(program);
        command
            .args(["-e", "stderr", "-p"])
            .arg(folder)
            .arg("-c")
            .arg(&whole)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output);
        let child = process::spawn_bound(&mut command)
            .map_err(|cause| Failure::file("start", program, &cause))?;
        let mut front = Self { child, address };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            interrupts.check()?;
            let has_ended = !matches!(front.child.try_wait(), Ok(None));
            if has_ended || Instant::now() > deadline {
                let said = tail(&log);
                return Err(Failure::Missing(format!("nginx does not come up:\n{said}")));
            }
            thread::sleep(process::POLL);
        }
        Ok(front)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // Its workers end with it when it is told to, and not when it is killed.
        process::signal_group(&self.child, Signal::SIGTERM);
        process::end_within(&mut self.child, PATIENCE);
    }
}

/// The file with its nodes and its port where these are here; nothing if it does not have them.
fn placed(text: &str, nodes: &[SocketAddr], address: SocketAddr) -> Option<String> {
    let mut text = text.to_owned();
    let mut put = |named: &str, here: String| {
        let is_there = text.contains(named);
        text = text.replace(named, &here);
        is_there.then_some(())
    };
    for (number, node) in (1..).zip(nodes) {
        put(
            &format!("server node-{number}:8080"),
            format!("server {node}"),
        )?;
    }
    put("listen 80;", format!("listen {address};"))?;
    (!text.contains("node-")).then_some(text)
}

/// What goes around it: nothing outside its folder, and nothing in the background.
fn whole() -> String {
    // Root's workers would be nobody, who may not write into this folder.
    let user = if nix::unistd::geteuid().is_root() {
        "user root;\n"
    } else {
        ""
    };
    let own: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("  {what}_temp_path temporary-{what};\n"))
        .concat();
    format!(
        "{user}daemon off;\nworker_processes 2;\npid nginx.pid;\nevents {{}}\nhttp {{\n  \
         access_log off;\n{own}  include coord.conf;\n}}\n"
    )
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    fs::write(&file, text).map_err(|cause| Failure::file("write", &file, &cause))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_operators_has_all_that_is_put_into_it() {
        let text = include_str!("../../../deploy/nginx/coord.conf");
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));

        let own = placed(text, &[at(1), at(2), at(3)], at(4)).expect("three nodes and a port");

        for part in [
            "server 127.0.0.1:1 ",
            "server 127.0.0.1:3 ",
            "listen 127.0.0.1:4;",
        ] {
            assert!(own.contains(part), "{part}: {own}");
        }
        assert_eq!(placed("listen 80;", &[at(1)], at(4)), None);
    }
}
