//! Tasks that are handed over to those who wait, on every dialect.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::Result;
use coord_engine::Engine;
use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::model::{BuildId, Due, Failure, Priority, Queue, TaskId, TaskKind, WorkflowId};
use coord_engine::store::{Claim, Quota, QuotaOf, Reply, Start};
use coord_engine::wake::{Desk, Handover};
use coord_engine::worker::{Attempt, Worker};
use tokio::sync::Notify;

use crate::stage::{LONG, Stage, namespace, queue, workflow_task};

/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(2);
const RUNS: u32 = 24;

const WORK: Workflow<u32, u32> = Workflow::new("tests.handed");
const ADD: Activity<u32, u32> = Activity::new("tests.add");
const GO: Signal<u32> = Signal::new("go");

impl Stage {
    /// The ids that a claim of these takes.
    async fn claim_only(&self, claim: Claim, only: &[&TaskId]) -> Vec<TaskId> {
        let claim = Claim {
            only: Some(only.iter().copied().cloned().collect()),
            ..claim
        };
        let claimed = self.claim(&claim).await;
        claimed.tasks.into_iter().map(|it| it.task.id).collect()
    }

    async fn start_as(&self, workflow: &str, of: &str, start: impl FnOnce(&mut Start)) -> TaskId {
        let mut new = Start {
            queue: queue(of),
            ..self.new_run(workflow)
        };
        start(&mut new);
        let task = workflow_task(&new.run);
        self.apply(new).await;
        task
    }
}

pub(crate) async fn a_claim_of_certain_tasks_takes_those_alone(stage: Stage) {
    let plain = |_: &mut Start| {};
    let other = stage.start_as("other", "q", plain).await;
    let urgent = |start: &mut Start| start.priority = Priority::new(1).expect("a priority");
    let first = stage.start_as("first", "q", urgent).await;
    let second = stage.start_as("second", "q", plain).await;
    let third = stage.start_as("third", "q", plain).await;
    let elsewhere = stage.start_as("elsewhere", "else", plain).await;
    let later = |start: &mut Start| start.due = Due::After(LONG);
    let later = stage.start_as("later", "q", later).await;
    let build = BuildId::new("old").expect("a build");
    let marked = |start: &mut Start| start.build = Some(build);
    let marked = stage.start_as("marked", "q", marked).await;
    let garbage = TaskId::new("{}:0").expect("an id");
    let of = |limit| Claim {
        builds: Some(Vec::new()),
        ..stage.claim_of(TaskKind::Workflow, "q", limit)
    };

    let none = [&elsewhere, &later, &marked, &garbage];
    assert_eq!(stage.claim_only(of(9), &none).await, []);
    assert_eq!(stage.claim_only(of(9), &[]).await, []);
    // The better priority first, and no more than there is room for.
    let two = [&second, &first, &first];
    let taken = stage.claim_only(of(1), &two).await;
    assert_eq!(taken, std::slice::from_ref(&first));
    let all = [&garbage, &third, &first, &second, &later, &third, &second];
    let mut rest = stage.claim_only(of(9), &all).await;
    rest.sort();
    let mut expected = [second, third];
    expected.sort();
    assert_eq!(rest, expected, "what somebody has is passed by");
    let bounded = Claim {
        quotas: vec![Quota {
            kind: TaskKind::Workflow,
            of: QuotaOf::Queue,
            active: Some(3),
            per_minute: None,
        }],
        ..of(9)
    };
    let held_back = stage.claim_only(bounded, &[&other]).await;
    assert_eq!(held_back, [], "a bound holds for them as well");
    let activities = stage.claim_of(TaskKind::Activity, "q", 9);
    assert_eq!(stage.claim_only(activities, &[&other]).await, []);
    assert_eq!(stage.claim_only(of(9), &[&other]).await, [other]);
}

/// What becomes of ids on their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lie {
    None,
    /// Every second one is gone.
    Drops,
    Doubles,
    /// Others come along that mean nothing, or a task that somebody else has.
    Garbage,
    /// Each comes after the next two.
    Delays,
    /// Nothing is taken.
    Refuses,
}

/// Hands ids over within this process, and lies.
#[derive(Clone)]
struct Desks(Arc<Inner>);

struct Inner {
    lie: Lie,
    handed: AtomicU32,
    /// What lies at each desk, and what came before.
    waiting: Mutex<HashMap<Desk, VecDeque<String>>>,
    news: Notify,
}

impl Desks {
    fn new(lie: Lie) -> Self {
        Self(Arc::new(Inner {
            lie,
            handed: AtomicU32::new(0),
            waiting: Mutex::default(),
            news: Notify::new(),
        }))
    }

    fn take_now(&self, desks: &[Desk], most: usize) -> Vec<String> {
        let keep = if self.0.lie == Lie::Delays { 2 } else { 0 };
        let mut waiting = self.0.waiting.lock().expect("no panic");
        let mut taken = Vec::new();
        for desk in desks {
            let Some(ids) = waiting.get_mut(desk) else {
                continue;
            };
            let count = ids.len().saturating_sub(keep).min(most);
            taken.extend(ids.drain(..count));
        }
        taken
    }

