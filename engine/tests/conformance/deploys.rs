//! Deploys: processes of one build make room for those of another.

use std::fmt::Display;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coord_core::{Env, Variable};
use coord_engine::client::Client;
use coord_engine::compatibility::{Compatibility, Supported};
use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::model::{BuildId, Failure, Namespace, Queue, WorkflowId};
use coord_engine::store::{OpenTask, WorkerFilter};
use coord_engine::worker::Attempt;
use coord_engine::{BuildStatus, Engine, Recovery};

use crate::dialect::Database;
use crate::stage::Stage;

/// Who took each part of a run: the builds that its process supports.
const WORK: Workflow<(), Vec<String>> = Workflow::new("tests.deployed");
const STAMP: Activity<(), String> = Activity::new("tests.stamp");
const GO: Signal<()> = Signal::new("go");
const RUNS: u32 = 12;
const OLD: &str = "v1";
const NEW: &str = "v2";
/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(2);

/// Where a node finds its work: its database, its build and what it supports, between bars.
const NODE: Variable = Variable::new("COORD_TEST_BUILD", "", "work of a child process of a test");

fn build(name: &str) -> BuildId {
    BuildId::new(name).expect("a build")
}

fn id(name: impl Display) -> WorkflowId {
    WorkflowId::new(name.to_string()).expect("an id")
}

/// Short, since a process that was killed counts as there for so long.
fn recovery() -> Recovery {
    let mut recovery = Recovery::default();
    recovery.ttl = Duration::from_secs(8);
    recovery.heartbeat = Duration::from_secs(1);
    recovery.every = Duration::from_millis(500);
    recovery.term = Duration::from_secs(2);
    recovery
}

/// A part before the signal and one after it, each as a step here and an activity anywhere.
async fn work(ctx: Context, own: String) -> Result<Vec<String>, Failure> {
    let mut parts = Vec::new();
    for part in 0..2 {
        if part == 1 {
            ctx.signal(GO).recv().await?;
        }
        let own = own.clone();
        parts.push(
            ctx.step("here", move || async move { Ok::<_, Failure>(own) })
                .await?,
        );
        parts.push(ctx.activity(STAMP, &()).await?);
    }
    Ok(parts)
}

/// Works until its standard input ends, and then stops as a service does.
pub(crate) async fn node() {
    let env = Env::process();
    let Some(told) = env.text(&NODE).expect("readable") else {
        return;
    };
    let told: Vec<&str> = told.split('|').collect();
    let [address, current, supported] = told[..] else {
        panic!("three words, not {told:?}");
    };
    let builds = supported.split(',').map(build).collect();
    let compatibility = Compatibility::of(build(current)).supporting(Supported::Only(builds));
    let builder = Database::engine_at_address(address).recovery(recovery());
    let engine = builder.compatibility(compatibility).start().await;
    let engine = engine.expect("the same database");
    let worker = engine.worker(Namespace::default(), Queue::default());
    let (here, there) = (supported.to_owned(), supported.to_owned());
    let worker = worker
        .workflow(WORK, move |ctx: Context, (): ()| work(ctx, here.clone()))
        .activity(STAMP, move |_: Attempt, (): ()| {
            let stamp = there.clone();
            async move { Ok::<_, Failure>(stamp) }
        })
        .start();
    let ends = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()));
    _ = ends.await.expect("it waits");
    worker.shutdown(Duration::from_secs(10)).await;
    engine.shutdown().await.expect("the database is there");
}

/// A process with such a node. It dies with this value.
struct Node(Child);

