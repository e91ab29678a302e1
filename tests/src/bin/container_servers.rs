//! Servers in containers, for machines that have Docker and nothing else.
//!
//! Starts them, prints one line of JSON that says where they answer, and keeps them until standard
//! input closes. So whoever started this program cannot leave a container behind: when it ends,
//! however it ends, its side of the pipe closes.

use std::error::Error;
use std::io::{self, Read, Write};

use testcontainers_modules::redis::{REDIS_PORT, Redis};
use testcontainers_modules::testcontainers::ImageExt;
use testcontainers_modules::testcontainers::runners::SyncRunner;

/// The image's own default is older than the oldest Redis that the crates support.
const REDIS_TAG: &str = "7.2-alpine";

fn main() -> Result<(), Box<dyn Error>> {
    let redis = Redis::default().with_tag(REDIS_TAG).start()?;
    let (host, port) = (redis.get_host()?, redis.get_host_port_ipv4(REDIS_PORT)?);

    let mut output = io::stdout().lock();
    writeln!(output, r#"{{"redis_url":"redis://{host}:{port}"}}"#)?;
    output.flush()?;

    // Nothing is ever written to it: the read ends when the other side closes.
    io::stdin().read_to_end(&mut Vec::new())?;
    redis.rm()?;
    Ok(())
}
