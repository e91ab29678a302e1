//! Many starts in one transaction.

use coord_core::{Error, ErrorKind, Result};

use super::{Client, StartCall, Started};
use crate::store::{Start, Write};

/// The most starts of one batch.
pub const MAX_BATCH_STARTS: usize = 1000;
/// The most bytes of their inputs and memos together: with what goes around them they fit into one
/// packet of every database as it comes.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

impl Client {
    /// Starts up to [`MAX_BATCH_STARTS`] workflows in one transaction, and answers each by itself,
    /// in their order. One that is refused, since its id is in use or its input is too large, does
    /// not keep the others from being started; of two with one id the first is the first.
    ///
    /// # Errors
    /// Of the whole: nothing is started. `Invalid` when it is too large. `Unavailable` or `Timeout`
    /// when the database does not answer; after a `Timeout` all may have been started. Of one: as
    /// when a [`StartCall`] is awaited.
    ///
    /// # Cancel safety
    /// Dropped, all may have been started, or none.
    pub async fn start_batch<O>(
        &self,
        calls: impl IntoIterator<Item = StartCall<O>>,
    ) -> Result<Vec<Result<Started<O>>>> {
        let calls: Vec<_> = calls.into_iter().collect();
        let now = self.core.now().await?;
        let own = self.core.mark(&self.namespace).await?;
        let mut writes = Vec::new();
        let mut bytes = 0;
        let mut refused = Vec::new();
        for call in &calls {
            let start = call.start(now, own.clone());
            let start = match start {
                Ok(start) => self.core.admit(&start).await.map(|()| start),
                refused => refused,
            };
            refused.push(start.as_ref().err().map(Refused::of));
            if let Ok(start) = start {
                bytes += size(&start);
                writes.push(Write::Start(Box::new(start)));
            }
        }
        if calls.len() > MAX_BATCH_STARTS || bytes > MAX_BATCH_BYTES {
            let count = calls.len();
            return Err(Error::invalid(format!(
                "starting a batch of {count} with {bytes} bytes: at most {MAX_BATCH_STARTS} with \
                 {MAX_BATCH_BYTES} go together"
            )));
        }
        let outcomes = match writes.as_slice() {
            [] => Vec::new(),
            writes => self.core.commit_together(writes).await?,
        };
        let mut outcomes = outcomes.into_iter();
        let mut answer = |call: StartCall<O>| {
            let outcome = outcomes.next();
            call.started(outcome.ok_or_else(crate::committer::unanswered)?)
        };
        let answers = calls.into_iter().zip(refused).map(|(call, why)| match why {
            Some(why) => Err(why.error()),
            None => answer(call),
        });
        Ok(answers.collect())
    }
}

/// Why one is not started: its words as an error of its own, since the error was of a borrowed call.
struct Refused(ErrorKind, String);

impl Refused {
    fn of(error: &Error) -> Self {
        Self(error.kind(), error.to_string())
    }

    fn error(self) -> Error {
        Error::new(self.0, self.1)
    }
}

fn size(start: &Start) -> usize {
    let records = start.records.iter().map(|record| {
        let details = record.details.as_ref().map_or(0, String::len);
        let payload = record.payload.as_ref().map_or(0, |it| it.bytes.len());
        details + payload
    });
    records.sum()
}
