//! A worker and a client on the store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::Engine;
use crate::client::Client;
use crate::flow::{Activity, Context, Either, Query, Signal, Workflow, join, join_all, select};
use crate::memory::Memory;
use crate::model::{EventKind, Failure, Namespace, Queue, Retry, WorkflowId};
use crate::worker::{Attempt, Worker, WorkerBuilder};

const DOUBLE: Activity<u32, u32> = Activity::new("tests.double");
const SUM: Workflow<Vec<u32>, u32> = Workflow::new("tests.sum");
const APPROVED: Signal<String> = Signal::new("approved");
const COUNT: Query<(), u32> = Query::new("count");
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

#[tokio::test(start_paused = true)]
async fn a_workflow_gets_the_results_of_its_activities() {
    let stage = Stage::new().await;
    let _worker = stage.sum_worker();

    let started = stage
        .client
        .start(SUM, id("a"), &vec![1, 2, 3])
        .await
        .expect("started");

    assert!(started.was_created);
    let result = started.handle.result(MINUTE).await.expect("an answer");
    assert_eq!(result, Some(Ok(12)));
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_refused_or_found_as_asked() {
    let stage = Stage::new().await;
    stage
        .client
        .start(SUM, id("a"), &vec![1])
        .await
        .expect("started");

    let refused = stage.client.start(SUM, id("a"), &vec![2]).await;
    let found = stage
        .client
        .start(SUM, id("a"), &vec![2])
        .or_existing()
        .await;

    assert_eq!(
        refused.err().expect("in use").kind(),
        coord_core::ErrorKind::Invalid
    );
    assert!(!found.expect("there").was_created);
}

#[tokio::test(start_paused = true)]
async fn a_cold_worker_goes_on_where_another_one_was_dropped() {
    const LONG: Workflow<(), u32> = Workflow::new("tests.long");
    async fn long(ctx: Context, (): ()) -> Result<u32, Failure> {
        let first = ctx.activity(DOUBLE, &1).await?;
        ctx.sleep(10 * MINUTE).await?;
        let name = ctx.signal(APPROVED).recv().await?;
        let last = ctx.activity(DOUBLE, &(name.len() as u32)).await?;
        Ok(first + last)
    }
    let stage = Stage::new().await;
    let worker = || {
        stage
            .worker()
            .workflow(LONG, long)
            .activity(DOUBLE, double)
            .start()
    };
    let first = worker();
    let handle = stage
        .client
        .start(LONG, id("a"), &())
        .await
        .expect("started")
        .handle;
    tokio::time::sleep(MINUTE).await;

    drop(first);
    handle
        .signal(APPROVED, &"ann".to_owned())
        .await
        .expect("sent");
    let _second = worker();

    assert_eq!(
        handle.result(5 * MINUTE).await.expect("an answer"),
        None,
        "it sleeps"
    );
    let result = handle.result(20 * MINUTE).await.expect("an answer");
    assert_eq!(result, Some(Ok(2 + 6)));
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_due_when_it_was_meant_to_be_whatever_happens_meanwhile() {
    const TIMED: Workflow<(), u64> = Workflow::new("tests.timed");
    async fn timed(ctx: Context, (): ()) -> Result<u64, Failure> {
        let began = ctx.now();
        let timer = ctx.sleep(5 * MINUTE);
        let news = async {
            ctx.signal(APPROVED).recv().await?;
            ctx.activity(DOUBLE, &1).await
        };
        let (slept, _) = join(timer, news).await;
        slept?;
        Ok(ctx.now().since(began).as_secs())
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(TIMED, timed)
        .activity(DOUBLE, double)
        .start();
    let handle = stage
        .client
        .start(TIMED, id("a"), &())
        .await
        .expect("started")
        .handle;
    tokio::time::sleep(3 * MINUTE).await;

    handle
        .signal(APPROVED, &"ann".to_owned())
        .await
        .expect("sent");

    let seconds = handle
        .result(60 * MINUTE)
        .await
        .expect("an answer")
        .expect("ended");
    let seconds = seconds.expect("an output");
    assert!((300..303).contains(&seconds), "{seconds} s");
}

#[tokio::test(start_paused = true)]
async fn a_step_is_done_once_and_its_result_kept() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    const STEPS: Workflow<u32, u32> = Workflow::new("tests.steps");
    async fn steps(ctx: Context, count: u32) -> Result<u32, Failure> {
        let mut sum = 0;
        for number in 0..count {
            sum += ctx
                .step("count", async || {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    DONE.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Failure>(number)
                })
                .await?;
            if number == 2 {
                ctx.activity(DOUBLE, &number).await?;
            }
        }
        Ok(sum)
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(STEPS, steps)
        .activity(DOUBLE, double)
        .start();

    let handle = stage
        .client
        .start(STEPS, id("a"), &5)
        .await
        .expect("started")
        .handle;

    assert_eq!(
        handle.result(MINUTE).await.expect("an answer"),
        Some(Ok(10))
    );
    assert_eq!(DONE.load(Ordering::SeqCst), 5);
    let history = handle.history().await.expect("a history");
    let steps = history
        .iter()
        .filter(|event| matches!(event.kind, EventKind::StepCompleted(_)));
    assert_eq!(steps.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_fails_is_tried_again_as_its_policy_says() {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    const FLAKY: Workflow<u32, u32> = Workflow::new("tests.flaky");
    async fn flaky(ctx: Context, attempts: u32) -> Result<u32, Failure> {
        ctx.activity(DOUBLE, &1)
            .retry(Retry::exponential(attempts))
            .await
    }
    async fn third_time(attempt: Attempt, _: u32) -> Result<u32, Failure> {
        TRIES.fetch_add(1, Ordering::SeqCst);
        assert!(attempt.number() >= 3, "not yet");
        Ok(attempt.number())
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(FLAKY, flaky)
        .activity(DOUBLE, third_time)
        .start();

    let enough = stage
        .client
        .start(FLAKY, id("a"), &3)
        .await
        .expect("started")
        .handle;
    assert_eq!(enough.result(MINUTE).await.expect("an answer"), Some(Ok(3)));
    let too_few = stage
        .client
        .start(FLAKY, id("b"), &2)
        .await
        .expect("started")
        .handle;
    let failure = too_few
        .result(MINUTE)
        .await
        .expect("an answer")
        .expect("ended");

    let failure = failure.expect_err("two attempts are too few");
    assert_eq!(
        (failure.kind.as_str(), failure.message.as_str()),
        ("panicked", "not yet")
    );
    assert_eq!(TRIES.load(Ordering::SeqCst), 5);
    let described = too_few.describe().await.expect("an answer").expect("there");
    assert_eq!(described.attempts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_slower_of_two_is_dropped_and_leaves_nothing_behind() {
    const RACE: Workflow<(), String> = Workflow::new("tests.race");
    async fn race(ctx: Context, (): ()) -> Result<String, Failure> {
        let signal = ctx.signal(APPROVED);
        match select(signal.recv(), ctx.sleep(MINUTE)).await {
            Either::Left(name) => name,
            Either::Right(slept) => slept.map(|()| "nobody".to_owned()),
        }
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(RACE, race).start();
    let late = stage
        .client
        .start(RACE, id("late"), &())
        .await
        .expect("started")
        .handle;
    let early = stage
        .client
        .start(RACE, id("early"), &())
        .await
        .expect("started")
        .handle;

    early
        .signal(APPROVED, &"ann".to_owned())
        .await
        .expect("sent");

    assert_eq!(
        early.result(MINUTE).await.expect("an answer"),
        Some(Ok("ann".to_owned()))
    );
    let nobody = late.result(2 * MINUTE).await.expect("an answer");
    assert_eq!(nobody, Some(Ok("nobody".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn many_activities_at_once_are_all_waited_for() {
    const FAN: Workflow<u32, u32> = Workflow::new("tests.fan");
    async fn fan(ctx: Context, count: u32) -> Result<u32, Failure> {
        let doubled = join_all((0..count).map(|number| ctx.activity(DOUBLE, &number))).await;
        doubled.into_iter().sum()
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(FAN, fan)
        .activity(DOUBLE, double)
        .start();

    let handle = stage
        .client
        .start(FAN, id("a"), &200)
        .await
        .expect("started")
        .handle;

    assert_eq!(
        handle.result(MINUTE).await.expect("an answer"),
        Some(Ok(199 * 200))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_workflow_cleans_up_and_says_so() {
    static CLEANED: AtomicU32 = AtomicU32::new(0);
    const SAGA: Workflow<(), ()> = Workflow::new("tests.saga");
    async fn saga(ctx: Context, (): ()) -> Result<(), Failure> {
        match ctx.sleep(60 * MINUTE).await {
            Ok(()) => Ok(()),
            Err(failure) => {
                ctx.activity(DOUBLE, &1).await?;
                Err(failure)
            }
        }
    }
    async fn clean(_: Attempt, _: u32) -> Result<u32, Failure> {
        Ok(CLEANED.fetch_add(1, Ordering::SeqCst))
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(SAGA, saga)
        .activity(DOUBLE, clean)
        .start();
    let handle = stage
        .client
        .start(SAGA, id("a"), &())
        .await
        .expect("started")
        .handle;

    handle.cancel("enough").await.expect("asked");

    let failure = handle
        .result(MINUTE)
        .await
        .expect("an answer")
        .expect("ended");
    let failure = failure.expect_err("cancelled");
    assert_eq!(
        (failure.kind.as_str(), failure.message.as_str()),
        ("cancelled", "enough")
    );
    assert_eq!(CLEANED.load(Ordering::SeqCst), 1);
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.run.status, crate::model::RunStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_terminated_workflow_takes_its_children_along() {
    const CHILD: Workflow<(), ()> = Workflow::new("tests.child");
    const PARENT: Workflow<(), ()> = Workflow::new("tests.parent");
    async fn child(ctx: Context, (): ()) -> Result<(), Failure> {
        ctx.sleep(60 * MINUTE).await
    }
    async fn parent(ctx: Context, (): ()) -> Result<(), Failure> {
        ctx.child(CHILD, &()).id(id("child")).await
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(PARENT, parent)
        .workflow(CHILD, child)
        .start();
    let handle = stage
        .client
        .start(PARENT, id("parent"), &())
        .await
        .expect("started")
        .handle;
    tokio::time::sleep(MINUTE).await;

    handle.terminate("enough").await.expect("ended");

    let child = stage.client.handle(CHILD, id("child"));
    let failure = child
        .result(MINUTE)
        .await
        .expect("an answer")
        .expect("ended");
    assert_eq!(failure.expect_err("ended").kind, Failure::TERMINATED);
}

#[tokio::test(start_paused = true)]
async fn a_parent_gets_the_result_of_a_child_that_continued_as_new() {
    const CHILD: Workflow<u32, u32> = Workflow::new("tests.child");
    const PARENT: Workflow<(), u32> = Workflow::new("tests.parent");
    async fn child(ctx: Context, left: u32) -> Result<u32, Failure> {
        ctx.sleep(Duration::from_millis(1)).await?;
        if left == 0 {
            return Ok(7);
        }
        Err(ctx.continue_as_new(&(left - 1)))
    }
    async fn parent(ctx: Context, (): ()) -> Result<u32, Failure> {
        ctx.child(CHILD, &20).await
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(PARENT, parent)
        .workflow(CHILD, child)
        .start();

    let handle = stage
        .client
        .start(PARENT, id("a"), &())
        .await
        .expect("started")
        .handle;

    assert_eq!(handle.result(MINUTE).await.expect("an answer"), Some(Ok(7)));
}

#[tokio::test(start_paused = true)]
async fn continuing_as_new_loses_no_signal_and_changes_no_order() {
    const CHAIN: Workflow<Vec<u32>, Vec<u32>> = Workflow::new("tests.chain");
    const NUMBER: Signal<u32> = Signal::new("number");
    async fn chain(ctx: Context, mut seen: Vec<u32>) -> Result<Vec<u32>, Failure> {
        seen.push(ctx.signal(NUMBER).recv().await?);
        if seen.len() == 100 {
            return Ok(seen);
        }
        Err(ctx.continue_as_new(&seen))
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(CHAIN, chain).start();
    let handle = stage
        .client
        .start(CHAIN, id("a"), &Vec::new())
        .await
        .expect("started")
        .handle;

    for number in 0..100 {
        handle.signal(NUMBER, &number).await.expect("sent");
    }

    let seen = handle
        .result(10 * MINUTE)
        .await
        .expect("an answer")
        .expect("ended");
    assert_eq!(seen.expect("an output"), (0..100).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_workflow_answers_questions_open_and_ended() {
    const ASKED: Workflow<(), ()> = Workflow::new("tests.asked");
    async fn asked(ctx: Context, (): ()) -> Result<(), Failure> {
        let count = Arc::new(AtomicU32::new(0));
        let answer = Arc::clone(&count);
        ctx.answers(COUNT, move |()| answer.load(Ordering::SeqCst));
        for _ in 0..3 {
            ctx.signal(APPROVED).recv().await?;
            count.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(ASKED, asked).start();
    let handle = stage
        .client
        .start(ASKED, id("a"), &())
        .await
        .expect("started")
        .handle;
    handle
        .signal(APPROVED, &"ann".to_owned())
        .await
        .expect("sent");
    tokio::time::sleep(MINUTE).await;

    assert_eq!(handle.query(COUNT, &()).await.expect("an answer"), 1);

    for _ in 0..2 {
        handle
            .signal(APPROVED, &"ben".to_owned())
            .await
            .expect("sent");
    }
    assert_eq!(
        handle.result(MINUTE).await.expect("an answer"),
        Some(Ok(()))
    );
    assert_eq!(handle.query(COUNT, &()).await.expect("an answer"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_back_what_is_under_way() {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    const SLOW: Workflow<(), u32> = Workflow::new("tests.slow");
    async fn slow(ctx: Context, (): ()) -> Result<u32, Failure> {
        ctx.activity(DOUBLE, &1).await
    }
    async fn first_hangs(attempt: Attempt, _: u32) -> Result<u32, Failure> {
        if TRIES.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(attempt.number())
    }
    let stage = Stage::new().await;
    let worker = || {
        stage
            .worker()
            .workflow(SLOW, slow)
            .activity(DOUBLE, first_hangs)
            .start()
    };
    let first = worker();
    let handle = stage
        .client
        .start(SLOW, id("a"), &())
        .await
        .expect("started")
        .handle;
    tokio::time::sleep(MINUTE).await;

    assert!(!first.shutdown(Duration::from_secs(1)).await, "it hangs");
    let _second = worker();

    let number = handle
        .result(Duration::from_secs(5))
        .await
        .expect("an answer");
    assert_eq!(
        number,
        Some(Ok(1)),
        "the attempt that was given back does not count"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_code_changed_is_set_aside_and_goes_on_when_it_is_mended() {
    const TRIPLE: Activity<u32, u32> = Activity::new("tests.triple");
    const CHANGED: Workflow<(), u32> = Workflow::new("tests.changed");
    async fn right(ctx: Context, (): ()) -> Result<u32, Failure> {
        let once = ctx.activity(DOUBLE, &1).await?;
        ctx.signal(APPROVED).recv().await?;
        Ok(once)
    }
    async fn wrong(ctx: Context, (): ()) -> Result<u32, Failure> {
        let once = ctx.activity(TRIPLE, &1).await?;
        ctx.signal(APPROVED).recv().await?;
        Ok(once)
    }
    let stage = Stage::new().await;
    let worker = || stage.worker().activity(DOUBLE, double);
    let first = worker().workflow(CHANGED, right).start();
    let handle = stage
        .client
        .start(CHANGED, id("a"), &())
        .await
        .expect("started")
        .handle;
    tokio::time::sleep(MINUTE).await;
    first.shutdown(MINUTE).await;
    let second = worker().workflow(CHANGED, wrong).start();
    handle
        .signal(APPROVED, &"ann".to_owned())
        .await
        .expect("sent");
    tokio::time::sleep(MINUTE).await;
    let described = handle.describe().await.expect("an answer").expect("there");
    let task = &described.tasks[0];
    assert_eq!(
        (task.status.as_str(), task.blocked.as_deref()),
        ("blocked", Some("replay"))
    );
    let error = task.last_error.as_deref().expect("an error");
    assert!(
        error.contains("`tests.double`") && error.contains("`tests.triple`"),
        "{error}"
    );
    second.shutdown(MINUTE).await;

    let _third = worker().workflow(CHANGED, right).start();
    handle.resume().await.expect("set aside");

    assert_eq!(handle.result(MINUTE).await.expect("an answer"), Some(Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn a_panicking_workflow_stands_until_its_code_is_mended_and_harms_no_other() {
    const BAD: Workflow<(), u32> = Workflow::new("tests.bad");
    static IS_MENDED: AtomicU32 = AtomicU32::new(0);
    async fn bad(_: Context, (): ()) -> Result<u32, Failure> {
        assert!(IS_MENDED.load(Ordering::SeqCst) > 0, "not yet");
        Ok(7)
    }
    let stage = Stage::new().await;
    let worker = stage
        .worker()
        .workflow(BAD, bad)
        .workflow(SUM, sum)
        .activity(DOUBLE, double);
    let _worker = worker.start();
    let bad = stage
        .client
        .start(BAD, id("bad"), &())
        .await
        .expect("started")
        .handle;
    let good = stage
        .client
        .start(SUM, id("good"), &vec![1])
        .await
        .expect("started")
        .handle;
    assert_eq!(good.result(MINUTE).await.expect("an answer"), Some(Ok(2)));
    assert_eq!(bad.result(MINUTE).await.expect("an answer"), None);

    IS_MENDED.store(1, Ordering::SeqCst);

    assert_eq!(
        bad.result(2 * MINUTE).await.expect("an answer"),
        Some(Ok(7))
    );
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_no_worker_begins_times_out() {
    const LONELY: Workflow<(), String> = Workflow::new("tests.lonely");
    async fn lonely(ctx: Context, (): ()) -> Result<String, Failure> {
        let call = ctx
            .activity(DOUBLE, &1)
            .schedule_to_start(Duration::from_secs(30));
        Ok(call.await.expect_err("nobody is there").kind)
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(LONELY, lonely).start();

    let handle = stage
        .client
        .start(LONELY, id("a"), &())
        .await
        .expect("started")
        .handle;

    let kind = handle.result(MINUTE).await.expect("an answer");
    assert_eq!(kind, Some(Ok(Failure::TIMED_OUT.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_silent_is_given_up_and_the_next_one_knows_how_far_it_came() {
    const COUNTED: Workflow<(), u32> = Workflow::new("tests.counted");
    async fn counted(ctx: Context, (): ()) -> Result<u32, Failure> {
        ctx.activity(DOUBLE, &1)
            .heartbeat(Duration::from_secs(10))
            .await
    }
    async fn count(attempt: Attempt, _: u32) -> Result<u32, Failure> {
        if let Some(progress) = attempt.progress::<u32>()? {
            return Ok(progress + attempt.number());
        }
        attempt.heartbeat(&40).await?;
        std::future::pending().await
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(COUNTED, counted)
        .activity(DOUBLE, count)
        .start();

    let handle = stage
        .client
        .start(COUNTED, id("a"), &())
        .await
        .expect("started")
        .handle;

    assert_eq!(
        handle.result(2 * MINUTE).await.expect("an answer"),
        Some(Ok(42))
    );
}

#[tokio::test(start_paused = true)]
async fn a_workflow_whose_time_is_over_ends() {
    const FOREVER: Workflow<(), ()> = Workflow::new("tests.forever");
    async fn forever(ctx: Context, (): ()) -> Result<(), Failure> {
        ctx.signal(APPROVED).recv().await.map(drop)
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(FOREVER, forever).start();

    let started = stage
        .client
        .start(FOREVER, id("a"), &())
        .within(MINUTE)
        .await
        .expect("started");

    let failure = started
        .handle
        .result(2 * MINUTE)
        .await
        .expect("an answer")
        .expect("ended");
    assert_eq!(failure.expect_err("over").kind, Failure::TIMED_OUT);
}

#[tokio::test(start_paused = true)]
async fn a_timer_and_a_signal_reach_a_workflow_whose_step_is_under_way() {
    const BUSY: Workflow<(), String> = Workflow::new("tests.busy");
    async fn busy(ctx: Context, (): ()) -> Result<String, Failure> {
        let work = ctx.step("hang", async || {
            std::future::pending::<()>().await;
            Ok::<_, Failure>(())
        });
        let signal = ctx.signal(APPROVED);
        let news = async {
            let name = signal.recv().await?;
            ctx.sleep(Duration::from_secs(90)).await?;
            Ok::<_, Failure>(name)
        };
        match select(work, news).await {
            Either::Left(_) => Ok("worked".to_owned()),
            Either::Right(name) => name,
        }
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(BUSY, busy).start();
    let handle = stage
        .client
        .start(BUSY, id("a"), &())
        .await
        .expect("started")
        .handle;
    tokio::time::sleep(Duration::from_secs(5)).await;

    handle
        .signal(APPROVED, &"ann".to_owned())
        .await
        .expect("sent");

    let name = handle.result(3 * MINUTE).await.expect("an answer");
    assert_eq!(name, Some(Ok("ann".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_had_is_taken_back_by_its_heartbeat_and_not_by_its_lease() {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    const HELD: Workflow<(), u32> = Workflow::new("tests.held");
    async fn held(ctx: Context, (): ()) -> Result<u32, Failure> {
        ctx.activity(DOUBLE, &1).await
    }
    async fn first_hangs(attempt: Attempt, _: u32) -> Result<u32, Failure> {
        if TRIES.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(attempt.number())
    }
    let store = Memory::new();
    let engine = Engine::start(store.clone())
        .await
        .expect("a store in memory");
    let dying = engine.worker(namespace(), queue());
    let dying = dying
        .workflow(HELD, held)
        .activity(DOUBLE, first_hangs)
        .lease(60 * MINUTE);
    let dying = dying.start();
    let client = engine.client(namespace(), queue());
    client.start(HELD, id("a"), &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop((dying, client, engine));

    let other = Engine::start(store).await.expect("a store in memory");
    let worker = other.worker(namespace(), queue());
    let _worker = worker
        .workflow(HELD, held)
        .activity(DOUBLE, first_hangs)
        .start();

    let handle = other.client(namespace(), queue()).handle(HELD, id("a"));
    // The dead one led: its term, an election, the time to let others beat, and a sweep.
    let number = handle
        .result(Duration::from_secs(35))
        .await
        .expect("an answer");
    assert_eq!(number, Some(Ok(2)));
}