    fn hand_all(&self, desk: &Desk, tasks: &[TaskId]) -> Result<bool> {
        if self.0.lie == Lie::Refuses {
            return Err(coord_core::Error::unavailable("handing over: not today"));
        }
        let mut waiting = self.0.waiting.lock().expect("no panic");
        let Some(ids) = waiting.get_mut(desk) else {
            return Ok(false);
        };
        for task in tasks {
            let number = self.0.handed.fetch_add(1, Ordering::SeqCst);
            let id = task.to_string();
            match self.0.lie {
                Lie::Drops if number.is_multiple_of(2) => {}
                Lie::Doubles => ids.extend([id.clone(), id]),
                Lie::Garbage => {
                    ids.extend(["", "\n", "nobody:0", "nobody:7"].map(String::from));
                    let old = ids.front().cloned();
                    ids.extend(old.into_iter().chain([id]));
                }
                _ => ids.push_back(id),
            }
        }
        drop(waiting);
        self.0.news.notify_waiters();
        Ok(true)
    }
}

impl Handover for Desks {
    fn hand<'a>(&'a self, desk: &'a Desk, tasks: &'a [TaskId]) -> Reply<'a, bool> {
        Box::pin(std::future::ready(self.hand_all(desk, tasks)))
    }

    fn wait_at<'a>(&'a self, desks: &'a [Desk]) -> Reply<'a, ()> {
        let mut waiting = self.0.waiting.lock().expect("no panic");
        for desk in desks {
            waiting.entry(desk.clone()).or_default();
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn take<'a>(
        &'a self,
        desks: &'a [Desk],
        most: usize,
        block: Duration,
    ) -> Reply<'a, Vec<String>> {
        Box::pin(async move {
            let news = self.0.news.notified();
            let taken = self.take_now(desks, most);
            if !taken.is_empty() {
                return Ok(taken);
            }
            // Either way it is looked again.
            _ = tokio::time::timeout(block, news).await;
            Ok(self.take_now(desks, most))
        })
    }
}

/// A step on whatever worker, a wait for a signal, a pause, and another step.
async fn work(ctx: Context, number: u32) -> Result<u32, Failure> {
    let one = ctx.activity(ADD, &number).await?;
    let more = ctx.signal(GO).recv().await?;
    ctx.sleep(Duration::from_millis(20)).await?;
    ctx.activity(ADD, &(one + more)).await
}

/// A process with a worker that counts what it does. It has few slots, so that some tasks wait.
async fn node(stage: &Stage, desks: Option<&Desks>, done: &Arc<AtomicU32>) -> (Engine, Worker) {
    let builder = stage.database.builder();
    let builder = match desks {
        Some(desks) => builder.handover(desks.clone()),
        None => builder,
    };
    let engine = builder.start().await.expect("it starts");
    let done = Arc::clone(done);
    let worker = engine.worker(namespace(), Queue::default());
    let worker = worker
        .workflow(WORK, work)
        .activity(ADD, move |_: Attempt, number: u32| {
            done.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, Failure>(number + 1) }
        });
    (engine, worker.turns(4).activities(2).start())
}

/// What runs end with that three processes work on, one of which only starts and signals them; and
/// how often an activity was made.
async fn worked(stage: &Stage, name: &str, desks: Option<&Desks>) -> (Vec<u32>, u32) {
    let done = Arc::new(AtomicU32::new(0));
    let (one, one_works) = node(stage, desks, &done).await;
    let (two, two_works) = node(stage, desks, &done).await;
    let builder = stage.database.builder();
    let caller = match desks {
        Some(desks) => builder.handover(desks.clone()).start().await,
        None => builder.start().await,
    };
    let caller = caller.expect("it starts");
    let client = caller.client(namespace(), Queue::default());
    let id = |number| WorkflowId::new(format!("{name}-{number}")).expect("an id");
    for number in 0..RUNS {
        let started = client.start(WORK, id(number), &number).await;
        assert!(started.expect("started").was_created);
    }
    for number in 0..RUNS {
        let handle = client.handle(WORK, id(number));
        handle.signal(GO, &number).await.expect("sent");
    }
    let mut results = Vec::new();
    for number in 0..RUNS {
        let ended = client.handle(WORK, id(number)).result(SOON).await;
        let ended = ended.expect("an answer").expect("it ends");
        results.push(ended.expect("a result"));
    }
    for worker in [one_works, two_works] {
        assert!(worker.shutdown(SOON).await);
    }
    for engine in [one, two, caller] {
        engine.shutdown().await.expect("the database is there");
    }
    (results, done.load(Ordering::SeqCst))
}

pub(crate) async fn the_same_is_done_whether_tasks_are_handed_over_or_looked_for(stage: Stage) {
    let polled = worked(&stage, "polled", None).await;
    let desks = Desks::new(Lie::None);

    let handed = worked(&stage, "handed", Some(&desks)).await;

    let expected: Vec<_> = (0..RUNS).map(|number| 2 * number + 2).collect();
    assert_eq!(polled, (expected, 2 * RUNS));
    assert_eq!(handed, polled);
    let count = desks.0.handed.load(Ordering::SeqCst);
    assert!(count > 0, "nothing was handed over");
    println!("{count} tasks were handed over for {RUNS} runs");
}

pub(crate) async fn what_lies_about_tasks_costs_time_and_nothing_else(stage: Stage) {
    let expected: Vec<_> = (0..RUNS).map(|number| 2 * number + 2).collect();
    for lie in [
        Lie::Drops,
        Lie::Doubles,
        Lie::Garbage,
        Lie::Delays,
        Lie::Refuses,
    ] {
        let began = tokio::time::Instant::now();

        let (results, done) = worked(&stage, &format!("{lie:?}"), Some(&Desks::new(lie))).await;

        assert_eq!((&results, done), (&expected, 2 * RUNS), "{lie:?}");
        println!("{lie:?}: {RUNS} runs in {:?}", began.elapsed());
    }
}
