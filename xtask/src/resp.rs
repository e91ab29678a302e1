//! Just enough of the Redis protocol to ask a server whether it is there and what it is.

use std::fmt::{self, Write as _};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a server may take for one answer. One that is up answers within a millisecond; a
/// tunnel to a far one may need much longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The longest answer read. `INFO server` is below two thousand bytes.
const LONGEST_ANSWER: usize = 64 * 1024;

/// A version as servers print it: `7.0.15`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl Version {
    /// The oldest Redis that the crates support.
    pub(crate) const OLDEST: Self = Self(6, 2, 0);

    /// Reads `7.0.15`; what follows the third number is left out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().splitn(3, '.').map(|part| {
            part.split(|letter: char| !letter.is_ascii_digit())
                .next()
                .unwrap_or_default()
                .parse()
        });
        let mut next = || numbers.next()?.ok();
        Some(Self(next()?, next()?, next()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// What a server says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The version of Redis whose commands it has. Valkey reports 7.2.4.
    pub(crate) version: Version,
    /// The version of Valkey, when it is one.
    pub(crate) valkey: Option<Version>,
    pub(crate) process_id: Option<u32>,
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.valkey {
            Some(version) => write!(out, "Valkey {version}"),
            None => write!(out, "Redis {}", self.version),
        }
    }
}

/// Where a URL leads, as far as asking needs it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
    user: Option<String>,
    password: Option<String>,
    /// Whether the server speaks TLS, which this module does not.
    pub(crate) tls: bool,
}

impl Address {
    /// The port that Redis has when nobody says otherwise, on this machine.
    pub(crate) fn local(port: u16) -> Self {
        Self {
            host: "127.0.0.1".into(),
            port,
            user: None,
            password: None,
            tls: false,
        }
    }

    /// Reads `redis://[[USER][:PASSWORD]@]HOST[:PORT][/…]`, or the same with `rediss`.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence part.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (tls, rest) = if let Some(rest) = url.strip_prefix("redis://") {
            (false, rest)
        } else if let Some(rest) = url.strip_prefix("rediss://") {
            (true, rest)
        } else {
            return Err("it starts neither with redis:// nor with rediss://".into());
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = host_and_port(place)?;
        Ok(Self {
            host,
            port,
            user: decoded(user)?,
            password: decoded(password)?,
            tls,
        })
    }
}

fn host_and_port(place: &str) -> Result<(String, u16), String> {
    let (host, port) = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err("it names no host".into());
    }
    let port = match port {
        Some(port) => port.parse().map_err(|_| format!("{port:?} is no port"))?,
        None => 6379,
    };
    Ok((host.into(), port))
}

/// Undoes percent encoding; an empty part is none.
fn decoded(part: &str) -> Result<Option<String>, String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("a % in it is not followed by two hexadecimal digits")?);
        rest = &rest[2..];
    }
    let text = String::from_utf8(bytes).map_err(|_| "its login is not valid text")?;
    Ok((!text.is_empty()).then_some(text))
}

/// Checks that something accepts connections there.
///
/// # Errors
/// Why not, as a sentence part.
pub(crate) fn reach(address: &Address) -> Result<TcpStream, String> {
    let mut last = "its host name stands for no address".to_string();
    let addresses = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .map_err(|cause| format!("its host is not known: {cause}"))?;
    for candidate in addresses {
        match TcpStream::connect_timeout(&candidate, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(cause) => last = format!("no connection to {candidate}: {cause}"),
        }
    }
    Err(last)
}

/// Connects, logs in, sends PING, and asks what answered.
///
/// # Errors
/// Why this is no server to work with, as a sentence part.
pub(crate) fn identify(address: &Address) -> Result<Identity, String> {
    let stream = reach(address)?;
    let prepared = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    prepared.map_err(|cause| cause.to_string())?;
    let mut talk = BufReader::new(stream);
    if let Some(password) = &address.password {
        let login = match &address.user {
            Some(user) => vec!["AUTH", user, password],
            None => vec!["AUTH", password],
        };
        ask(&mut talk, &login)?;
    }
    let answer = ask(&mut talk, &["PING"])?;
    if answer != "PONG" {
        return Err(format!(
            "PING was answered with {answer:?}, so it is not Redis"
        ));
    }
    let information = ask(&mut talk, &["INFO", "server"])?;
    identity(&information).ok_or_else(|| "its INFO names no redis_version".into())
}

