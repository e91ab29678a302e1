//! Connections that plain writes keep, past the pool.
//!
//! The pool asks a connection whether it lives each time that it is given back: a round trip beside
//! the one that does the work. Of a few connections that were in use a moment ago this needs no
//! proof; whoever finds one broken learns it from its statement.

use std::sync::Mutex;
use std::time::Duration;

use coord_core::Result;
use sqlx::pool::PoolConnection;
use tokio::time::Instant;

use super::error::at;
use super::session::Sessions;
use crate::committer::locked;

/// As many as there are batches under way at a time, and the one that goes past them.
const MOST: usize = 3;
/// One that has rested longer than this goes through the pool, which asks it first.
pub(super) const FRESH: Duration = Duration::from_secs(1);

#[derive(Default, Debug)]
pub(super) struct Kept(Mutex<Vec<(PoolConnection<sqlx::Postgres>, Instant)>>);

impl Kept {
    /// A connection that is there, or one of the pool.
    pub(super) async fn take(&self, sessions: &Sessions) -> Result<PoolConnection<sqlx::Postgres>> {
        let kept = {
            let mut kept = locked(&self.0);
            // What was not in use lately goes back; the last one given back is the freshest.
            kept.retain(|(_, since)| since.elapsed() < FRESH);
            kept.pop()
        };
        match kept {
            Some((connection, _)) => Ok(connection),
            None => sessions.bare().await.map_err(at("connecting")),
        }
    }

    /// Keeps a connection whose last statement succeeded.
    pub(super) fn keep(&self, connection: PoolConnection<sqlx::Postgres>) {
        let mut kept = locked(&self.0);
        if kept.len() < MOST {
            kept.push((connection, Instant::now()));
        }
    }
}

impl Drop for Kept {
    /// The pool takes a connection back in a task, and there may be no runtime any more.
    fn drop(&mut self) {
        for (connection, _) in locked(&self.0).drain(..) {
            drop(connection.leak());
        }
    }
}
