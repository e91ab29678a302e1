//! Servers in containers.
//!
//! The container client is a large tree of crates. This package does not link it: a binary of the
//! package `coord-tests` does, built only when containers are really needed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::env;
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::process;
use crate::workspace::Workspace;

/// How long Docker may take to answer a ping.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long pulling the image and starting the server may take.
const START: Duration = Duration::from_mins(10);

/// How long removing the container may take.
const STOP: Duration = Duration::from_secs(30);

/// Checks that Docker answers, at `DOCKER_HOST` or at its usual socket.
///
/// # Errors
/// Why not, as a sentence part.
pub(crate) fn answers() -> std::result::Result<(), String> {
    let host = env::value("DOCKER_HOST").map(|host| host.to_string_lossy().into_owned());
    answers_at(host.as_deref().unwrap_or("unix:///var/run/docker.sock"))
}

fn answers_at(host: &str) -> std::result::Result<(), String> {
    let failed = |cause: std::io::Error| format!("Docker does not answer at {host}: {cause}");
    if let Some(path) = host.strip_prefix("unix://") {
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        ping(stream).map_err(failed)
    } else if let Some(place) = host.strip_prefix("tcp://") {
        let stream = TcpStream::connect(place.trim_end_matches('/')).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        ping(stream).map_err(failed)
    } else {
        Err(format!(
            "DOCKER_HOST is {host}, and only unix:// and tcp:// are understood here"
        ))
    }
}

fn ping(mut stream: impl Read + Write) -> std::io::Result<()> {
    stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")?;
    let mut start = [0; "HTTP/1.0 200".len()];
    stream.read_exact(&mut start)?;
    if start.ends_with(b" 200") {
        Ok(())
    } else {
        Err(std::io::Error::other(
            "something that is not Docker answers",
        ))
    }
}

/// What a container can be, by the name that the binary knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    Redis,
    Postgres,
    MariaDb,
}

impl Image {
    fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
        }
    }
}

/// A running container. Dropping it removes it.
pub(crate) struct Container {
    child: Child,
    /// Where the server in it answers.
    pub(crate) url: String,
}

impl Container {
    /// Starts a container and waits until its server answers.
    ///
    /// # Errors
    /// `Missing` if it does not come up; `Interrupted`.
    pub(crate) fn start(
        image: Image,
        workspace: &Workspace,
        interrupts: &mut Interrupts,
    ) -> Result<Self> {
        let name = image.name();
        let said = workspace
            .folder("xtask")?
            .join(format!("container-{name}.json"));
        let output = File::create(&said).map_err(|cause| Failure::file("write", &said, &cause))?;
        let build = ["--package", "coord-tests", "--features", "docker"];
        let binary = ["--bin", "container-server"];
        // Built apart, because the build may be stopped at any time and the binary may not.
        if !interrupts
            .run(workspace.cargo().arg("build").args(build).args(binary))?
            .success()
        {
            return Err(Failure::Missing(
                "the container client does not build; what cargo said stands above".into(),
            ));
        }
        let mut command = workspace.cargo();
        command
            .args(["run", "--quiet"])
            .args(build)
            .args(binary)
            .args(["--", name])
            // It removes its container when this pipe closes, also when this process is killed.
            .stdin(Stdio::piped())
            .stdout(output);
        let child = process::spawn_group(&mut command)
            .map_err(|cause| Failure::Missing(format!("cannot start cargo: {cause}")))?;
        let mut container = Self {
            child,
            url: String::new(),
        };
        let deadline = Instant::now() + START;
        loop {
            interrupts.check()?;
            let text = fs::read_to_string(&said).unwrap_or_default();
            if let Some((line, _)) = text.split_once('\n') {
                container.url = url(line)?;
                return Ok(container);
            }
            if let Ok(Some(status)) = container.child.try_wait() {
                return Err(Failure::Missing(format!(
                    "the container did not come up ({status}); what was said stands above"
                )));
            }
            if Instant::now() >= deadline {
                return Err(Failure::Missing(format!(
                    "the container did not come up within {} minutes",
                    START.as_secs() / 60
                )));
            }
            thread::sleep(process::POLL);
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        process::end_within(&mut self.child, STOP);
    }
}

fn url(line: &str) -> Result<String> {
    serde_json::from_str::<serde_json::Value>(line)
        .ok()
        .and_then(|said| Some(said.get("url")?.as_str()?.to_owned()))
        .ok_or_else(|| Failure::Missing(format!("container-server named no url but said: {line}")))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use super::*;

    fn listener() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let place = listener.local_addr().expect("it has one");
        (listener, format!("tcp://{place}"))
    }

    /// Asks an engine that says this to whatever it is asked, and hangs up.
    fn asked(answer: &[u8]) -> (String, std::result::Result<(), String>) {
        let (listener, host) = listener();
        thread::scope(|scope| {
            scope.spawn(move || {
                let (stream, _) = listener.accept()?;
                let mut asked = BufReader::new(&stream);
                while asked.read_line(&mut String::new())? > "\r\n".len() {}
                (&stream).write_all(answer)
            });
            let answers = answers_at(&host);
            (host, answers)
        })
    }

    #[test]
    fn an_engine_that_answers_its_ping_is_one() {
        let answer = b"HTTP/1.0 200 OK\r\nApi-Version: 1.47\r\n\r\nOK";

        assert_eq!(asked(answer).1, Ok(()));
    }

    #[test]
    fn what_does_not_answer_like_an_engine_is_none_and_the_reason_names_it() {
        // Nobody listens there any more.
        let (_, closed) = listener();
        let at = |host: &str| (host.to_owned(), answers_at(host));
        for ((host, answers), part) in [
            (at("unix:///nonexistent/docker.sock"), "does not answer"),
            (at(&closed), "refused"),
            (at("ssh://somewhere"), "only unix:// and tcp://"),
            (asked(b"-ERR unknown command\r\n"), "not Docker"),
            (asked(b""), "does not answer"),
        ] {
            let reason = answers.expect_err(&host);
            assert!(reason.contains(part) && reason.contains(&host), "{reason}");
        }
    }

    #[test]
    fn an_engine_that_says_nothing_is_given_up() {
        let (_silent, host) = listener();

        assert!(answers_at(&host).is_err());
    }

    #[test]
    fn the_url_is_read_from_what_the_containers_say() {
        let url = super::url(r#"{"url":"redis://127.0.0.1:32768"}"#).expect("it is there");

        assert_eq!(url, "redis://127.0.0.1:32768");
        assert!(super::url("pulling").is_err());
    }
}
