//! Durable workflows, on files that several processes share.

mod builds;
mod config;
mod dispatch;
mod nodes;
mod recovery;
mod schedules;
mod signals;
mod wake;

use std::path::PathBuf;
use std::time::Duration;

use coord_engine::Engine;
use coord_engine::flow::{Activity, Signal};
use coord_engine::model::{Failure, Namespace, Queue, WorkflowId};
use coord_engine::store::Sqlite;
use coord_engine::worker::{Attempt, WorkerBuilder};
use coord_tests::recorder::recorder;
use tempfile::TempDir;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_mins(2);

const DOUBLE: Activity<u64, u64> = Activity::new("tests.double");
const GO: Signal<()> = Signal::new("go");

/// An own database.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        recorder();
        Self {
            folder: tempfile::tempdir().expect("room for a folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> Sqlite {
        Sqlite::file(self.path("work.db"))
    }

    async fn engine(&self) -> Engine {
        Engine::start(self.store()).await.expect("the file is ours")
    }
}

fn worker(engine: &Engine) -> WorkerBuilder {
    engine.worker(Namespace::default(), Queue::default())
}

fn id(text: &str) -> WorkflowId {
    WorkflowId::new(text).expect("an id")
}

async fn double(_: Attempt, number: u64) -> Result<u64, Failure> {
    Ok(number * 2)
}
