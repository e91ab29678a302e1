//! The workers of this process, as others see them: enlisted while they are there.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use coord_core::Result;
use coord_core::signals::Detail;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::engine::Core;
use crate::model::OwnerId;
use crate::signals::Signal;
use crate::store::Enlistment;

/// How often it looks whether a worker has gone, or what could not be written can be.
const EVERY: Duration = Duration::from_secs(5);
/// How often a process that has to do with marks counts the runs that nobody could go on with.
const COUNT: Duration = Duration::from_secs(15);

/// Enlists what begins, under the present incarnation of this process, and dismisses what has
/// ended, for as long as it is polled and the engine is there.
pub(crate) async fn keep(
    core: Weak<Core>,
    changed: Arc<Notify>,
    mut owner: watch::Receiver<OwnerId>,
) {
    let mut roster = Roster::default();
    loop {
        // Only for the look, so that an engine that nobody uses any more goes.
        let Some(held) = core.upgrade() else { return };
        let looked = roster.look(&held).await;
        drop(held);
        if let Err(error) = looked {
            let error = Detail::error(&error);
            Signal::StoreFailed { error }.emit();
        }
        tokio::select! {
            () = changed.notified() => {}
            Ok(()) = owner.changed() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

#[derive(Default)]
struct Roster {
    /// Who is enlisted, by worker.
    enlisted: BTreeMap<String, OwnerId>,
    counted: Option<Instant>,
    /// What was shown last of the runs that wait: how many, and for how many seconds.
    shown: (u64, u64),
}

impl Roster {
    async fn look(&mut self, core: &Core) -> Result<()> {
        let present = core.enlistments();
        let gone: Vec<_> = self
            .enlisted
            .keys()
            .filter(|known| present.iter().all(|worker| worker.worker != **known))
            .cloned()
            .collect();
        for worker in gone {
            core.store.dismiss(&worker).await?;
            self.enlisted.remove(&worker);
        }
        for worker in present {
            if self.enlisted.get(&worker.worker) != Some(&worker.owner) {
                core.store.enlist(&worker).await?;
                self.enlisted.insert(worker.worker, worker.owner);
            }
        }
        self.count(core).await
    }

    /// Shows how many runs wait for a worker that supports them, and for how long.
    async fn count(&mut self, core: &Core) -> Result<()> {
        let is_fresh = self
            .counted
            .is_some_and(|counted| counted.elapsed() < COUNT);
        if is_fresh || !core.compatibility().is_marked() {
            return Ok(());
        }
        self.counted = Some(Instant::now());
        let blocked = core.blocked().await?;
        let shown = (blocked.runs(), blocked.age().as_secs());
        if shown != self.shown {
            let (runs, age_s) = shown;
            Signal::CompatibilityBlocked { runs }.emit();
            Signal::CompatibilityBlockedAge { age_s }.emit();
            self.shown = shown;
        }
        Ok(())
    }
}

impl Core {
    /// The workers of this process that take work.
    fn enlistments(&self) -> Vec<Enlistment> {
        let workers = self.workers();
        let open = workers.iter().filter(|worker| !worker.is_closing());
        open.map(|worker| worker.enlistment()).collect()
    }
}
