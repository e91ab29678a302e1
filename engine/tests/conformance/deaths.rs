//! Processes that end, however they end, and others that go on with what they had.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coord_core::{Env, ErrorKind, Variable};
use coord_engine::client::Client;
use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{EventKind, Failure, Namespace, NodeName, Queue, WorkflowId};
use coord_engine::store::Role;
use coord_engine::worker::Attempt;
use coord_engine::{Engine, Recovery};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::dialect::Database;
use crate::stage::{LONG, Stage, owner, queue};

pub(super) const WORK: Workflow<u32, u32> = Workflow::new("tests.work");
const HANG: Activity<u32, u32> = Activity::new("tests.hang");
pub(super) const CHAIN: Workflow<u32, u32> = Workflow::new("tests.chain");
pub(super) const LINK: Activity<(u32, u32), u32> = Activity::new("tests.link");
pub(super) const RUNS: u32 = 50;
/// Of the nodes' leases: what takes less than half of it was not found by the end of a lease.
pub(super) const LEASE: Duration = Duration::from_mins(1);
/// Far above what anything here takes, so that only what never happens runs into it.
pub(super) const SOON: Duration = Duration::from_mins(2);

/// Where a node finds its work: its database, its queue, its folder, its life, and its name if it is
/// exclusive, between bars.
const NODE: Variable = Variable::new("COORD_TEST_NODE", "", "work of a child process of a test");

pub(super) fn recovery(ttl: Duration) -> Recovery {
    let mut recovery = Recovery::default();
    recovery.ttl = ttl;
    recovery.heartbeat = Duration::from_secs(1);
    recovery.every = Duration::from_millis(500);
    recovery.term = Duration::from_secs(2);
    recovery
}

/// Long enough for a process that is busy, and far shorter than a lease.
pub(super) const LIFE: Duration = Duration::from_secs(8);

/// A file to which nodes add lines.
#[derive(Clone)]
pub(super) struct Book(PathBuf);

impl Book {
    fn add(&self, line: impl Display) {
        let mut options = std::fs::File::options();
        let file = options.append(true).create(true).open(&self.0);
        let line = format!("{line}\n");
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("a folder of its own");
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// When each number was had for the first time, or the second, in ms.
    pub(super) fn attempts(&self, attempt: u32) -> BTreeMap<u32, Vec<u64>> {
        let mut attempts = BTreeMap::<_, Vec<_>>::new();
        for line in self.lines() {
            let words: Vec<u64> = line
                .split(' ')
                .filter_map(|word| word.parse().ok())
                .collect();
            if let [number, of, at] = words[..]
                && of == u64::from(attempt)
            {
                let number = u32::try_from(number).expect("as it was written");
                attempts.entry(number).or_default().push(at);
            }
        }
        attempts
    }

    pub(super) async fn holds(&self, count: usize, about: &str, line: impl Fn(&str) -> bool) {
        let waits = async {
            while self.lines().iter().filter(|text| line(text)).count() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(SOON, waits).await;
        waited.unwrap_or_else(|_| panic!("{about}: {:?}", self.lines()));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "processes of one machine are compared, and only for a figure"
)]
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("after 1970").as_millis();
    u64::try_from(since).expect("before the end of time")
}

/// Says that an attempt was given up.
struct Given<'a>(&'a Book, bool);

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.add("given up");
        }
    }
}

/// Works until its standard input ends, and then stops as a service does. Each activity hangs the
/// first time.
pub(crate) async fn node() {
    let env = Env::process();
    let Some(told) = env.text(&NODE).expect("readable") else {
        return;
    };
    let told: Vec<&str> = told.split('|').collect();
    let [address, queue, folder, ttl_ms, name] = told[..] else {
        panic!("five words, not {told:?}");
    };
    let book = Book(Path::new(folder).join("book"));
    let ttl = Duration::from_millis(ttl_ms.parse().expect("a number"));
    let builder = Database::engine_at_address(address).recovery(recovery(ttl));
    let builder = match name {
        // As if all ran on one machine: the name says nothing.
        "" => builder.node(NodeName::new("node").expect("a name")),
        name => builder.exclusive(NodeName::new(name).expect("a name")),
    };
    let engine = builder.start().await.expect("the same database");
    let work = async |ctx: Context, number: u32| ctx.activity(HANG, &number).await;
    let effects = book.clone();
    let hang = move |_: Attempt, number: u32| {
        let book = effects.clone();
        async move {
            // What is given back as if it had not begun has the same number again.
            let of_it = format!("{number} ");
            let lines = book.lines();
            let before = lines.iter().filter(|line| line.starts_with(&of_it));
            let time = u32::try_from(before.count()).expect("a few") + 1;
            let pid = std::process::id();
            book.add(format_args!("{number} {time} {} by-{pid}", now_ms()));
            let mut given = Given(&book, false);
            if time == 1 {
                std::future::pending::<()>().await;
            }
            given.1 = true;
            Ok::<_, Failure>(time)
        }
    };
    let worker = engine.worker(Namespace::default(), Queue::new(queue).expect("a name"));
    let worker = worker
        .workflow(WORK, work)
        .activity(HANG, hang)
        .workflow(CHAIN, chain)
        .activity(LINK, link(book.clone()))
        .lease(LEASE);
    let worker = worker.start();
    book.add(format_args!("ready {}", std::process::id()));
    let ends = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()));
    _ = ends.await.expect("it waits");
    worker.shutdown(Duration::ZERO).await;
    engine.shutdown().await.expect("the database is there");
}

