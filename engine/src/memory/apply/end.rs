//! The end of a run.

use crate::memory::tables::Tables;
use crate::model::{Closed, ParentClose, Record, RunId};
use crate::store::{Closing, CommandKind, Outcome, Terminate};

impl Tables {
    pub(super) fn close(&mut self, run: &RunId, closing: &Closing) {
        self.tasks.retain(|_, task| task.run != *run);
        let row = self.runs.get_mut(run).expect("it is open");
        row.run.status = closing.closed.status();
        row.run.wait = None;
        row.run.closed_at = Some(self.now);
        row.run.closed = Some(closing.closed.clone());
        let (inbox, parent) = (std::mem::take(&mut row.inbox), row.parent.clone());
        let inbox_seq = row.run.inbox_seq;
        if let (Closed::ContinuedAsNew(next), Some(start)) = (&closing.closed, &closing.next) {
            row.continued_to = Some(next.clone());
            self.insert_run(start, inbox_seq, inbox);
        }
        if let (Some(link), Some(record)) = (parent, &closing.to_parent) {
            let step = Some(link.step);
            self.push_if_open(
                &link.run,
                Record {
                    step,
                    ..record.clone()
                },
            );
        }
        let children: Vec<_> = self
            .runs
            .values()
            .filter_map(|row| Some((row.run.run.clone(), row.parent.as_ref()?)))
            .filter(|(_, link)| link.run == *run)
            .map(|(child, link)| (child, link.on_close))
            .collect();
        for (child, on_close) in children {
            match on_close {
                ParentClose::Abandon => {}
                ParentClose::Terminate => {
                    self.push_if_open(&child, closing.terminate_child.clone());
                }
                ParentClose::RequestCancel => {
                    self.push_if_open(&child, closing.cancel_child.clone());
                }
            }
        }
    }

    pub(in super::super) fn terminate(&mut self, terminate: &Terminate) -> Outcome {
        let Some(run) = self.find(&terminate.target) else {
            return Outcome::NotFound;
        };
        let request = terminate
            .request
            .clone()
            .map(|id| (CommandKind::Terminate, id));
        if let Some(repeated) = self.receipt(&run, request.as_ref()) {
            return repeated;
        }
        if !self.runs[&run].run.status.is_open() {
            return Outcome::Closed;
        }
        self.keep_receipt(&run, request.as_ref());
        let row = self.runs.get_mut(&run).expect("found above");
        let seq = row.history.len() as u64 + 1;
        row.history.push(Record {
            seq,
            ..terminate.record.clone()
        });
        row.run.history_length = seq;
        self.close(&run, &terminate.closing);
        self.done(&run)
    }
}
