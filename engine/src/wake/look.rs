//! The look for the ends of runs that other processes work on.

use std::sync::Arc;

use coord_core::signals::Detail;

use super::Wake;
use crate::model::RunId;
use crate::signals::Signal;
use crate::store::{Load, Store};

/// How many runs are looked at in one call.
const RUNS_A_LOOK: usize = 500;

/// Looks, once for all who wait in this process, for ends of which no hint has told.
pub(crate) async fn watch_ends(store: Arc<dyn Store>, wake: Arc<Wake>) {
    loop {
        tokio::time::sleep(wake.probe()).await;
        for runs in wake.awaited().chunks(RUNS_A_LOOK) {
            let load = |run: &RunId| Load {
                run: run.clone(),
                after: 0,
                limit: 0,
            };
            let loads: Vec<_> = runs.iter().map(load).collect();
            match store.load(&loads).await {
                Ok(loaded) => {
                    for run in loaded.runs.into_iter().flatten().map(|loaded| loaded.run) {
                        if let Some(closed) = &run.closed {
                            wake.found_ended(&run.run, closed);
                        }
                    }
                }
                Err(error) => Signal::StoreFailed {
                    error: Detail::error(&error),
                }
                .emit(),
            }
        }
    }
}