/// Three activities, each of which takes a moment and then has an effect.
pub(super) async fn chain(ctx: Context, number: u32) -> Result<u32, Failure> {
    let mut sum = 0;
    for step in 1..=3 {
        sum += ctx.activity(LINK, &(number, step)).await?;
    }
    Ok(sum)
}

type Linked = std::pin::Pin<Box<dyn Future<Output = Result<u32, Failure>> + Send>>;

fn link(book: Book) -> impl Fn(Attempt, (u32, u32)) -> Linked + Send + Sync + 'static {
    move |_, (number, step)| {
        let book = book.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            book.add(format_args!("effect {number}-{step}"));
            Ok(step)
        })
    }
}

/// A process with such a node. It dies with this value.
pub(super) struct Node(Child);

impl Node {
    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Has it stop as a service does, and waits until it has.
    pub(super) fn stop(mut self) {
        drop(self.0.stdin.take());
        let status = tokio::task::block_in_place(|| self.0.wait());
        assert!(status.expect("our child").success());
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).expect("a process number");
        kill(Pid::from_raw(pid), signal).expect("our child");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Nodes on a database.
pub(super) struct Nodes {
    pub(super) stage: Stage,
    address: String,
    folder: tempfile::TempDir,
    ttl: Duration,
    /// How many runs it is given.
    runs: u32,
    engine: Engine,
    _place: SemaphorePermit<'static>,
}

/// Fleets at a time: each takes some dozens of the hundred connections that a server has by default.
static PLACES: Semaphore = Semaphore::const_new(2);

impl Nodes {
    /// None on what lives in one process.
    pub(super) async fn on(stage: Stage, ttl: Duration) -> Option<Self> {
        let address = stage.database.address()?;
        let place = PLACES.acquire().await.expect("nobody closes it");
        let engine = stage.database.builder().without_recovery().start().await;
        Some(Self {
            address,
            // It watches, and takes no part.
            engine: engine.expect("it starts"),
            folder: tempfile::tempdir().expect("room for a folder"),
            stage,
            ttl,
            runs: RUNS,
            _place: place,
        })
    }

    pub(super) fn book(&self) -> Book {
        Book(self.folder.path().join("book"))
    }

    pub(super) fn client(&self) -> Client {
        self.engine.client(Namespace::default(), queue("q"))
    }

    pub(super) async fn node(&self, queue: &str) -> Node {
        self.node_with(queue, "", &[]).await
    }

    /// One with the name `exclusive`, if that is one, and more in its environment.
    pub(super) async fn node_with(
        &self,
        queue: &str,
        exclusive: &str,
        env: &[(&str, String)],
    ) -> Node {
        let test = std::env::current_exe().expect("this program");
        let (folder, ttl) = (self.folder.path().display(), self.ttl.as_millis());
        let child = Command::new(test)
            .args(["a_node_of_another_test", "--exact", "--nocapture"])
            .env(
                NODE.name,
                format!("{}|{queue}|{folder}|{ttl}|{exclusive}", self.address),
            )
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        let node = Node(child.expect("a child"));
        let ready = format!("ready {}", node.0.id());
        self.book().holds(1, &ready, |line| line == ready).await;
        node
    }