fn identity(information: &str) -> Option<Identity> {
    let value = |key: &str| {
        information
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
    };
    Some(Identity {
        version: Version::parse(value("redis_version")?)?,
        valkey: value("valkey_version").and_then(Version::parse),
        process_id: value("process_id").and_then(|number| number.trim().parse().ok()),
    })
}

fn ask(talk: &mut BufReader<TcpStream>, words: &[&str]) -> Result<String, String> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        // Writing to a string cannot fail.
        let _ = write!(request, "${}\r\n{word}\r\n", word.len());
    }
    let sent = talk.get_mut().write_all(request.as_bytes());
    sent.and_then(|()| answer(talk))
        .map_err(|cause| format!("{} was not answered: {cause}", words[0]))?
        .map_err(|refusal| format!("{} was refused: {refusal}", words[0]))
}

/// One answer: a line or a text; the inner error is the server's own.
fn answer(talk: &mut impl BufRead) -> io::Result<Result<String, String>> {
    let mut line = String::new();
    talk.take(LONGEST_ANSWER as u64).read_line(&mut line)?;
    let line = line.trim_end_matches(['\r', '\n']);
    let strange = || io::Error::other("the answer is not in the Redis protocol");
    match line.split_at_checked(1).ok_or_else(strange)? {
        ("+", text) => Ok(Ok(text.into())),
        ("-", text) => Ok(Err(text.into())),
        ("$", length) => {
            let length: usize = length.parse().map_err(|_| strange())?;
            if length > LONGEST_ANSWER {
                return Err(strange());
            }
            let mut text = vec![0; length + "\r\n".len()];
            talk.read_exact(&mut text)?;
            text.truncate(length);
            Ok(Ok(String::from_utf8_lossy(&text).into_owned()))
        }
        _ => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address {
            host: host.into(),
            port,
            user: None,
            password: None,
            tls: false,
        }
    }

    #[test]
    fn a_plain_url_gets_the_standard_port() {
        assert_eq!(
            Address::parse("redis://example"),
            Ok(address("example", 6379))
        );
        assert_eq!(
            Address::parse("redis://example:7000/2"),
            Ok(address("example", 7000))
        );
        assert_eq!(
            Address::parse("redis://[::1]:7000?protocol=resp3"),
            Ok(address("::1", 7000))
        );
    }

    #[test]
    fn a_login_is_decoded_and_may_contain_an_at_sign() {
        let parsed = Address::parse("rediss://ann:p%40ss@word@example").expect("a valid URL");

        assert_eq!(parsed.user.as_deref(), Some("ann"));
        assert_eq!(parsed.password.as_deref(), Some("p@ss@word"));
        assert!(parsed.tls);
    }

    #[test]
    fn a_broken_url_says_what_is_wrong() {
        for (url, part) in [
            ("http://example", "redis://"),
            ("redis://", "no host"),
            ("redis://example:none", "no port"),
            ("redis://:%4@example", "hexadecimal"),
        ] {
            let reason = Address::parse(url).expect_err(url);
            assert!(reason.contains(part), "{url}: {reason}");
        }
    }

    #[test]
    fn a_version_is_compared_by_numbers() {
        assert_eq!(Version::parse("6.2.0-rc1"), Some(Version::OLDEST));
        assert!(Version::parse("6.0.16") < Some(Version::OLDEST));
        assert!(Version::parse("10.0.0") > Some(Version::OLDEST));
        assert_eq!(Version::parse("seven"), None);
    }

    #[test]
    fn valkey_is_told_from_redis() {
        let text = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\n\
                    valkey_version:8.1.1\r\nprocess_id:17\r\n";

        let found = identity(text).expect("it names a version");

        assert_eq!(found.to_string(), "Valkey 8.1.1");
        assert_eq!(
            (found.version, found.process_id),
            (Version(7, 2, 4), Some(17))
        );
    }

    #[test]
    fn an_error_is_an_answer_and_noise_is_none() {
        let read = |text: &str| answer(&mut text.as_bytes());

        assert_eq!(read("+PONG\r\n").ok(), Some(Ok("PONG".into())));
        assert_eq!(read("$2\r\nab\r\n").ok(), Some(Ok("ab".into())));
        assert_eq!(read("-NOAUTH no\r\n").ok(), Some(Err("NOAUTH no".into())));
        for noise in [
            "",
            "HTTP/1.1 400 Bad Request\r\n",
            "$-1\r\n",
            "$99999999\r\n",
            "$4\r\nab",
        ] {
            assert!(read(noise).is_err(), "{noise:?}");
        }
    }
}
