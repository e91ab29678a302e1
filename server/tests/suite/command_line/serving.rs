//! `coord serve`, as its environment says.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command_line::stage::{Database, program};

/// What a node logs from its start to its end at this level.
fn logged(level: Option<&str>) -> String {
    let database = Database::sqlite();
    let log = database.folder.path().join("log");
    let mut command = program();
    command
        .args(["serve", "--open", "--listen", "127.0.0.1:0"])
        .env("DATABASE_URL", &database.url)
        // Which is reported.
        .env("DW_V2_MISSPELT", "1")
        .env("OTEL_METRICS_EXPORTER", "otlp")
        .stdout(Stdio::piped())
        .stderr(File::create(&log).expect("a file"));
    if let Some(level) = level {
        command.env("LOG_LEVEL", level);
    }
    let mut child = command.spawn().expect("the program");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert!(line.contains("serving http://"), "{line}");
    let id = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    kill(id, Signal::SIGTERM).expect("it lives");
    assert!(child.wait().expect("an end").success());
    fs::read_to_string(&log).expect("a log")
}

#[test]
fn a_node_logs_what_it_is_told_to() {
    let usual = logged(None);
    let nothing = logged(Some("off"));
    let much = logged(Some("debug"));

    assert!(usual.contains("engine.config.unknown_variable"), "{usual}");
    assert!(usual.contains("OTEL_METRICS_EXPORTER"), "{usual}");
    assert!(!usual.contains(r#""level":"DEBUG""#), "{usual}");
    assert_eq!(nothing, "");
    assert!(much.contains(r#""level":"DEBUG""#), "{much}");
    for line in usual.lines().chain(much.lines()) {
        assert!(
            serde_json::from_str::<serde_json::Value>(line).is_ok(),
            "{line}"
        );
    }
}

/// The status line that `coord serve` answers a request for Socket.IO by `transport` with.
fn socket_io(transport: &str) -> String {
    let database = Database::sqlite();
    let mut going = database.begin(&["serve", "--open", "--listen", "127.0.0.1:0"]);
    let line = going.line();
    let address = line.rsplit("http://").next().expect("an address");
    let mut connection = TcpStream::connect(address).expect("it listens");
    let request = format!(
        "GET /socket.io/?EIO=4&transport={transport} HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\n\
         connection: upgrade\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let sent = connection.write_all(request.as_bytes());
    sent.expect("it reads");
    let mut answer = String::new();
    let read = BufReader::new(connection).read_line(&mut answer);
    read.expect("it answers");
    answer
}

#[test]
fn a_node_takes_clients_of_socket_io_by_websocket_alone() {
    assert_eq!(
        socket_io("websocket").trim_end(),
        "HTTP/1.1 101 Switching Protocols"
    );
    assert!(socket_io("polling").starts_with("HTTP/1.1 400"));
}
