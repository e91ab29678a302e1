//! Runs.

use coord_core::{Error, Result};

use super::super::Start;
use super::{RunRow, failure_of, failure_text, of_fairness, payload, read, signed, some, unsigned};
use crate::model::{
    BuildId, Closed, Fingerprint, Namespace, Queue, Run, RunId, RunStatus, Timestamp, TypeName,
    Wait, WorkflowId,
};

impl RunRow {
    /// A new run at `now`, whose inbox goes on from `inbox`: the last place given, and taken.
    pub(in super::super) fn new(start: &Start, now: i64, inbox: (i64, i64)) -> Self {
        let parent = start.parent.as_ref();
        let (fairness_key, fairness_weight) = of_fairness(start.fairness.as_ref());
        Self {
            run_id: start.run.to_string(),
            namespace: start.namespace.to_string(),
            workflow_id: start.workflow.to_string(),
            run_number: i32::try_from(start.number).unwrap_or(i32::MAX),
            workflow_type: start.name.to_string(),
            queue: start.queue.to_string(),
            priority: i16::from(start.priority.get()),
            compatibility: start.build.as_ref().map(ToString::to_string),
            status: RunStatus::Pending.as_str().to_owned(),
            wait_reason: None,
            closed_reason: None,
            history_length: signed(start.records.len() as u64),
            inbox_seq: inbox.0,
            inbox_drained: inbox.1,
            turn_epoch: 0,
            parent_run_id: parent.map(|link| link.run.to_string()),
            parent_step_seq: parent.map(|link| signed(link.step)),
            parent_close: parent.map(|link| link.on_close.as_str().to_owned()),
            continued_to: None,
            started_at: now,
            updated_at: now,
            closed_at: None,
            output_codec: None,
            output: None,
            failure: None,
            buffered_signals: signed(start.buffered()),
            fairness_key: fairness_key.to_owned(),
            fairness_weight,
            fingerprint: None,
        }
    }

    /// How many messages it has not taken, or as signals not received.
    pub(in super::super) fn waiting(&self) -> i64 {
        self.inbox_seq - self.inbox_drained + self.buffered_signals
    }

    pub(in super::super) fn is_open(&self) -> bool {
        self.closed_at.is_none()
    }

    /// Closes the run. What goes with it is the caller's business.
    pub(in super::super) fn close(&mut self, closed: &Closed, now: i64) -> Result<()> {
        closed.status().as_str().clone_into(&mut self.status);
        self.closed_reason = Some(closed.reason().to_owned());
        self.wait_reason = None;
        self.closed_at = Some(now);
        self.updated_at = now;
        match closed {
            Closed::Completed(output) => {
                self.output_codec = Some(output.codec.to_string());
                self.output = Some(output.bytes.to_vec());
            }
            Closed::ContinuedAsNew(next) => self.continued_to = Some(next.to_string()),
            Closed::Failed(failure)
            | Closed::Cancelled(failure)
            | Closed::Terminated(failure)
            | Closed::TimedOut(failure) => self.failure = Some(failure_text(failure)?),
        }
        Ok(())
    }

    fn closed(&mut self) -> Result<Option<Closed>> {
        let Some(reason) = self.closed_reason.take() else {
            return Ok(None);
        };
        let mut failure = || failure_of(self.failure.take());
        let closed = match reason.as_str() {
            "completed" => {
                let output = payload(self.output_codec.take(), self.output.take());
                Closed::Completed(output.ok_or_else(|| Error::corrupt("reading an output: none"))?)
            }
            "failed" => Closed::Failed(failure()?),
            "cancelled" => Closed::Cancelled(failure()?),
            "terminated" => Closed::Terminated(failure()?),
            "timed_out" => Closed::TimedOut(failure()?),
            "continued_as_new" => {
                let next = self.continued_to.take().unwrap_or_default();
                Closed::ContinuedAsNew(read(next, "run id")?)
            }
            other => {
                let message = format!("reading a run: it closed for no reason of ours, {other}");
                return Err(Error::corrupt(message));
            }
        };
        Ok(Some(closed))
    }

    /// The run as callers see it.
    pub(in super::super) fn run(mut self) -> Result<Run> {
        let closed = self.closed()?;
        let status = RunStatus::from_word(&self.status).ok_or_else(|| {
            Error::corrupt(format!("reading a run: its status is {}", self.status))
        })?;
        let wait = self.wait_reason.as_deref().and_then(Wait::from_word);
        Ok(Run {
            namespace: read::<Namespace>(self.namespace, "namespace")?,
            workflow: read::<WorkflowId>(self.workflow_id, "workflow id")?,
            run: read::<RunId>(self.run_id, "run id")?,
            number: unsigned(self.run_number)?,
            name: read::<TypeName>(self.workflow_type, "name")?,
            queue: read::<Queue>(self.queue, "queue")?,
            build: some::<BuildId>(self.compatibility, "build id")?,
            fingerprint: some::<Fingerprint>(self.fingerprint, "fingerprint")?,
            status,
            wait,
            history_length: unsigned(self.history_length)?,
            inbox_seq: unsigned(self.inbox_seq)?,
            started_at: Timestamp::from_micros(self.started_at),
            closed_at: self.closed_at.map(Timestamp::from_micros),
            closed,
            parent: some(self.parent_run_id, "run id")?,
        })
    }
}
