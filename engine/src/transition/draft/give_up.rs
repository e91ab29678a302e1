//! What a run no longer wants.

use coord_core::Result;

use super::Draft;
use crate::model::{EventKind, OpKind, RequestId, WorkflowId, events};
use crate::store::{CommandKind, Deliver, Target};
use crate::transition::draft::cancel_message;

impl Draft {
    pub(super) fn cancel(&mut self, request: events::CancelRequested) -> Result<()> {
        let reason = request.reason.clone();
        self.add(None, EventKind::CancelRequested(request), None)?;
        let open: Vec<_> = self
            .state
            .open()
            .filter(|(_, op)| !op.shielded)
            .map(|(step, _)| step)
            .collect();
        for step in open {
            self.drop_operation(step, &reason)?;
        }
        Ok(())
    }

    pub(super) fn drop_operation(&mut self, step: u64, why: &str) -> Result<()> {
        let Some(op) = self.state.op(step).filter(|op| !op.ended) else {
            return Ok(());
        };
        let (event, child) = (op.dropped_as(why), op.child.clone());
        if op.kind == OpKind::Activity {
            self.drop_activity(step);
        }
        if let Some((workflow, _)) = child {
            self.ask_child_to_end(workflow, step, why)?;
        }
        self.add(Some(step), event, None)
    }

    fn drop_activity(&mut self, step: u64) {
        let scheduled = self.pending.activities.len();
        self.pending
            .activities
            .retain(|activity| activity.step != step);
        if self.pending.activities.len() == scheduled {
            self.pending.dropped.push(step);
        }
    }

    fn ask_child_to_end(&mut self, child: WorkflowId, step: u64, why: &str) -> Result<()> {
        let request = format!("{}:{step}", self.identity.run);
        let target = Target::Current(self.identity.namespace.clone(), child);
        self.pending.deliveries.push(Deliver {
            target,
            record: cancel_message(why, self.now)?,
            request: Some((CommandKind::Cancel, RequestId::new(request)?)),
            at_most: None,
        });
        Ok(())
    }
}
