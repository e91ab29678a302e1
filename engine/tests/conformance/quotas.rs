//! Bounds of queues and namespaces, over all who claim.

use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use coord_core::{Env, Variable};
use coord_engine::flow::{Activity, Context, Workflow};
use coord_engine::model::{Failure, Namespace, Queue, TaskKind, WorkflowId};
use coord_engine::store::{Claim, Outcome, Quota, QuotaOf, Start, Store, Write};
use coord_engine::worker::Attempt;
use coord_engine::{Bound, Quotas};

use crate::dialect::Database;
use crate::stage::{LONG, Stage, queue, turn};
use crate::writes::{is_done, join_all};

/// How many processes, and what they may do together.
const PROCESSES: usize = 3;
const BOUND: i64 = 2;
const RUNS: u32 = 12;

fn quota(of: QuotaOf, active: Option<u32>, per_minute: Option<u32>) -> Quota {
    Quota {
        kind: TaskKind::Workflow,
        of,
        active,
        per_minute,
    }
}

impl Stage {
    async fn start_in(&self, of: &str, count: usize) {
        let starts = (0..count).map(|number| {
            Write::Start(Box::new(Start {
                queue: queue(of),
                ..self.new_run(&format!("{of}-{number}"))
            }))
        });
        self.batch(starts).await;
    }

    fn bounded(&self, of: &str, limit: u32, quotas: &[Quota]) -> Claim {
        Claim {
            quotas: quotas.to_vec(),
            ..self.claim_of(TaskKind::Workflow, of, limit)
        }
    }
}

