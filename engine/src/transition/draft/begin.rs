//! What begins in a turn: activities, children, runs.

use coord_core::Result;
use serde_json::{Map, Value};

use super::Draft;
use crate::model::{Attributes, Due, Event, EventKind, Marks, ParentLink, Payload, RunId, events};
use crate::store::{NewActivity, OnDuplicate, Start};
use crate::transition::command::{ChildCommand, Command};

impl Draft {
    pub(super) fn schedule(&mut self, command: Command) -> Result<()> {
        let Command::Activity {
            step,
            name,
            input,
            queue,
            priority,
            retry,
            timeouts,
        } = command
        else {
            unreachable!("the caller matched it");
        };
        let started = self.started()?;
        let queue = queue.unwrap_or_else(|| started.queue.clone());
        let priority = priority.unwrap_or(started.priority);
        self.pending.activities.push(NewActivity {
            step,
            scheduled_seq: self.state.length() + 1,
            name: name.clone(),
            queue: queue.clone(),
            priority,
            timeouts,
            lease: None,
        });
        let activity = events::ActivityScheduled {
            name,
            queue,
            priority,
            retry,
            timeouts,
            echo: None,
            shielded: self.takes_shield(step),
            trace: self.trace.clone(),
        };
        self.add(
            Some(step),
            EventKind::ActivityScheduled(activity),
            Some(input),
        )
    }

    pub(super) fn start_child(&mut self, child: ChildCommand) -> Result<()> {
        let parent = self.started()?;
        let queue = child.queue.unwrap_or_else(|| parent.queue.clone());
        let started = events::Started {
            name: child.name.clone(),
            workflow: child.workflow.clone(),
            number: 1,
            queue,
            priority: parent.priority,
            fairness: parent.fairness.clone(),
            build: parent.build.clone(),
            seed: child.seed,
            parent: Some(ParentLink {
                run: self.identity.run.clone(),
                step: child.step,
                on_close: child.on_close,
            }),
            continued_from: None,
            occurrence: None,
            execution_deadline_at: parent.execution_deadline_at,
            memo: serde_json::Map::new(),
            attributes: Attributes::new(),
            trace: self.trace.clone(),
        };
        let start = self.start(child.run.clone(), started, child.input.clone())?;
        self.pending.children.push(start);
        let event = events::ChildStarted {
            name: child.name,
            workflow: child.workflow,
            run: child.run,
            on_close: child.on_close,
            shielded: self.takes_shield(child.step),
        };
        self.add(
            Some(child.step),
            EventKind::ChildStarted(event),
            Some(child.input),
        )
    }

    pub(super) fn set_attributes(&mut self, step: u64, attributes: Attributes) -> Result<()> {
        self.pending.marks.attributes = Some(attributes.clone());
        let set = EventKind::SearchAttributes(events::SearchAttributes { attributes });
        self.add(Some(step), set, None)
    }

    pub(super) fn set_memo(&mut self, step: u64, memo: Map<String, Value>) -> Result<()> {
        self.pending.marks.memo = Some(memo.clone());
        self.add(Some(step), EventKind::Memo(events::Memo { memo }), None)
    }

    pub(super) fn start(
        &self,
        run: RunId,
        started: events::Started,
        input: Payload,
    ) -> Result<Start> {
        let event = Event {
            seq: 1,
            at: self.now,
            step: None,
            kind: EventKind::Started(started.clone()),
            payload: Some(input),
        };
        let marks = Marks::of_start(&started.attributes, &started.memo);
        Ok(Start {
            namespace: self.identity.namespace.clone(),
            workflow: started.workflow,
            run,
            number: started.number,
            on_duplicate: OnDuplicate::Reject,
            name: started.name,
            queue: started.queue,
            priority: started.priority,
            fairness: started.fairness,
            build: started.build,
            parent: started.parent,
            records: vec![event.record()?],
            due: Due::Now,
            lease: None,
            request: None,
            marks,
        })
    }
}
