//! Tasks that are handed over through streams in Redis.

use std::num::NonZeroUsize;
use std::time::Duration;

use coord_core::{Error, Key, Name, Result};
use coord_redis::{Command, Config, Redis, Reply as Answer, Script};
use tokio::sync::OnceCell;

use super::handover::{Desk, Handover};
use crate::model::{TaskId, TaskKind};
use crate::store::Reply;

static HAND: Script = Script::new("engine_hand", include_str!("lua/engine_hand.lua"));
static WAIT: Script = Script::new("engine_wait", include_str!("lua/engine_wait.lua"));

/// The one group of each stream, and the one name of all who wait in it: each id goes to one of
/// them, and nobody remembers who had it, since the database does.
const WORKERS: &str = "workers";
/// For how long a stream is there after the last sign of who waits at it.
const KEPT: Duration = Duration::from_secs(30);
/// How many ids a stream holds at most, in whole nodes of Redis: more than that wait in the
/// database, where the looks of workers that are busy find them by their priority.
const LONGEST: usize = 10_000;
/// How many workers of a process wait at a time, each on a connection of its own: more than a
/// process has queues, and far below what a Redis takes from a fleet.
const PLACES: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");
/// How many ids go in one call.
const BATCH: usize = 256;

/// Hands tasks over through streams in Redis, one for each namespace, queue and kind, over
/// connections of its own.
///
/// A stream is there while somebody waits at it, and goes 30 s after the last who did. It keeps ids
/// and nothing that would be missed. All engines under one key prefix share it: those on other
/// databases find nothing under each other's ids, so give each database a prefix of its own.
///
/// | key | what | how long |
/// |---|---|---|
/// | `prefix:{engine.tasks:NAMESPACE:QUEUE}:workflow`, `…:activity` | ids of ready tasks, 10 000 at most | 30 s after the last sign of a worker |
///
/// A worker that waits has a connection; a process has 64 of them at most, and workers beyond that
/// look as without this, until one that has a connection ends.
pub struct Streams {
    redis: OnceCell<Redis>,
    config: Config,
}

impl Streams {
    /// Over connections to the server of `config`. They are made once an engine uses this, and tried
    /// again for as long as the server is away: the engine works without it.
    pub fn at(config: Config) -> Self {
        Self {
            redis: OnceCell::new(),
            config: config.blocking_connections(PLACES),
        }
    }

    async fn redis(&self) -> Result<&Redis> {
        let connect = || Redis::connect(self.config.clone());
        self.redis.get_or_try_init(connect).await
    }

    async fn hand_all(&self, desk: &Desk, tasks: &[TaskId]) -> Result<bool> {
        let redis = self.redis().await?;
        let key = key(redis, desk)?;
        let mut is_taken = true;
        for batch in tasks.chunks(BATCH) {
            let mut command = HAND.call(&[&key]).arg(LONGEST);
            for task in batch {
                command = command.arg(task.as_str());
            }
            is_taken &= redis.run(&command).await?.int()? == 1;
        }
        Ok(is_taken)
    }

    async fn wait_at_all(&self, desks: &[Desk]) -> Result<()> {
        let redis = self.redis().await?;
        for desk in desks {
            let key = key(redis, desk)?;
            let command = WAIT.call(&[&key]).arg(WORKERS).arg(KEPT.as_millis() as u64);
            redis.run(&command.idempotent()).await?;
        }
        Ok(())
    }

    async fn take_some(&self, desks: &[Desk], most: usize, block: Duration) -> Result<Vec<String>> {
        // Zero would wait for ever.
        let millis = (block.as_millis() as u64).max(1);
        let redis = self.redis().await?;
        let mut command = Command::new("XREADGROUP")
            .arg("GROUP")
            .arg(WORKERS)
            .arg(WORKERS)
            .arg("COUNT")
            .arg(most)
            .arg("BLOCK")
            .arg(millis)
            .arg("NOACK")
            .arg("STREAMS");
        for desk in desks {
            command = command.key(&key(redis, desk)?);
        }
        for _ in desks {
            command = command.arg(">");
        }
        let block = Duration::from_millis(millis);
        let answer = redis.run_blocking(&command, block).await?;
        let Some(streams) = answer.optional() else {
            return Ok(Vec::new());
        };
        let mut ids = Vec::new();
        for stream in streams.list()? {
            let [_, entries] = stream.array()?;
            for entry in entries.list()? {
                ids.extend(id(entry));
            }
        }
        Ok(ids)
    }
}

/// What an entry says; nothing when it was trimmed, or is not ours.
fn id(entry: Answer) -> Option<String> {
    let [_, fields] = entry.array().ok()?;
    let [_, id] = fields.optional()?.array().ok()?;
    id.text().ok()
}

/// The stream of a desk. Both kinds of a queue share a slot, since one call reads both.
fn key(redis: &Redis, desk: &Desk) -> Result<Key> {
    let name = |text: &str| {
        Name::new(text).map_err(|error| {
            let what = "handing tasks over: a name that Redis keys do not take";
            Error::invalid(what).with_source(error)
        })
    };
    let (namespace, queue) = (name(desk.namespace.as_str())?, name(desk.queue.as_str())?);
    let key = redis.keys().key("engine.tasks", &[&namespace, &queue]);
    Ok(key.part(match desk.kind {
        TaskKind::Workflow => "workflow",
        TaskKind::Activity => "activity",
    }))
}

impl Handover for Streams {
    fn places(&self) -> usize {
        PLACES.get()
    }

    fn hand<'a>(&'a self, desk: &'a Desk, tasks: &'a [TaskId]) -> Reply<'a, bool> {
        Box::pin(self.hand_all(desk, tasks))
    }

    fn wait_at<'a>(&'a self, desks: &'a [Desk]) -> Reply<'a, ()> {
        Box::pin(self.wait_at_all(desks))
    }

    fn take<'a>(
        &'a self,
        desks: &'a [Desk],
        most: usize,
        block: Duration,
    ) -> Reply<'a, Vec<String>> {
        Box::pin(self.take_some(desks, most, block))
    }
}
