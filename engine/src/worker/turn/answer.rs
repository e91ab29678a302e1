//! What the code of a run says to a question.

use std::sync::Arc;
use std::time::Duration;

use coord_core::trace::Span;
use coord_core::{Error, Result};

use crate::model::{Failure, Namespace, Payload, Run, TypeName};
use crate::worker::Shop;
use crate::worker::live::Trouble;

/// How long code may take to come to where its history ends, and to answer there. It computes and
/// waits for nothing, so what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

impl Shop {
    /// Whether this worker has the code of workflows `name` of a namespace.
    pub(crate) fn knows(&self, namespace: &Namespace, name: &TypeName) -> bool {
        self.namespace == *namespace && self.registry.workflow_named(name).is_some()
    }

    /// What the code of `run` says to `query` after its last event; `None` when it does not answer
    /// it.
    ///
    /// On a thread of its own, since code that blocks would block whoever shares it.
    pub(crate) async fn answer(
        self: Arc<Self>,
        run: &Run,
        query: &TypeName,
        input: Payload,
    ) -> Result<Option<Result<Payload, Failure>>> {
        let (loaded, events) = self.load(&run.run, 0).await?;
        if events.is_empty() {
            self.core.expect_history(&run.run).await?;
        }
        let name = query.clone();
        let ask = move || {
            let replayed = self.replay(&loaded, &events, Span::none());
            let live = replayed.map_err(|trouble| match trouble {
                Trouble::Failed(error) => error,
                Trouble::Problem(problem) => Error::corrupt(problem.to_string()),
                Trouble::Lost | Trouble::Stale => Error::corrupt("a replay writes nothing"),
            })?;
            Ok(live.code().answer(&name, Some(&input)))
        };
        match tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(ask)).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(died)) => Err(Error::corrupt(format!("asking {query}: {died}"))),
            Err(_) => Err(Error::timeout(format!(
                "asking {query}: the code of {} did not answer within {PATIENCE:?}",
                run.name
            ))),
        }
    }
}
