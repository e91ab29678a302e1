//! A database of its own for each test, and values to write.

use std::sync::Arc;
use std::time::Duration;

use coord_engine::model::{
    AttemptId, Closed, Due, Ids, Marks, Namespace, OwnerId, Payload, Priority, Queue, Record,
    RequestId, RunId, TaskId, TaskKind, Timeouts, Timestamp, TypeName, WorkflowId,
};
use coord_engine::store::{
    Claim, Claimed, ClaimedTask, Closing, CommandKind, Deliver, Description, Fence, Held, Holder,
    Load, LoadedRun, NewActivity, OnDuplicate, Outcome, Settle, Start, Store, Sweep, Target, Then,
    Turn, Wanted, Write,
};

use crate::dialect::Database;

/// Longer than any test.
pub(crate) const LONG: Duration = Duration::from_mins(1);
/// The name of everything that has a type.
pub(crate) const TYPE: &str = "work";

/// A database, two stores on it as two processes have them, and ids.
pub(crate) struct Stage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) other: Arc<dyn Store>,
    pub(crate) database: Database,
    pub(crate) ids: Ids,
}

impl Stage {
    pub(crate) async fn new(database: Database) -> Self {
        let (store, other) = (database.open(), database.open());
        store.migrate().await.expect("a schema");
        Self {
            store,
            other,
            database,
            ids: Ids::random(),
        }
    }

    pub(crate) async fn apply(&self, write: impl IntoWrite) -> Outcome {
        let mut outcomes = self.batch([write.into_write()]).await;
        outcomes.pop().expect("one outcome a write")
    }

    pub(crate) async fn batch(&self, writes: impl IntoIterator<Item = Write>) -> Vec<Outcome> {
        let writes: Vec<_> = writes.into_iter().collect();
        let applied = self.store.apply(&writes).await.expect("applied");
        assert_eq!(applied.outcomes.len(), writes.len());
        applied.outcomes
    }

    /// A run that was started, in a queue of its own name.
    pub(crate) async fn start(&self, workflow: &str) -> RunId {
        let start = self.new_run(workflow);
        let run = start.run.clone();
        let outcome = self.apply(start).await;
        assert_eq!(
            outcome,
            Outcome::Started {
                run: run.clone(),
                created: true
            }
        );
        run
    }

    pub(crate) fn new_run(&self, workflow: &str) -> Start {
        Start {
            namespace: namespace(),
            workflow: WorkflowId::new(workflow).expect("an id"),
            run: self.ids.run(),
            number: 1,
            on_duplicate: OnDuplicate::Reject,
            name: TypeName::new(TYPE).expect("a name"),
            queue: queue(workflow),
            priority: Priority::default(),
            fairness: None,
            build: None,
            parent: None,
            records: vec![record("Started", 1)],
            due: Due::Now,
            lease: None,
            request: None,
            marks: Marks::default(),
        }
    }

    pub(crate) fn claim_of(&self, kind: TaskKind, of: &str, limit: u32) -> Claim {
        Claim {
            namespace: namespace(),
            queue: queue(of),
            wanted: vec![self.wanted_of(kind, limit)],
            only: None,
            fingerprints: None,
            builds: None,
            quotas: Vec::new(),
            owner: owner("a"),
            ttl: LONG,
        }
    }

