//! Results that are committed along with what their run does next.

use std::sync::Arc;

use coord_core::Result;
use coord_core::signals::Detail;

use crate::model::{Message, RunId, TaskKind};
use crate::signals::Signal;
use crate::worker::Shop;
use crate::worker::leases::LeaseGuard;
use crate::worker::live::{Live, Trouble};
use crate::worker::results::{Behind, Place, Told};

impl Shop {
    /// Commits a result with what its run does next, if the run is in memory here, together with
    /// the results of others that came meanwhile. Whether it is done: it happened, or the lease is
    /// lost.
    ///
    /// # Errors
    /// `Corrupt` when the run cannot hear the message.
    pub(super) async fn tell_along(
        self: &Arc<Self>,
        run: &RunId,
        message: &Message,
        lease: &LeaseGuard<'_>,
    ) -> Result<bool> {
        let (going, behind) = match self.results.enter(run, (message, &lease.held)) {
            Place::First(going) => (going, Vec::new()),
            Place::Behind(hears) => tokio::select! {
                told = hears => match told {
                    Ok(Told::Committed) => return Ok(true),
                    Ok(Told::Leads(going, behind)) => (going, behind),
                    Err(_) => return Ok(false),
                },
                () = lease.lost() => {
                    emit_lost(lease);
                    return Ok(true);
                }
            },
        };
        let Some(mut live) = self.cache.take(run) else {
            return Ok(false);
        };
        live.begin_again();
        hear(&mut live, message)?;
        for other in &behind {
            hear(&mut live, &other.message)?;
        }
        let others = behind.iter().map(|other| other.held.clone());
        let ended = std::iter::once(lease.held.clone()).chain(others).collect();
        match self.go_on_from(live, ended, lease).await {
            Ok(work) => {
                behind.into_iter().for_each(Behind::confirm);
                match work {
                    // For as long as it takes: who comes meanwhile is on his own.
                    Some((live, task)) => {
                        drop(going);
                        self.work_on(live, &task).await;
                    }
                    None => going.hand_over(),
                }
                Ok(true)
            }
            Err(Trouble::Lost) if behind.is_empty() => {
                emit_lost(lease);
                Ok(true)
            }
            // Each by itself meets the same problem, and deals with it. Nothing is told twice: if
            // that commit happened after all, the leases are gone.
            Err(Trouble::Lost | Trouble::Stale | Trouble::Problem(_) | Trouble::Failed(_)) => {
                Ok(false)
            }
        }
    }
}

fn hear(live: &mut Live, message: &Message) -> Result<()> {
    live.draft.set_now(message.at);
    live.draft.hear(message.clone())
}

/// The lease of an activity is somebody else's.
pub(super) fn emit_lost(lease: &LeaseGuard<'_>) {
    Signal::LeaseLost {
        kind: TaskKind::Activity,
        task: Detail::new(&lease.held.task),
    }
    .emit();
}
