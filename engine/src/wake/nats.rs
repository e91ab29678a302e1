//! Hints through NATS.

mod error;

use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use coord_core::{Error, Result};
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::backend::{Backend, Ears, Kind};
use super::prefix;
use crate::store::Reply;

/// How long one server of several may take to answer.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a message may take to leave, and a subscription to hold.
const DEADLINE: Duration = Duration::from_secs(2);

const SENDING: &str = "sending hints to NATS";
const HEARING: &str = "hearing hints from NATS";

/// Hints through one subject of NATS, `<prefix>.engine.wake`, over one connection of its own.
///
/// Messages of core NATS, which keeps nothing: no stream and no consumer has to be there. The user
/// needs the permission to publish to that subject and to subscribe to it. Engines under one prefix
/// share the subject; those on other databases cost each other a look now and then.
pub struct Nats {
    servers: Vec<ServerAddr>,
    login: Login,
    subject: String,
    /// The client of the listener, while it hears.
    client: watch::Sender<Option<Client>>,
}

/// What it says of itself where the server asks.
enum Login {
    None,
    User(String, String),
    Token(String),
}

impl Login {
    /// What stands before the host; all servers of a cluster let the same in.
    fn of_url(server: &ServerAddr) -> Option<Self> {
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = decoded(server.username()?);
        Some(match server.password() {
            Some(password) => Self::User(user, decoded(password)),
            None => Self::Token(user),
        })
    }
}

impl Nats {
    /// Through the servers at `servers`, one URL or several of one cluster with commas between:
    /// `nats://`, or `tls://` with the certificates that the system trusts, and a token or a user
    /// with a password in it where the server wants one. Nothing is opened before an engine uses
    /// this; then it is tried again for as long as they are away.
    ///
    /// # Errors
    /// `Invalid` when a URL does not read, or when `prefix` is not made of at most 100 letters,
    /// digits, hyphens, underscores, colons and dots. The URL itself is not in the message.
    pub fn at(servers: &str, prefix: &str) -> Result<Self> {
        let subject = format!("{}.engine.wake", prefix::checked(prefix)?);
        let servers = servers.split(',').map(|server| server.trim().parse());
        let servers: Result<Vec<ServerAddr>, _> = servers.collect();
        let message = "the URL of NATS must be nats://host:port or tls://host:port, or several of \
                       them with commas between";
        let servers = servers.map_err(|cause| Error::invalid(message).with_source(cause))?;
        if servers.iter().any(|server| server.host().is_empty()) {
            return Err(Error::invalid(message));
        }
        // The client itself makes nothing of it.
        let login = servers.iter().find_map(Login::of_url);
        Ok(Self {
            servers,
            login: login.unwrap_or(Login::None),
            subject,
            client: watch::Sender::new(None),
        })
    }