impl Node {
    /// Stops as a service does.
    fn stop(mut self) {
        drop(self.0.stdin.take());
        let status = tokio::task::block_in_place(|| self.0.wait());
        assert!(status.expect("our child").success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// What the test sees of it all.
struct Deploy {
    address: String,
    engine: Engine,
    client: Client,
}

impl Deploy {
    /// Waits until `is` says so.
    async fn until(&self, about: &str, mut is: impl AsyncFnMut() -> bool) {
        let waits = async {
            while !is().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(SOON, waits).await;
        waited.unwrap_or_else(|_| panic!("{about}"));
    }

    /// How many live workers there are by what they support.
    async fn workers(&self, supported: &str) -> usize {
        let workers = self.engine.workers(&WorkerFilter::default()).await;
        let workers = workers.expect("an answer").into_iter().filter(|worker| {
            let wanted = supported.split(',').map(build).collect();
            worker.enlistment.supported == Supported::Only(wanted)
        });
        workers.count()
    }

    async fn node(&self, current: &str, supported: &str) -> Node {
        let before = self.workers(supported).await;
        let test = std::env::current_exe().expect("this program");
        let child = Command::new(test)
            .args(["a_build_of_another_test", "--exact", "--nocapture"])
            .env(NODE.name, format!("{}|{current}|{supported}", self.address))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        let node = Node(child.expect("a child"));
        let about = format!("a worker of {supported} is seen");
        self.until(&about, async || self.workers(supported).await > before)
            .await;
        node
    }

    /// Starts runs; what the last of them is marked with.
    async fn start(&self, name: &str) -> String {
        let mut mark = String::new();
        for number in 0..RUNS {
            let id = id(format_args!("{name}-{number}"));
            let started = self.client.start(WORK, id, &()).await.expect("started");
            let described = started.handle.describe().await.expect("an answer");
            let build = described.expect("a run").run.build;
            mark = build.expect("a mark").to_string();
        }
        mark
    }

    async fn go(&self, name: &str) {
        for number in 0..RUNS {
            let handle = self
                .client
                .handle(WORK, id(format_args!("{name}-{number}")));
            handle.signal(GO, &()).await.expect("sent");
        }
    }

    /// All runs end, each part of each by a process that supports its mark. Who took them.
    async fn all_end(&self, name: &str) -> Vec<String> {
        let mut parts = Vec::new();
        for number in 0..RUNS {
            let handle = self
                .client
                .handle(WORK, id(format_args!("{name}-{number}")));
            let ended = handle.result(SOON).await.expect("an answer");
            let taken = ended.expect("it ends").expect("its result");
            let described = handle.describe().await.expect("an answer");
            let mark = described.expect("a run").run.build.expect("a mark");
            for by in &taken {
                let supports = by.split(',').any(|name| name == mark.as_str());
                assert!(supports, "a part of {mark} was taken by {by}");
            }
            assert_eq!(taken.len(), 4);
            parts.extend(taken);
        }
        parts
    }

    async fn status(&self, name: &str) -> (BuildStatus, u64) {
        let builds = self.client.builds().await.expect("an answer");
        let found = builds.into_iter().find(|it| it.build.as_str() == name);
        let found = found.expect("a build");
        (found.status, found.open_runs)
    }

    async fn tasks(&self, name: &str) -> Vec<OpenTask> {
        let mut tasks = Vec::new();
        for number in 0..RUNS {
            let handle = self
                .client
                .handle(WORK, id(format_args!("{name}-{number}")));
            let described = handle.describe().await.expect("an answer");
            tasks.extend(described.expect("a run").tasks);
        }
        tasks
    }
}

pub(crate) async fn a_rolling_deploy_runs_nothing_on_a_build_that_does_not_support_it(
    stage: Stage,
) {
    let Some(address) = stage.database.address() else {
        return;
    };
    let builder = Database::engine_at_address(&address);
    let builder = builder.compatibility(Compatibility::of(build(OLD)));
    let engine = builder.start().await.expect("the same database");
    let client = engine.client(Namespace::default(), Queue::default());
    let deploy = Deploy {
        address,
        engine,
        client,
    };
    let (old, older) = (deploy.node(OLD, OLD).await, deploy.node(OLD, OLD).await);
    assert_eq!(deploy.start("old").await, OLD);
    deploy
        .until("the old ones wait for their signal", async || {
            deploy.tasks("old").await.is_empty()
        })
        .await;

    // The new build comes; runs that start from now on are its own.
    let new = deploy.node(NEW, NEW).await;
    deploy
        .client
        .promote_build(build(NEW))
        .await
        .expect("promoted");
    deploy
        .client
        .drain_build(build(OLD))
        .await
        .expect("drained");
    deploy
        .until("new runs are of the new build", async || {
            let id = WorkflowId::new(format!("probe-{:016x}", rand::random::<u64>()));
            let probe = deploy.client.start(WORK, id.expect("an id"), &()).await;
            let handle = probe.expect("started").handle;
            let described = handle.describe().await.expect("an answer").expect("a run");
            handle.terminate("a probe").await.expect("ended");
            described.run.build == Some(build(NEW))
        })
        .await;
    assert_eq!(deploy.start("new").await, NEW);

    // The old processes go, one as it should and one as it should not, before their runs do.
    old.stop();
    drop(older);
    let newer = deploy.node(NEW, NEW).await;
    deploy.go("old").await;
    deploy.go("new").await;
    let taken = deploy.all_end("new").await;
    assert!(taken.iter().all(|by| by == NEW));

    // Those of the old build stand, untouched and counted with their age.
    deploy
        .until("the old ones are counted", async || {
            let blocked = deploy.engine.blocked_runs().await.expect("an answer");
            blocked.runs() == u64::from(RUNS) && blocked.age() > Duration::from_secs(1)
        })
        .await;
    let blocked = deploy.engine.blocked_runs().await.expect("an answer");
    println!(
        "{} runs wait for {OLD}, {:?}",
        blocked.runs(),
        blocked.age()
    );
    let tasks = deploy.tasks("old").await;
    assert_eq!(tasks.len(), RUNS as usize);
    assert!(
        tasks
            .iter()
            .all(|task| task.status == "ready" && task.attempt == 0),
        "{tasks:?}"
    );
    assert_eq!(
        deploy.status(OLD).await,
        (BuildStatus::Draining, u64::from(RUNS))
    );
    assert_eq!(deploy.status(NEW).await, (BuildStatus::Promoted, 0));

    // A process that supports both goes on with them.
    let both = deploy.node(NEW, &format!("{OLD},{NEW}")).await;
    let taken = deploy.all_end("old").await;

    assert!(taken.iter().any(|by| by == OLD), "the parts before");
    assert!(taken.iter().any(|by| by != OLD), "the parts after");
    let blocked = deploy.engine.blocked_runs().await.expect("an answer");
    assert_eq!((blocked.runs(), blocked.oldest()), (0, None));
    assert_eq!(deploy.status(OLD).await, (BuildStatus::Drained, 0));
    for node in [new, newer, both] {
        node.stop();
    }
}