    /// Waits until somebody leads.
    pub(super) async fn somebody_leads(&self) {
        let shortest = Duration::from_millis(1);
        let waits = async {
            let me = owner("test");
            let elect = || self.stage.store.elect(Role::Recovery, &me, shortest);
            while elect().await.expect("an answer").is_some() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(SOON, waits).await.expect("it leads");
    }

    /// Three nodes, one of which leads and one of which has all runs; perhaps it is the same.
    pub(super) async fn three(&self, is_leader: bool) -> [Node; 3] {
        let first = self.node(if is_leader { "q" } else { "idle" }).await;
        self.somebody_leads().await;
        let busy = if is_leader {
            None
        } else {
            Some(self.node("q").await)
        };
        self.all_hang().await;
        let third = self.node("q").await;
        match busy {
            Some(busy) => [busy, first, third],
            None => [first, self.node("q").await, third],
        }
    }

    /// Starts all runs, and returns when each of them hangs for the first time.
    pub(super) async fn all_hang(&self) {
        for number in 0..self.runs {
            let started = self.client().start(WORK, id(number), &number).await;
            assert!(started.expect("its database").was_created);
        }
        let book = self.book();
        book.holds(self.runs as usize, "all are under way", |line| {
            line.split(' ').nth(1) == Some("1")
        })
        .await;
    }

    /// Every run has ended by the second time, once. Says how long after `since` the first and
    /// the last of them began.
    pub(super) async fn all_end(&self, since: u64) -> (Duration, Duration) {
        for number in 0..self.runs {
            let handle = self.client().handle(WORK, id(number));
            // Somebody may be taking the database away meanwhile, which is no answer.
            let answered = tokio::time::timeout(SOON, async {
                loop {
                    match handle.result(SOON).await {
                        Err(error) if error.kind() == ErrorKind::Unavailable => {}
                        answer => return answer,
                    }
                }
            });
            let result = answered.await.expect("an answer").expect("a run");
            assert_eq!(result, Some(Ok(2)), "run {number}");
            let history = handle.history().await.expect("a history");
            let ends = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted(_));
            let ended = history.iter().filter(|event| ends(&event.kind)).count();
            assert_eq!(ended, 1, "run {number}");
        }
        for attempt in [1, 2] {
            let attempts = self.book().attempts(attempt);
            assert_eq!(attempts.len(), self.runs as usize);
            assert!(attempts.values().all(|at| at.len() == 1), "{attempts:?}");
        }
        assert!(self.book().attempts(3).is_empty());
        let attempts = self.book().attempts(2);
        let after =
            |at: Option<&u64>| Duration::from_millis(at.expect("one").saturating_sub(since));
        let all: Vec<u64> = attempts.into_values().flatten().collect();
        (after(all.iter().min()), after(all.iter().max()))
    }
}

pub(super) fn id(number: u32) -> WorkflowId {
    WorkflowId::new(number.to_string()).expect("an id")
}

async fn a_killed_process(stage: Stage, is_leader: bool, runs: u32) {
    let Some(mut nodes) = Nodes::on(stage, LIFE).await else {
        return;
    };
    nodes.runs = runs;
    let [dying, _one, _other] = nodes.three(is_leader).await;

    let killed = now_ms();
    drop(dying);
    let (first, last) = nodes.all_end(killed).await;

    let who = if is_leader {
        "the leader"
    } else {
        "a follower"
    };
    let effects = nodes.book().attempts(1).len() + nodes.book().attempts(2).len();
    println!(
        "killed {who} with a life of {LIFE:?} and {runs} steps under way: again from {first:?} to \
         {last:?}; {runs} results, none twice; {effects} effects"
    );
    assert!(last < LEASE / 2, "from {first:?} to {last:?}");
}

pub(crate) async fn what_a_killed_process_had_goes_on_long_before_its_lease_ends(stage: Stage) {
    a_killed_process(stage, false, RUNS).await;
}

pub(crate) async fn the_only_step_of_a_killed_process_goes_on(stage: Stage) {
    a_killed_process(stage, false, 1).await;
}

pub(crate) async fn what_the_killed_leader_had_goes_on_long_before_its_lease_ends(stage: Stage) {
    a_killed_process(stage, true, RUNS).await;
}

pub(crate) async fn a_process_that_was_paused_for_longer_than_its_life_changes_nothing(
    stage: Stage,
) {
    let Some(nodes) = Nodes::on(stage, LIFE).await else {
        return;
    };
    let [paused, _one, _other] = nodes.three(true).await;
    let since = now_ms();
    paused.signal(Signal::SIGSTOP);
    let (first, last) = nodes.all_end(since).await;
    println!("paused the leader with a life of {LIFE:?}: again from {first:?} to {last:?}");

    paused.signal(Signal::SIGCONT);
    let book = nodes.book();
    book.holds(RUNS as usize, "it gives up", |line| line == "given up")
        .await;

    nodes.all_end(since).await;
}

pub(crate) async fn a_process_that_stops_is_not_waited_for(stage: Stage) {
    // Nobody is found dead meanwhile.
    let Some(nodes) = Nodes::on(stage, SOON).await else {
        return;
    };
    let [mut stopping, _one, _other] = nodes.three(true).await;

    let since = now_ms();
    drop(stopping.0.stdin.take());
    let (first, last) = nodes.all_end(since).await;

    println!("stopped the leader: again from {first:?} to {last:?}");
    assert!(last < LEASE / 2, "from {first:?} to {last:?}");
    let status = tokio::task::block_in_place(|| stopping.0.wait());
    assert!(status.expect("our child").success());
}

pub(crate) async fn a_process_that_leaves_gives_its_roles_up(stage: Stage) {
    let engine = stage.database.engine().await;
    let worker = engine.worker(Namespace::default(), queue("q")).start();
    let mine = owner("me");
    let waits = async {
        let elect = || {
            stage
                .store
                .elect(Role::Recovery, &mine, Duration::from_millis(1))
        };
        while elect().await.expect("an answer").is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, waits).await.expect("it leads");

    worker.shutdown(Duration::ZERO).await;
    engine.shutdown().await.expect("the database is there");

    for role in [Role::Recovery, Role::Scheduler, Role::Retention] {
        let term = stage.store.elect(role, &mine, LONG).await;
        assert!(term.expect("an answer").is_some(), "{role:?}");
    }
}
