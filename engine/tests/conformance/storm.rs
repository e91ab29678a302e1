//! Workers as processes of their own, which are killed and paused while they work.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coord_core::{Env, Variable};
use coord_engine::client::Handle;
use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::model::{EventKind, Failure, Queue, RequestId, WorkflowId};
use coord_engine::worker::Attempt;
use tokio::time::Instant;

use crate::dialect::Database;
use crate::stage::{Stage, namespace};

const SUM: Workflow<u64, u64> = Workflow::new("tests.sum");
const ADD: Activity<(u64, u64), u64> = Activity::new("tests.add");
const MORE: Signal<u64> = Signal::new("more");
/// How long a step of a run takes.
const STEP: Duration = Duration::from_millis(150);
/// Longer than a process is taken for alive.
const PAUSE: Duration = Duration::from_secs(17);
/// How long it takes at most to take back what dies with the leader, and to do it once more.
const SOON: Duration = Duration::from_mins(2);
const RUNS: u64 = 30;
const SIGNALS: u64 = 2;

async fn add(_: Attempt, (left, right): (u64, u64)) -> Result<u64, Failure> {
    tokio::time::sleep(STEP).await;
    Ok(left + right)
}

/// Adds 1, 2, 3, 4 and two signals to `start`, in every way in which a run goes on.
async fn sum(ctx: Context, start: u64) -> Result<u64, Failure> {
    let mut sum = ctx.activity(ADD, &(start, 1)).await?;
    ctx.sleep(STEP).await?;
    sum += ctx.signal(MORE).recv().await?;
    let step = ctx.step("two", || async {
        tokio::time::sleep(STEP).await;
        Ok::<u64, Failure>(2)
    });
    sum += step.await?;
    sum = ctx.activity(ADD, &(sum, 3)).await?;
    sum += ctx.signal(MORE).recv().await?;
    ctx.activity(ADD, &(sum, 4)).await
}

/// Where a worker finds its database.
const WORKER: Variable = Variable::new(
    "COORD_TEST_WORKER",
    "",
    "database of a worker process of a test",
);

struct Process {
    child: Child,
    says: std::thread::JoinHandle<String>,
}

impl Process {
    #[allow(clippy::disallowed_methods, reason = "`end` joins the thread")]
    fn start(address: &str) -> Self {
        let test = std::env::current_exe().expect("this program");
        let mut child = Command::new(&test)
            .args(["a_worker_of_another_test", "--exact", "--nocapture"])
            .env(WORKER.name, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut stderr = child.stderr.take().expect("piped");
        let says = std::thread::spawn(move || {
            let mut text = String::new();
            // It ends with the process, however that ends.
            _ = stderr.read_to_string(&mut text);
            text
        });
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        while !lines
            .next()
            .expect("a line")
            .expect("text")
            .contains("ready")
        {}
        Self { child, says }
    }

    fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        kill.args([name, &self.child.id().to_string()]);
        assert!(kill.status().expect("kill").success());
    }

    fn end(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
        let text = self.says.join().expect("read");
        assert!(!text.contains("panicked"), "{text}");
    }
}

async fn ended_right(number: u64, handle: &Handle<u64>) {
    let sum = handle.result(SOON).await.expect("an answer");
    let history = handle.history().await.expect("a history");
    assert_eq!(sum, Some(Ok(number + 30)), "{history:#?}");
    let places: Vec<_> = history.iter().map(|event| event.seq).collect();
    assert!(
        places.iter().copied().eq(1..=places.len() as u64),
        "{places:?}"
    );
    let count = |is: fn(&EventKind) -> bool| history.iter().filter(|it| is(&it.kind)).count();
    assert_eq!(count(|it| matches!(it, EventKind::ActivityCompleted(_))), 3);
    assert_eq!(count(|it| matches!(it, EventKind::StepCompleted(_))), 1);
    assert_eq!(count(|it| matches!(it, EventKind::SignalReceived(_))), 2);
}

pub(crate) async fn every_run_ends_once_whatever_becomes_of_its_processes(stage: Stage) {
    let empty = stage.database.another().await;
    let Some(address) = empty.address() else {
        return;
    };
    // All at once on the empty one.
    let mut processes: Vec<_> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| Process::start(&address)))
            .collect();
        starting
            .into_iter()
            .map(|it| it.join().expect("started"))
            .collect()
    });
    let engine = empty.engine().await;
    let client = engine.client(namespace(), Queue::default());
    let mut handles = Vec::new();
    for number in 0..RUNS {
        let id = WorkflowId::new(format!("sum-{number}")).expect("an id");
        handles.push(
            client
                .start(SUM, id, &number)
                .await
                .expect("started")
                .handle,
        );
    }

    let paused = processes.pop().expect("three");
    paused.signal("-STOP");
    let since = Instant::now();
    for round in 0..SIGNALS {
        for (number, handle) in handles.iter().enumerate() {
            let request = RequestId::new(format!("{round}-{number}")).expect("an id");
            for _ in 0..2 {
                let sent = handle.signal(MORE, &10).request(request.clone());
                sent.await.expect("sent");
            }
        }
        processes.remove(0).end();
        processes.push(Process::start(&address));
        tokio::time::sleep(STEP * 3).await;
    }
    tokio::time::sleep_until(since + PAUSE).await;
    paused.signal("-CONT");
    processes.push(paused);

    for (number, handle) in handles.iter().enumerate() {
        ended_right(number as u64, handle).await;
    }
    processes.into_iter().for_each(Process::end);
    drop(engine);
}

/// Works on runs until its parent is gone.
pub(crate) async fn worker() {
    let env = Env::process();
    let Some(address) = env.text(&WORKER).expect("readable") else {
        return;
    };
    let engine = Database::engine_at_address(address).start().await;
    let engine = engine.expect("it starts");
    let worker = engine.worker(namespace(), Queue::default());
    let _worker = worker.workflow(SUM, sum).activity(ADD, add).start();
    println!("ready");
    let parent = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    _ = parent.await;
}
