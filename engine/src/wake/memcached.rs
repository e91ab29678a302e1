//! Hints through memcached.

mod error;
mod reading;

use std::collections::BTreeMap;
use std::time::Duration;

use async_memcached::{AsciiProtocol, Client, MetaProtocol};
use coord_core::{Error, Key, KeySpace, Name, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::backend::{Backend, Ears, Kind};
use super::prefix;
use crate::store::Reply;
use error::at;
use reading::Reading;

/// How often it is read while others have news: a read is a round trip of some bytes.
const BUSY: Duration = Duration::from_millis(10);
/// How often it is read while they have none.
const IDLE: Duration = Duration::from_millis(100);
/// For how long after a message it counts as busy.
const BUSY_FOR: Duration = Duration::from_secs(3);
/// How long one call may take: far more than a round trip, and less than a look is apart from the
/// next one.
const DEADLINE: Duration = Duration::from_secs(1);
/// How many messages are read in one call.
const AT_ONCE: usize = 100;
/// How long a message stays: longer than any reader that lives is behind.
const KEPT: &str = "T60";
/// How long the version stays without a message. Each process that lives sends one every few
/// seconds, so that it goes only when all have gone.
const VERSION_KEPT: &str = "T3600";
/// The same for a version that is made by its first message.
const VERSION_MADE: &str = "N3600";

const SENDING: &str = "sending hints to memcached";
const HEARING: &str = "hearing hints from memcached";

/// Hints through memcached 1.6 or newer, over two connections of its own.
///
/// It has no subscriptions. So there is a version, a number that grows with every message, and each
/// message lies beside it for a minute under its number. A process reads the version every 10 ms
/// while others have news and every 100 ms while they have none, and then what it does not know
/// yet. When the version is gone or has gone back, since memcached was restarted, was emptied or
/// needed the room, or when a message is not there, all who wait look.
///
/// One server carries the hints of all engines, since they are few and small. It is reached over
/// IPv4 or a socket of the system, without encryption and without a login: it belongs into the same
/// private network. Engines under one prefix share the hints.
pub struct Memcached {
    address: String,
    version: Key,
    sender: Mutex<Option<Client>>,
}

impl Memcached {
    /// Through the server at `server`, `host:port` or the path of its socket, under keys that begin
    /// with `prefix`. Nothing is opened before an engine uses this; then it is tried again for as
    /// long as the server is away.
    ///
    /// # Errors
    /// `Invalid` when `server` is neither, or when `prefix` is not made of at most 100 letters,
    /// digits, hyphens, underscores, colons and dots.
    pub fn at(server: &str, prefix: &str) -> Result<Self> {
        let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
        let address = if server.starts_with('/') {
            format!("unix://{server}")
        } else if server.rsplit_once(':').is_some_and(has_port) {
            format!("tcp://{server}")
        } else {
            return Err(Error::invalid(format!(
                "memcached is at {server:?}, and must be at host:port or the path of a socket"
            )));
        };
        let keys = KeySpace::new(prefix::checked(prefix)?)?;
        Ok(Self {
            address,
            version: keys.key("wake", &[]),
            sender: Mutex::default(),
        })
    }

    async fn connect(&self, what: &'static str) -> Result<Client> {
        in_time(what, Client::new(&self.address)).await
    }

    async fn publish(&self, message: &str) -> Result<()> {
        let mut kept = self.sender.lock().await;
        let open = kept.take().filter(|client| !client.is_closed());
        let mut client = match open {
            Some(client) => client,
            None => self.connect(SENDING).await?,
        };
        let number = self.next_number(&mut client).await?;
        let key = self.message(number);
        let put = client.meta_set(key.as_str(), message, false, None, Some(&[KEPT]));
        in_time(SENDING, put).await?;
        *kept = Some(client);
        Ok(())
    }

    /// The number of a new message.
    async fn next_number(&self, client: &mut Client) -> Result<u64> {
        match self.grown(client).await {
            // What lies there is no number, so it is none of ours, and is in the way of all.
            Err(error) if error.kind() == coord_core::ErrorKind::Corrupt => {
                if client.is_closed() {
                    *client = self.connect(SENDING).await?;
                }
                in_time(SENDING, client.delete(self.version.as_str())).await?;
                self.grown(client).await
            }
            grown => grown,
        }
    }

    async fn grown(&self, client: &mut Client) -> Result<u64> {
        // Made anew it begins somewhere else, so that no reader takes it for the one before.
        let begin = format!("J{}", rand::random::<u64>() >> 16);
        let flags = ["v", VERSION_MADE, VERSION_KEPT, &begin];
        let grown = client.meta_increment(self.version.as_str(), false, None, None, Some(&flags));
        let grown = in_time(SENDING, grown).await?.and_then(|grown| grown.data);
        let number = grown.as_deref().and_then(number);
        number.ok_or_else(|| Error::corrupt(format!("{SENDING}: the version is no number")))
    }

    async fn hear(&self, ears: &Ears) -> Result<()> {
        let mut client = self.connect(HEARING).await?;
        let mut reading = Reading::begin(self.read_version(&mut client).await?);
        ears.begun();
        let mut busy_until = Instant::now();
        loop {
            let is_busy = Instant::now() < busy_until;
            tokio::time::sleep(if is_busy { BUSY } else { IDLE }).await;
            let version = self.read_version(&mut client).await?;
            let mut is_missing = reading.advance(version, Instant::now());
            for (number, text) in self.read(&mut client, &reading.awaited()).await? {
                reading.came(number);
                match text {
                    Some(text) if ears.heard(&text) => busy_until = Instant::now() + BUSY_FOR,
                    Some(_) => {}
                    None => is_missing = true,
                }
            }
            is_missing |= reading.gave_up(Instant::now());
            if is_missing {
                ears.begun();
            }
        }
    }

    /// The version; none where it is not there, or is not ours.
    async fn read_version(&self, client: &mut Client) -> Result<Option<u64>> {
        let read = client.meta_get(self.version.as_str(), false, None, Some(&["v"]));
        let read = in_time(HEARING, read).await?.and_then(|read| read.data);
        Ok(read.as_deref().and_then(number))
    }

    /// Those of `numbers` that are there; without its text what is none of ours.
    async fn read(
        &self,
        client: &mut Client,
        numbers: &[u64],
    ) -> Result<Vec<(u64, Option<String>)>> {
        let mut found = Vec::new();
        for numbers in numbers.chunks(AT_ONCE) {
            let keys = numbers
                .iter()
                .map(|number| (self.message(*number), *number));
            let keys: BTreeMap<_, _> = keys.collect();
            let wanted: Vec<_> = keys.keys().map(Key::as_str).collect();
            for read in in_time(HEARING, client.meta_get_multi(&wanted, Some(&["v"]))).await? {
                let key = read.key.and_then(|key| String::from_utf8(key).ok());
                let number = key.and_then(|read| keys.iter().find(|(key, _)| key.as_str() == read));
                if let Some((_, number)) = number {
                    let text = String::from_utf8(read.data.unwrap_or_default());
                    found.push((*number, text.ok()));
                }
            }
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        Ok(found)
    }

    fn message(&self, number: u64) -> Key {
        let name = Name::new(number.to_string()).expect("digits are a name");
        self.version.part_for("message", &name)
    }
}

/// memcached leaves spaces behind a number that has become shorter.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim_end().parse().ok()
}

/// What `call` answers within the deadline.
async fn in_time<T>(
    what: &'static str,
    call: impl Future<Output = Result<T, async_memcached::Error>>,
) -> Result<T> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(answer) => answer.map_err(at(what)),
        Err(_) => Err(Error::timeout(what)),
    }
}

impl Backend for Memcached {
    fn kind(&self) -> Kind {
        Kind::Memcached
    }

    fn send<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        Box::pin(self.publish(message))
    }

    fn listen<'a>(&'a self, ears: &'a Ears) -> Reply<'a, ()> {
        Box::pin(self.hear(ears))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_with_its_port_or_a_socket() {
        for good in ["127.0.0.1:11211", "cache.internal:1", "/run/memcached.sock"] {
            assert!(Memcached::at(good, "coord").is_ok(), "{good}");
        }
        for bad in ["", "cache", "cache:port", ":11211", "cache:70000"] {
            let error = Memcached::at(bad, "coord").err().expect(bad);
            assert_eq!(error.kind(), coord_core::ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_number_is_read_with_what_is_left_behind_it() {
        assert_eq!(number(b"99 "), Some(99));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for none in [&b""[..], b"x", b"1 2", b"\xff"] {
            assert_eq!(number(none), None);
        }
    }
}
