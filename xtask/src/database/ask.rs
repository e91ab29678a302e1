//! Just enough of two protocols to ask a database server whether it lets the tests in, and what it
//! is.
//!
//! A client program would do, but a machine that has a server need not have one; a client library
//! is a larger tree of crates than all of this package.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::Protocol;

/// How long a server may take for one answer. One that is up answers within a millisecond.
const PATIENCE: Duration = Duration::from_secs(3);

/// The longest answer read. Greetings are below two hundred bytes.
const LONGEST_ANSWER: usize = 64 * 1024;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    name: &'static str,
    version: String,
}

impl fmt::Display for Product {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.name, self.version)
    }
}

pub(super) fn identify(protocol: Protocol, port: u16) -> Result<Product, String> {
    let failed = |cause: io::Error| cause.to_string();
    let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&place, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    match protocol {
        Protocol::Postgres => postgres(stream),
        Protocol::Mysql => mysql(stream),
    }
}

/// Logs in as `postgres` without a password.
fn postgres(mut stream: impl Read + Write) -> Result<Product, String> {
    const VERSION_3: u32 = 3 << 16;
    let user = b"user\0postgres\0database\0postgres\0\0";
    let mut hello = VERSION_3.to_be_bytes().to_vec();
    hello.extend(user);
    let length = (hello.len() as u32 + 4).to_be_bytes();
    let failed = |cause: io::Error| cause.to_string();
    stream
        .write_all(&[&length, hello.as_slice()].concat())
        .map_err(failed)?;
    let mut version = None;
    loop {
        let [kind, length @ ..] = exactly::<5>(&mut stream)?;
        let length = (u32::from_be_bytes(length) as usize).checked_sub(4);
        let body = body(&mut stream, length)?;
        match (kind, body.as_slice()) {
            (b'R', [0, 0, 0, 0, ..]) | (b'K' | b'N', _) => {}
            (b'R', _) => return Err("it asks user postgres for a password".into()),
            (b'S', setting) => {
                let mut words = setting.split(|byte| *byte == 0).map(text);
                if words.next().as_deref() == Some("server_version") {
                    version = words.next();
                }
            }
            (b'E', fields) => {
                let mut fields = fields.split(|byte| *byte == 0);
                let message = fields.find_map(|field| field.strip_prefix(b"M"));
                return Err(message.map_or_else(|| "it refuses".into(), text));
            }
            (b'Z', _) => {
                // It needs no goodbye, but notes a client that goes without one.
                let _ = stream.write_all(b"X\0\0\0\x04");
                let version = version.ok_or("it does not say its version")?;
                let name = "PostgreSQL";
                return Ok(Product { name, version });
            }
            _ => return Err("what answers there is no PostgreSQL".into()),
        }
    }
}

/// Logs in as `root` without a password.
fn mysql(mut stream: impl Read + Write) -> Result<Product, String> {
    // Protocol 4.1, secure authentication by a plugin.
    const CAPABILITIES: u32 = 0x1 | 0x200 | 0x8000 | 0x8_0000;
    const LONGEST_PACKET: u32 = 1 << 24;
    const UTF8MB4: u8 = 45;
    const NO_PASSWORD: &[u8] = b"root\0\0mysql_native_password\0";
    let (mut number, greeting) = packet(&mut stream)?;
    let version = match greeting.as_slice() {
        [10, rest @ ..] => rest.split(|byte| *byte == 0).next().unwrap_or_default(),
        [255, ..] => return Err(refusal(&greeting)),
        _ => return Err("what answers there is neither MySQL nor MariaDB".into()),
    };
    let product = product(&text(version));
    let mut answer = CAPABILITIES.to_le_bytes().to_vec();
    answer.extend(LONGEST_PACKET.to_le_bytes());
    answer.push(UTF8MB4);
    answer.extend([0; 23]);
    answer.extend(NO_PASSWORD);
    loop {
        number = number.wrapping_add(1);
        send(&mut stream, number, &answer)?;
        let said;
        (number, said) = packet(&mut stream)?;
        match said.as_slice() {
            [0, ..] => {
                // It needs no goodbye, but counts a client that goes without one.
                let _ = send(&mut stream, 0, &[1]);
                return Ok(product);
            }
            // To another plugin: for each, no password is no bytes, or one that says so.
            [254, plugin @ ..] if plugin.starts_with(b"mysql_native_password\0") => answer.clear(),
            [254, plugin @ ..] if plugin.starts_with(b"caching_sha2_password\0") => {
                answer = vec![0];
            }
            [255, ..] => return Err(refusal(&said)),
            _ => return Err("it asks user root for a password".into()),
        }
    }
}

