//! Hints through `LISTEN` and `NOTIFY`.

use coord_core::{Error, Result};
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};

use super::super::begin::begin;
use super::error::{at, at_commit};
use super::{ACQUIRE, Postgres};
use crate::store::Reply;
use crate::wake::{Backend, Ears, Kind};

const CHANNEL: &str = "coord_engine";

/// Hints through `LISTEN` and `NOTIFY` of the engine's own PostgreSQL, over two connections of its
/// own.
///
/// They are sent beside the work and after its commit: a commit that notifies waits for all others
/// that do, so a notification in the transaction of the work would make a queue of all commits.
/// Behind a pooler that hands each transaction to another connection nothing is ever heard: then
/// the engine never comes to trust it, and looks by itself once a second.
#[derive(Debug)]
pub struct Notify {
    sender: PgPool,
    listener: PgPool,
}

impl Notify {
    /// Through the server of `store`. Nothing is opened before the engine starts.
    #[must_use]
    pub fn new(store: &Postgres) -> Self {
        let options = store.sessions.options();
        let options = options.application_name("coord-engine-wake");
        let one = || PgPoolOptions::new().max_connections(1);
        let one = || one().acquire_timeout(ACQUIRE).max_lifetime(None);
        Self {
            sender: one().connect_lazy_with(options.clone()),
            listener: one().connect_lazy_with(options),
        }
    }

    async fn notify(&self, message: &str) -> Result<()> {
        const WHAT: &str = "sending hints";
        // Without a name and in a transaction, for poolers that do not follow names and give each
        // transaction another connection: a few are sent a second.
        let mut transaction = begin(&self.sender, "BEGIN").await.map_err(at(WHAT))?;
        let sent = sqlx::query("SELECT pg_notify($1, $2)").persistent(false);
        let sent = sent.bind(CHANNEL).bind(message);
        sent.execute(&mut *transaction).await.map_err(at(WHAT))?;
        transaction.commit().await.map_err(at_commit(WHAT))
    }

    async fn hear(&self, ears: &Ears) -> Result<()> {
        const WHAT: &str = "hearing hints";
        let listener = PgListener::connect_with(&self.listener).await;
        let mut listener = listener.map_err(at(WHAT))?;
        // The link begins again by itself, and says that something may have been missed.
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await.map_err(at(WHAT))?;
        ears.begun();
        while let Some(heard) = listener.try_recv().await.map_err(at(WHAT))? {
            ears.heard(heard.payload());
        }
        Err(Error::unavailable(
            "hearing hints: the connection has ended",
        ))
    }
}

impl Backend for Notify {
    fn kind(&self) -> Kind {
        Kind::Notify
    }

    fn send<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        Box::pin(self.notify(message))
    }

    fn listen<'a>(&'a self, ears: &'a Ears) -> Reply<'a, ()> {
        Box::pin(self.hear(ears))
    }
}