    /// As this user, where no URL says another one.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        if matches!(self.login, Login::None) {
            self.login = Login::User(user.into(), password.into());
        }
        self
    }

    /// With this token, where no URL says another one.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        if matches!(self.login, Login::None) {
            self.login = Login::Token(token.into());
        }
        self
    }

    /// A connection that is not made again: the link begins anew, and says that something may have
    /// been missed.
    async fn connect(&self, events: mpsc::UnboundedSender<Event>) -> Result<Client> {
        let tell = move |event| {
            // Who no longer hears has no use for it.
            _ = events.send(event);
            std::future::ready(())
        };
        let options = ConnectOptions::new()
            .name("coord-engine-wake")
            .connection_timeout(CONNECT)
            .max_reconnects(self.servers.len())
            .event_callback(tell);
        let options = match &self.login {
            Login::User(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
            Login::Token(token) => options.token(token.clone()),
            Login::None => options,
        };
        let connected = options.connect(self.servers.as_slice()).await;
        connected.map_err(error::at_connect)
    }

    async fn hear(&self, ears: &Ears) -> Result<()> {
        let (events, mut news) = mpsc::unbounded_channel();
        let client = self.connect(events).await?;
        let subscribed = client.subscribe(self.subject.clone()).await;
        let mut messages = subscribed.map_err(error::at_subscribe)?;
        // It comes back once the server has the subscription, and tells nobody of anything.
        let probe = format!("{:016x}", rand::random::<u64>());
        let sent = client.publish(self.subject.clone(), probe.clone().into());
        sent.await.map_err(error::at_publish)?;
        let holds_until = Instant::now() + DEADLINE;
        let mut hearing = None;
        loop {
            tokio::select! {
                message = messages.next() => {
                    let message = message.ok_or_else(|| Error::unavailable(ENDED))?;
                    match std::str::from_utf8(&message.payload) {
                        Ok(text) if text == probe => {
                            hearing = Some(Hearing::begin(&self.client, client.clone()));
                            ears.begun();
                        }
                        Ok(text) => _ = ears.heard(text),
                        // It may have been one of ours once.
                        Err(_) => ears.begun(),
                    }
                }
                event = news.recv() => match event {
                    Some(Event::SlowConsumer(_)) => ears.begun(),
                    Some(Event::ServerError(cause)) => return Err(error::refused(&cause)),
                    Some(Event::Disconnected | Event::Closed | Event::Draining) | None => {
                        return Err(Error::unavailable(ENDED));
                    }
                    Some(Event::Connected | Event::LameDuckMode | Event::ClientError(_)) => {}
                },
                () = tokio::time::sleep_until(holds_until), if hearing.is_none() => {
                    return Err(Error::timeout("hearing hints from NATS: the subscription does not hold"));
                }
            }
        }
    }

    async fn publish(&self, message: &str) -> Result<()> {
        let mut client = self.client.subscribe();
        // Its sender is in this backend.
        let client = match client.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(client)) => client.clone(),
            _ => return Err(Error::unavailable(SENDING)),
        };
        let sent = client.publish(self.subject.clone(), message.to_owned().into());
        sent.await.map_err(error::at_publish)?;
        client.flush().await.map_err(error::at_flush)
    }
}

const ENDED: &str = "hearing hints from NATS: the connection has ended";

/// Lends its client to who sends, for as long as the listener hears.
struct Hearing<'a>(&'a watch::Sender<Option<Client>>);

impl<'a> Hearing<'a> {
    fn begin(client: &'a watch::Sender<Option<Client>>, own: Client) -> Self {
        client.send_replace(Some(own));
        Self(client)
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

impl Backend for Nats {
    fn kind(&self) -> Kind {
        Kind::Nats
    }

    fn send<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        Box::pin(async move {
            let sent = tokio::time::timeout(DEADLINE, self.publish(message)).await;
            sent.unwrap_or_else(|_| Err(Error::timeout(SENDING)))
        })
    }

    fn listen<'a>(&'a self, ears: &'a Ears) -> Reply<'a, ()> {
        Box::pin(self.hear(ears))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_may_be_in_a_url_and_wins() {
        let nats = Nats::at("nats://a:1,nats://app:p%40ss@b:1", "coord").expect("valid");
        let nats = nats.user("other", "word");
        let is_user =
            matches!(&nats.login, Login::User(user, word) if user == "app" && word == "p@ss");
        assert!(is_user);
    }

    #[test]
    fn servers_are_urls_with_commas_between() {
        let one = Nats::at("nats://127.0.0.1:4222", "coord").expect("valid");
        assert_eq!(one.subject, "coord.engine.wake");
        let two = Nats::at("nats://a:1, tls://b:2", "shop.eu").expect("valid");
        assert_eq!(
            (two.servers.len(), two.subject.as_str()),
            (2, "shop.eu.engine.wake")
        );

        for bad in ["", "nats://", "http://user:s3cret@a", "nats://a:port"] {
            let error = Nats::at(bad, "coord").err().expect(bad);
            assert_eq!(error.kind(), coord_core::ErrorKind::Invalid);
            assert!(!format!("{error:#}").contains("s3cret"));
        }
        assert!(Nats::at("nats://a", "a.>").is_err());
    }
}
