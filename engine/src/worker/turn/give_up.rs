//! A turn that cannot be gone on with.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_core::signals::Detail;

use crate::flow::Problem;
use crate::model::{Due, RunId, TaskKind};
use crate::signals::{Signal, TurnFault};
use crate::store::{BlockedReason, PutBack, PutBackHow, Write};
use crate::worker::Shop;
use crate::worker::leases::LeaseGuard;
use crate::worker::live::Trouble;

/// The longest wait before a turn that failed is tried again.
const LONGEST_BACKOFF: Duration = Duration::from_mins(1);

impl Shop {
    pub(super) async fn give_up(
        &self,
        run: &RunId,
        attempt: u32,
        lease: &LeaseGuard<'_>,
        trouble: Trouble,
    ) {
        let error = match &trouble {
            Trouble::Lost | Trouble::Stale => {
                let task = Detail::new(&lease.held.task);
                return Signal::LeaseLost {
                    kind: TaskKind::Workflow,
                    task,
                }
                .emit();
            }
            Trouble::Problem(problem) => problem.to_string(),
            Trouble::Failed(error) => Detail::error(error).to_string(),
        };
        let (run, detail) = (Detail::new(run), Detail::new(&error));
        let retry = |due| PutBackHow::Retry {
            due,
            error: error.clone(),
            attempt: None,
        };
        let how = match trouble {
            Trouble::Problem(Problem::Diverged { .. }) => {
                let reason = BlockedReason::Replay;
                Signal::RunBlocked {
                    reason,
                    run,
                    error: detail,
                }
                .emit();
                PutBackHow::Blocked { reason, error }
            }
            Trouble::Problem(problem) => {
                let fault = match problem {
                    Problem::Panicked(_) => TurnFault::Panicked,
                    Problem::Codec(_) => TurnFault::Unreadable,
                    _ => TurnFault::Foreign,
                };
                Signal::TurnFailed {
                    fault,
                    run,
                    error: detail,
                }
                .emit();
                retry(Due::After(backoff(attempt)))
            }
            Trouble::Failed(error)
                if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corrupt) =>
            {
                let fault = TurnFault::Unreadable;
                Signal::TurnFailed {
                    fault,
                    run,
                    error: detail,
                }
                .emit();
                retry(Due::After(backoff(attempt)))
            }
            // It may have been committed: then the task has another epoch, and this finds it lost.
            _ => {
                Signal::StoreFailed { error: detail }.emit();
                PutBackHow::Untouched
            }
        };
        let held = lease.held.clone();
        let put_back = Write::PutBack(PutBack { held, how });
        if let Err(error) = self.commit_held(put_back, lease).await {
            // Its lease ends by itself.
            Signal::StoreFailed {
                error: Detail::error(&error),
            }
            .emit();
        }
    }
}

/// The wait before a turn that failed `attempt` times is tried again.
fn backoff(attempt: u32) -> Duration {
    let seconds = 1_u64
        .checked_shl(attempt.saturating_sub(1))
        .unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(LONGEST_BACKOFF)
}
