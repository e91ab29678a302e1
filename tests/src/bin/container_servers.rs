//! Servers in containers, for machines that have Docker and nothing else.
//!
//! Starts them, prints one line of JSON that says where they answer, and keeps them until standard
//! input closes. So whoever started this program cannot leave a container behind: when it ends,
//! however it ends, its side of the pipe closes.

use std::error::Error;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use testcontainers_modules::redis::{REDIS_PORT, Redis};
use testcontainers_modules::testcontainers::ImageExt;
use testcontainers_modules::testcontainers::runners::SyncRunner;

/// The image's own default is older than the oldest Redis that the crates support.
const REDIS_TAG: &str = "7.2-alpine";

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("error: no server in a container: {cause}");
            ExitCode::from(2)
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let redis = Redis::default().with_tag(REDIS_TAG).start()?;
    let port = redis.get_host_port_ipv4(REDIS_PORT)?;
    let host = match redis.get_host()?.to_string() {
        // The name may stand for the IPv6 address too, on which this port may be another one's.
        name if name == "localhost" => "127.0.0.1".to_string(),
        other => other,
    };

    let mut output = io::stdout().lock();
    writeln!(output, r#"{{"redis_url":"redis://{host}:{port}"}}"#)?;
    output.flush()?;

    // Nothing is ever written to it: the read ends when the other side closes.
    io::stdin().read_to_end(&mut Vec::new())?;
    redis.rm()?;
    Ok(())
}