pub(crate) async fn a_quota_of_leases_holds_over_all_who_claim(stage: Stage) {
    stage.start_in("q", 24).await;
    let of_three = [quota(QuotaOf::Queue, Some(3), None)];
    let stores: Vec<_> = (0..4).map(|_| stage.database.open()).collect();
    let (active, left) = (AtomicI64::new(0), AtomicI64::new(24));
    let work = async |store: &dyn Store| {
        while left.load(Ordering::SeqCst) > 0 {
            let claim = stage.bounded("q", 5, &of_three);
            let tasks = store.claim(&claim).await.expect("claimed").tasks;
            let count = i64::try_from(tasks.len()).expect("a few");
            let now = active.fetch_add(count, Ordering::SeqCst) + count;
            assert!(now <= 3, "{now} at a time");
            for task in tasks {
                // Less is counted here than is leased: never more.
                active.fetch_sub(1, Ordering::SeqCst);
                let done = store.apply(&[Write::Turn(Box::new(turn(&task)))]).await;
                let done = done.expect("applied").outcomes.pop().expect("an outcome");
                assert!(matches!(done, Outcome::Done { .. }), "{done:?}");
                left.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };

    join_all(stores.iter().map(|store| work(&**store)).collect()).await;

    assert_eq!(left.load(Ordering::SeqCst), 0, "all were served");
}

pub(crate) async fn a_quota_of_a_minute_holds_over_all_who_claim(stage: Stage) {
    stage.start_in("q", 4).await;
    // One a second, and one at once.
    let paced = stage.bounded("q", 4, &[quota(QuotaOf::Queue, None, Some(60))]);

    let first = stage.claim(&paced).await;
    let second = stage.other.claim(&paced).await.expect("an answer");

    assert_eq!((first.tasks.len(), second.tasks.len()), (1, 0));
    let again = second.next_due.expect("an instant");
    let wait = again.since(first.now);
    assert_eq!(wait, Duration::from_secs(1));
    stage.pass(again).await;
    assert_eq!(stage.claim(&paced).await.tasks.len(), 1);
}

pub(crate) async fn a_quota_of_a_namespace_counts_all_its_queues(stage: Stage) {
    stage.start_in("a", 3).await;
    stage.start_in("b", 3).await;
    let of_two = [quota(QuotaOf::Namespace, Some(2), None)];
    let claim = async |of: &str| {
        let claimed = stage.claim(&stage.bounded(of, 9, &of_two)).await;
        claimed.tasks
    };

    let first = claim("a").await;

    assert_eq!(first.len(), 2);
    assert!(claim("b").await.is_empty());
    assert!(is_done(&stage.apply(turn(&first[0])).await));
    assert_eq!(claim("b").await.len(), 1);
    // Whoever keeps to no quota is not held back by those of others.
    let free = stage.claim_of(TaskKind::Workflow, "b", 9);
    assert_eq!(stage.claim(&free).await.tasks.len(), 2);
}

const WORK: Workflow<u32, ()> = Workflow::new("tests.bounded");
const HOLD: Activity<u32, ()> = Activity::new("tests.hold");

/// Where a process finds its work: its database and its folder, between bars.
const NODE: Variable = Variable::new("COORD_TEST_QUOTA", "", "work of a child process of a test");

/// Adds to the number in a file that processes share, and says what it is then.
fn add(path: &Path, number: i64) -> i64 {
    let mut options = std::fs::File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).expect("a folder of its own");
    file.lock().expect("a lock of the system");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("a number");
    let sum = text.trim().parse().unwrap_or(0) + number;
    file.set_len(0).expect("writable");
    file.seek(SeekFrom::Start(0)).expect("its beginning");
    file.write_all(sum.to_string().as_bytes())
        .expect("writable");
    sum
}

/// Works until its standard input ends.
pub(crate) async fn node() {
    let env = Env::process();
    let Some(told) = env.text(&NODE).expect("readable") else {
        return;
    };
    let (address, folder) = told.split_once('|').expect("two words");
    let bound = Bound::active(u32::try_from(BOUND).expect("a few"));
    let quotas = Quotas::default().each_queue(TaskKind::Activity, bound);
    let builder = Database::engine_at_address(address).quotas(quotas);
    let engine = builder.start().await.expect("the same database");
    let folder = Path::new(folder).to_path_buf();
    let hold = move |_: Attempt, _: u32| {
        let (under_way, most) = (folder.join("under-way"), folder.join("most"));
        async move {
            if add(&under_way, 1) > BOUND {
                add(&most, 1);
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
            add(&under_way, -1);
            Ok::<_, Failure>(())
        }
    };
    let worker = engine.worker(Namespace::default(), Queue::default());
    let worker = worker
        .workflow(WORK, async |ctx: Context, number: u32| {
            ctx.activity(HOLD, &number).await
        })
        .activity(HOLD, hold)
        .start();
    let ends = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()));
    _ = ends.await.expect("it waits");
    worker.shutdown(LONG).await;
    engine.shutdown().await.expect("the database is there");
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

pub(crate) async fn bounded_processes_run_no_more_than_their_bound(stage: Stage) {
    let Some(address) = stage.database.address() else {
        return;
    };
    let folder = tempfile::tempdir().expect("room for a folder");
    let test = std::env::current_exe().expect("this program");
    let told = format!("{address}|{}", folder.path().display());
    let processes: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let child = Command::new(&test)
                .args([
                    "a_bounded_process_of_another_test",
                    "--exact",
                    "--nocapture",
                ])
                .env(NODE.name, &told)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn();
            Process(child.expect("a child"))
        })
        .collect();
    let engine = stage.database.engine().await;
    let client = engine.client(Namespace::default(), Queue::default());
    for number in 0..RUNS {
        let id = WorkflowId::new(number.to_string()).expect("an id");
        client.start(WORK, id, &number).await.expect("started");
    }

    for number in 0..RUNS {
        let id = WorkflowId::new(number.to_string()).expect("an id");
        let ended = client.handle(WORK, id).result(2 * LONG).await;
        assert_eq!(ended.expect("an answer"), Some(Ok(())), "run {number}");
    }

    assert_eq!(add(&folder.path().join("under-way"), 0), 0);
    let beyond = add(&folder.path().join("most"), 0);
    assert_eq!(beyond, 0, "how often more than {BOUND} were under way");
    drop(processes);
}