/// `MariaDB` says first that it is `MySQL` 5.5.5, for clients that know no version above 5.
fn product(version: &str) -> Product {
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let number = version.split('-').next().unwrap_or(version).to_owned();
    let name = if version.contains("MariaDB") {
        "MariaDB"
    } else {
        "MySQL"
    };
    Product {
        name,
        version: number,
    }
}

/// From an error's number, its state and its message.
fn refusal(said: &[u8]) -> String {
    let message = said.get(3..).unwrap_or_default();
    let message = message
        .strip_prefix(b"#")
        .and_then(|rest| rest.get(5..))
        .unwrap_or(message);
    text(message)
}

fn packet(stream: &mut impl Read) -> Result<(u8, Vec<u8>), String> {
    let [low, middle, high, number] = exactly::<4>(stream)?;
    let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
    Ok((number, body(stream, Some(length))?))
}

fn send(stream: &mut impl Write, number: u8, body: &[u8]) -> Result<(), String> {
    let mut whole = (body.len() as u32).to_le_bytes().to_vec();
    whole[3] = number;
    whole.extend(body);
    stream.write_all(&whole).map_err(|cause| cause.to_string())
}

fn exactly<const N: usize>(stream: &mut impl Read) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let read = stream.read_exact(&mut bytes);
    read.map_err(|cause| format!("it says nothing that could be understood: {cause}"))?;
    Ok(bytes)
}

fn body(stream: &mut impl Read, length: Option<usize>) -> Result<Vec<u8>, String> {
    let length = length.filter(|length| *length <= LONGEST_ANSWER);
    let mut bytes = vec![0; length.ok_or("what answers there is no database server")?];
    stream
        .read_exact(&mut bytes)
        .map_err(|cause| cause.to_string())?;
    Ok(bytes)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says what it was told to, whatever it hears.
    struct Says(io::Cursor<Vec<u8>>);

    impl Read for Says {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Says {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            Ok(buffer.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn says(bytes: impl Into<Vec<u8>>) -> Says {
        Says(io::Cursor::new(bytes.into()))
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn packets(bodies: &[&[u8]]) -> Vec<u8> {
        let packet = |body: &&[u8]| [&[body.len() as u8, 0, 0, 0], *body].concat();
        bodies.iter().flat_map(packet).collect()
    }

    #[test]
    fn a_postgres_without_a_password_tells_its_version() {
        let said = [
            message(b'R', &[0, 0, 0, 0]),
            message(b'S', b"server_version\x0015.18 (Debian)\0"),
            message(b'K', &[0; 8]),
            message(b'Z', b"I"),
        ];

        let product = postgres(says(said.concat())).expect("it lets us in");

        assert_eq!(product.to_string(), "PostgreSQL 15.18 (Debian)");
    }

    #[test]
    fn a_postgres_that_lets_nobody_in_says_why() {
        for (said, part) in [
            (message(b'R', &[0, 0, 0, 10]), "password"),
            (message(b'E', b"SFATAL\0Mno such role\0\0"), "no such role"),
            (
                b"HTTP/1.0 400 Bad Request\r\n".to_vec(),
                "no database server",
            ),
            (Vec::new(), "says nothing"),
        ] {
            let reason = postgres(says(said)).expect_err(part);
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn mysql_and_mariadb_are_told_apart_also_after_a_change_of_plugin() {
        for (greeting, expected) in [
            (
                &b"\x0a5.5.5-10.11.19-MariaDB-0+deb12u1\0rest"[..],
                "MariaDB 10.11.19",
            ),
            (b"\x0a11.8.9-MariaDB\0rest", "MariaDB 11.8.9"),
            (b"\x0a9.7.4\0rest", "MySQL 9.7.4"),
        ] {
            for change in [
                &b"\xfemysql_native_password\0salt"[..],
                b"\xfecaching_sha2_password\0",
            ] {
                let product = mysql(says(packets(&[greeting, change, &[0, 0, 0]])));
                assert_eq!(product.expect("it lets us in").to_string(), expected);
            }
        }
    }

    #[test]
    fn a_mysql_that_lets_nobody_in_says_why() {
        let greeting = &b"\x0a9.7.4\0rest"[..];
        let denied = &b"\xff\x15\x04#28000Access denied"[..];
        for (said, part) in [
            (vec![greeting, denied], "Access denied"),
            (vec![&b"\xff\x10\x04Too many connections"[..]], "Too many"),
            (vec![greeting, &b"\xfedialog\0"[..]], "password"),
            (vec![&b"+OK"[..]], "neither MySQL nor MariaDB"),
        ] {
            let reason = mysql(says(packets(&said))).expect_err(part);
            assert!(reason.contains(part), "{reason}");
        }
    }
}