    pub(crate) fn wanted_of(&self, kind: TaskKind, limit: u32) -> Wanted {
        Wanted {
            kind,
            names: vec![TypeName::new(TYPE).expect("a name")],
            limit,
            attempts: (0..limit).map(|_| self.ids.attempt()).collect(),
        }
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Claimed {
        self.store.claim(claim).await.expect("an answer")
    }

    /// The workflow task of the only run of `workflow`, claimed by `a` for long.
    pub(crate) async fn claim_workflow(&self, workflow: &str) -> ClaimedTask {
        let claim = self.claim_of(TaskKind::Workflow, workflow, 1);
        self.claim(&claim).await.tasks.pop().expect("a due task")
    }

    /// The workflow task, claimed for so short that it is over when this returns.
    pub(crate) async fn claim_and_expire(&self, workflow: &str) -> ClaimedTask {
        let claim = Claim {
            ttl: Duration::from_millis(20),
            ..self.claim_of(TaskKind::Workflow, workflow, 1)
        };
        let task = self.claim(&claim).await.tasks.pop().expect("a due task");
        self.pass(task.task.lease_expires_at).await;
        task
    }

    /// Returns when the database's clock has passed `instant`.
    pub(crate) async fn pass(&self, instant: Timestamp) {
        while self.now().await <= instant {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn now(&self) -> Timestamp {
        self.store.load(&[]).await.expect("the clock").now
    }

    pub(crate) async fn load(&self, run: &RunId) -> LoadedRun {
        let load = Load {
            run: run.clone(),
            after: 0,
            limit: 1000,
        };
        let mut loaded = self.store.load(&[load]).await.expect("loaded");
        loaded.runs.pop().flatten().expect("a run")
    }

    pub(crate) async fn describe(&self, run: &RunId) -> Description {
        let target = Target::Run(run.clone());
        let described = self.store.describe(&target).await.expect("described");
        described.expect("a run")
    }

    pub(crate) async fn sweep(&self) -> coord_engine::store::Swept {
        let sweep = Sweep {
            limit: 100,
            poison_after: 2,
        };
        self.store.sweep(&sweep).await.expect("swept")
    }

    /// A run that waits for one activity, whose task is ready in the run's queue.
    pub(crate) async fn start_with_activity(&self, workflow: &str, timeouts: Timeouts) -> RunId {
        let run = self.start(workflow).await;
        let task = self.claim_workflow(workflow).await;
        self.schedule_activity(&task, workflow, timeouts).await;
        run
    }

    /// A run that waits for activities, which have these numbers.
    pub(crate) async fn start_with_activities<const MANY: usize>(
        &self,
        workflow: &str,
        steps: [u64; MANY],
    ) -> RunId {
        let run = self.start(workflow).await;
        let task = self.claim_workflow(workflow).await;
        let activities: Vec<_> = (2..).zip(steps).collect();
        let scheduled = Turn {
            records: activities
                .iter()
                .map(|(seq, _)| record("ActivityScheduled", *seq))
                .collect(),
            activities: activities
                .iter()
                .map(|(seq, step)| NewActivity {
                    scheduled_seq: *seq,
                    ..activity(*step, workflow)
                })
                .collect(),
            ..turn(&task)
        };
        assert!(matches!(self.apply(scheduled).await, Outcome::Done { .. }));
        run
    }

    /// Ends the turn of `task` with an activity in the queue `of`.
    pub(crate) async fn schedule_activity(&self, task: &ClaimedTask, of: &str, timeouts: Timeouts) {
        let new = NewActivity {
            timeouts,
            ..activity(1, of)
        };
        let scheduled = Turn {
            records: vec![record("ActivityScheduled", 2)],
            activities: vec![new],
            ..turn(task)
        };
        assert!(matches!(self.apply(scheduled).await, Outcome::Done { .. }));
    }

    pub(crate) async fn claim_activity(&self, of: &str) -> ClaimedTask {
        let claim = self.claim_of(TaskKind::Activity, of, 1);
        self.claim(&claim)
            .await
            .tasks
            .pop()
            .expect("a due activity")
    }

    pub(crate) fn attempt(&self) -> AttemptId {
        self.ids.attempt()
    }
}

/// A turn that ends the claim of `task` and waits for nothing.
pub(crate) fn turn(task: &ClaimedTask) -> Turn {
    Turn {
        fence: Fence::Task(held(task)),
        run: task.task.run.clone(),
        history_length: 1,
        records: Vec::new(),
        drained: 0,
        fingerprint: None,
        buffered: None,
        activities: Vec::new(),
        dropped: Vec::new(),
        children: Vec::new(),
        not_started: None,
        deliveries: Vec::new(),
        marks: Marks::default(),
        then: Then::Wait {
            due: None,
            wait: None,
        },
    }
}

pub(crate) fn signal(run: &RunId) -> Deliver {
    Deliver {
        target: Target::Run(run.clone()),
        record: record("SignalReceived", 0),
        request: None,
        at_most: None,
    }
}

pub(crate) fn activity(step: u64, of: &str) -> NewActivity {
    NewActivity {
        step,
        scheduled_seq: 2,
        name: TypeName::new(TYPE).expect("a name"),
        queue: queue(of),
        priority: Priority::default(),
        timeouts: Timeouts::default(),
        lease: None,
    }
}

pub(crate) fn namespace() -> Namespace {
    Namespace::new("tests").expect("a namespace")
}

pub(crate) fn queue(name: &str) -> Queue {
    Queue::new(name).expect("a queue")
}

pub(crate) fn owner(name: &str) -> OwnerId {
    OwnerId::new(name).expect("an owner")
}

pub(crate) fn request(id: &str) -> RequestId {
    RequestId::new(id).expect("an id")
}

pub(crate) fn signal_request(id: &str) -> (CommandKind, RequestId) {
    (CommandKind::Signal, request(id))
}

/// A record that carries bytes that are no text.
pub(crate) fn record(kind: &str, seq: u64) -> Record {
    Record {
        seq,
        at: Timestamp::from_micros(1_700_000_000_000_001),
        step: None,
        kind: kind.to_owned(),
        details: Some(r#"{"name":"ä 名"}"#.to_owned()),
        payload: Some(Payload {
            codec: "raw".into(),
            bytes: [0_u8, 255, 10, 39].as_slice().into(),
        }),
    }
}

pub(crate) fn held(task: &ClaimedTask) -> Held {
    Held {
        task: task.task.id.clone(),
        epoch: task.task.epoch,
        holder: Holder::Owner(owner("a")),
    }
}

pub(crate) fn workflow_task(run: &RunId) -> TaskId {
    TaskId::of(run, 0)
}

pub(crate) fn settle(task: &ClaimedTask) -> Settle {
    Settle {
        held: held(task),
        run: task.task.run.clone(),
        record: Record {
            step: task.task.step,
            ..record("ActivityCompleted", 0)
        },
        attempt: None,
    }
}

pub(crate) fn closing(closed: Closed) -> Closing {
    Closing {
        closed,
        to_parent: Some(record("ChildCompleted", 0)),
        terminate_child: record("Terminated", 0),
        cancel_child: record("CancelRequested", 0),
        next: None,
    }
}

pub(crate) fn completed() -> Closed {
    Closed::Completed(Payload::json(&1).expect("json"))
}

/// What can be applied as it is.
pub(crate) trait IntoWrite {
    fn into_write(self) -> Write;
}

macro_rules! into_write {
    ($($Type:ident => $make:expr;)+) => {$(
        impl IntoWrite for coord_engine::store::$Type {
            fn into_write(self) -> Write {
                $make(self)
            }
        }
    )+};
}

into_write! {
    Start => |it| Write::Start(Box::new(it));
    Deliver => |it| Write::Deliver(Box::new(it));
    Append => Write::Append;
    Turn => |it| Write::Turn(Box::new(it));
    Settle => Write::Settle;
    PutBack => Write::PutBack;
    Terminate => |it| Write::Terminate(Box::new(it));
}

impl IntoWrite for Write {
    fn into_write(self) -> Write {
        self
    }
}
