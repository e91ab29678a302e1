//! A worker and a client on the store in memory.

mod activities;
mod builds;
mod chains;
mod faults;
mod fleet;
mod hostile;
mod limits;
mod namespaces;
mod programs;
mod quotas;
mod runs;
mod silent;
mod starts;
mod steps;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::Engine;
use crate::client::Client;
use crate::flow::{
    Activity, Context, Either, Query, Signal, Update, Workflow, join, join_all, select,
};
use crate::memory::Memory;
use crate::model::{EventKind, Failure, Namespace, Queue, RequestId, Retry, WorkflowId};
use crate::worker::{Attempt, Worker, WorkerBuilder};

const DOUBLE: Activity<u32, u32> = Activity::new("tests.double");
const SUM: Workflow<Vec<u32>, u32> = Workflow::new("tests.sum");
const APPROVED: Signal<String> = Signal::new("approved");
const COUNT: Query<(), u32> = Query::new("count");
const ADD: Update<u32, u32> = Update::new("add");
const MINUTE: Duration = Duration::from_mins(1);

struct Stage {
    engine: Engine,
    client: Client,
}

impl Stage {
    async fn new() -> Self {
        let engine = Engine::start(Memory::new())
            .await
            .expect("a store in memory");
        let client = engine.client(namespace(), queue());
        Self { engine, client }
    }

    fn worker(&self) -> WorkerBuilder {
        self.engine.worker(namespace(), queue())
    }

    fn sum_worker(&self) -> Worker {
        self.worker()
            .workflow(SUM, sum)
            .activity(DOUBLE, double)
            .start()
    }
}

fn namespace() -> Namespace {
    Namespace::new("tests").expect("a name")
}

fn queue() -> Queue {
    Queue::new("q").expect("a name")
}

fn id(text: &str) -> WorkflowId {
    WorkflowId::new(text).expect("an id")
}

async fn double(_: Attempt, number: u32) -> Result<u32, Failure> {
    Ok(number * 2)
}

async fn sum(ctx: Context, numbers: Vec<u32>) -> Result<u32, Failure> {
    let mut sum = 0;
    for number in numbers {
        sum += ctx.activity(DOUBLE, &number).await?;
    }
    Ok(sum)
}
