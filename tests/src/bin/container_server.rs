//! A server in a container, for machines that have Docker and nothing else.
//!
//! `container-server NAME` starts the server of that name, prints one line of JSON that says where
//! it answers, and keeps it until standard input closes. So whoever started this program cannot
//! leave a container behind: when it ends, however it ends, its side of the pipe closes.

use std::env;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::process::ExitCode;

use testcontainers_modules::mariadb::Mariadb;
use testcontainers_modules::postgres::Postgres;
use testcontainers_modules::redis::{REDIS_PORT, Redis};
use testcontainers_modules::testcontainers::core::IntoContainerPort;
use testcontainers_modules::testcontainers::runners::SyncRunner;
use testcontainers_modules::testcontainers::{ContainerRequest, Image, ImageExt};

/// The images' own defaults are older than the oldest servers that the crates support.
const REDIS_TAG: &str = "7.2-alpine";
const POSTGRES_TAG: &str = "17-alpine";
const MARIADB_TAG: &str = "11.4";

/// More than the tests of a large machine open at once.
const CLIENTS: &str = "max_connections=1000";

fn main() -> ExitCode {
    let name = env::args().nth(1);
    let served = match name.as_deref() {
        Some("redis") => {
            let image = Redis::default().with_tag(REDIS_TAG);
            serve(image, REDIS_PORT, "redis://")
        }
        Some("postgres") => {
            let image = Postgres::default().with_host_auth().with_tag(POSTGRES_TAG);
            let image = image.with_cmd(["postgres", "-c", "fsync=off", "-c", CLIENTS]);
            serve(image, 5432, "postgres://postgres@")
        }
        Some("mariadb") => {
            let image = Mariadb::default().with_tag(MARIADB_TAG);
            let image = image.with_cmd([format!("--{CLIENTS}")]);
            serve(image, 3306, "mysql://root@")
        }
        _ => Err("it is none of redis, postgres, mariadb".into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("error: no server in a container: {cause}");
            ExitCode::from(2)
        }
    }
}

/// Serves until standard input closes; the URL of the server begins with `scheme`.
fn serve<I: Image>(
    image: ContainerRequest<I>,
    port: u16,
    scheme: &str,
) -> Result<(), Box<dyn Error>> {
    // Ours to choose: not every engine says on which address it published one of its own choice.
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let container = image.with_mapped_port(free, port.tcp()).start()?;
    let host = match container.get_host()?.to_string() {
        // The name may stand for the IPv6 address too, on which this port may be another one's.
        name if name == "localhost" => "127.0.0.1".to_string(),
        other => other,
    };

    let mut output = io::stdout().lock();
    writeln!(output, r#"{{"url":"{scheme}{host}:{free}"}}"#)?;
    output.flush()?;

    // Nothing is ever written to it: the read ends when the other side closes.
    io::stdin().read_to_end(&mut Vec::new())?;
    container.rm()?;
    Ok(())
}
