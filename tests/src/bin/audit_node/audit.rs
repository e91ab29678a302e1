//! The audit of one archive: a workflow, whose result is the verdict.

use std::sync::Arc;
use std::time::Duration;

use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{Failure, Retry};
use coord_engine::worker::{Attempt, WorkerBuilder};
use serde::{Deserialize, Serialize};

use crate::archives::{Archives, group_of};
use crate::said::{Event, say};
use crate::shared::Reads;

/// An archive in, its verdict out. Started under the name of the archive, so that there is one.
pub(crate) const AUDIT: Workflow<String, Verdict> = Workflow::new("crates.audit");
const HASH: Activity<String, Hashed> = Activity::new("crates.hash");

/// What became of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) finding: Finding,
    /// The node that read the archive, from 1; 0 when none could.
    pub(crate) by: u8,
    /// The SHA-256 that it has, or why it has none.
    pub(crate) found: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Finding {
    /// It is what the lock file records.
    Intact,
    /// Its SHA-256 is another.
    Mismatch,
    /// The lock file does not list it.
    Unlisted,
    /// It could not be read.
    Unreadable,
}

#[derive(Serialize, Deserialize)]
struct Hashed {
    by: u8,
    sha256: String,
}

impl Verdict {
    pub(crate) fn unreadable(failure: &Failure) -> Self {
        Self {
            finding: Finding::Unreadable,
            by: 0,
            found: failure.message.clone(),
        }
    }
}

/// What a node audits with.
pub(crate) struct Auditor {
    pub(crate) node: u8,
    pub(crate) archives: Arc<Archives>,
    pub(crate) reads: Reads,
}

impl Auditor {
    /// A worker that audits.
    pub(crate) fn work(self: Arc<Self>, worker: WorkerBuilder) -> WorkerBuilder {
        let auditor = Arc::clone(&self);
        let audit = move |ctx, record| Arc::clone(&auditor).audit(ctx, record);
        let hash = move |_: Attempt, record| Arc::clone(&self).hash(record);
        worker.workflow(AUDIT, audit).activity(HASH, hash)
    }

    async fn audit(self: Arc<Self>, ctx: Context, record: String) -> Result<Verdict, Failure> {
        // Any node may read the archive. A disk that fails is tried again, but not for ever.
        let retry = Retry {
            initial: Duration::from_millis(200),
            ..Retry::exponential(3)
        };
        let hashed = match ctx.activity(HASH, &record).retry(retry).await {
            Err(failure) if failure.kind != Failure::CANCELLED => {
                return Ok(Verdict::unreadable(&failure));
            }
            hashed => hashed?,
        };
        // This node looks up what is recorded, which it mostly has in its cache.
        let entry = ctx.step("read lock file", || async {
            let recorded = self.archives.recorded(group_of(&record)).await?;
            Ok::<_, coord_core::Error>(recorded.get(&record).cloned().flatten())
        });
        let finding = match entry.await? {
            None => Finding::Unlisted,
            Some(recorded) if recorded == hashed.sha256 => Finding::Intact,
            Some(_) => Finding::Mismatch,
        };
        Ok(Verdict {
            finding,
            by: hashed.by,
            found: hashed.sha256,
        })
    }

    async fn hash(self: Arc<Self>, record: String) -> Result<Hashed, Failure> {
        say(&Event::Taken { record: &record });
        self.reads.turn(group_of(&record), &record).await?;
        let (archives, read) = (Arc::clone(&self.archives), record.clone());
        let sha256 = tokio::task::spawn_blocking(move || archives.sha256(&read)).await??;
        say(&Event::Hashed { record: &record });
        Ok(Hashed {
            by: self.node,
            sha256,
        })
    }
}
