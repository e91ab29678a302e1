//! Code that nobody means to write, and some service runs all the same.

mod bounds;

use coord_core::ErrorKind;

use super::*;
use crate::client::Handle;
use crate::limits::Limits;
use crate::model::RunStatus;

const ODD: Workflow<(), u32> = Workflow::new("tests.odd");

async fn stage(limits: Limits) -> Stage {
    let engine = Engine::builder(Memory::new()).limits(limits).start().await;
    let engine = engine.expect("a store in memory");
    let client = engine.client(namespace(), queue());
    Stage { engine, client }
}

impl Stage {
    async fn odd(&self) -> Handle<u32> {
        let started = self.client.start(ODD, id("odd"), &()).await;
        started.expect("started").handle
    }

    /// What the next turn of `handle` fails with.
    async fn trouble(&self, handle: &Handle<u32>) -> String {
        loop {
            let described = handle.describe().await.expect("an answer").expect("there");
            let failed = described.tasks.into_iter().find_map(|task| task.last_error);
            if let Some(error) = failed {
                return error;
            }
            assert!(described.run.status.is_open(), "it ends without trouble");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn ended(handle: &Handle<u32>) -> Result<u32, Failure> {
    let ended = handle.result(60 * MINUTE).await.expect("an answer");
    ended.expect("in time")
}

#[tokio::test(start_paused = true)]
async fn a_request_to_end_interrupts_no_undoing() {
    static UNDONE: AtomicU32 = AtomicU32::new(0);
    const UNDO: Activity<u32, ()> = Activity::new("tests.undo");
    async fn trip(ctx: Context, (): ()) -> Result<u32, Failure> {
        let saga = ctx.saga();
        saga.undo(|ctx| async move {
            ctx.activity(UNDO, &1).await?;
            ctx.sleep(MINUTE).await?;
            ctx.step("note", async || Ok::<_, Failure>(())).await?;
            ctx.activity(UNDO, &2).await
        });
        saga.settle(Err(Failure::new("full").of_kind("full"))).await
    }
    async fn undo(_: Attempt, _: u32) -> Result<(), Failure> {
        tokio::time::sleep(MINUTE).await;
        UNDONE.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    let stage = Stage::new().await;
    let worker = stage.worker().workflow(ODD, trip);
    let _worker = worker.activity(UNDO, undo).start();
    let handle = stage.odd().await;
    tokio::time::sleep(MINUTE / 2).await;

    handle.cancel("enough").await.expect("asked");

    assert_eq!(ended(&handle).await.expect_err("full").kind, "full");
    assert_eq!(UNDONE.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_shielded_goes_on_when_its_workflow_is_asked_to_end() {
    async fn careful(ctx: Context, (): ()) -> Result<u32, Failure> {
        let kept = ctx.shielded().step("kept", async || {
            tokio::time::sleep(MINUTE).await;
            Ok::<_, Failure>(7)
        });
        let (kept, slept) = join(kept, ctx.sleep(60 * MINUTE)).await;
        assert_eq!(slept.expect_err("ended").kind, Failure::CANCELLED);
        kept
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(ODD, careful).start();
    let handle = stage.odd().await;
    tokio::time::sleep(MINUTE / 2).await;

    handle.cancel("enough").await.expect("asked");

    assert_eq!(ended(&handle).await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn code_that_changes_its_mind_after_it_said_that_it_continues_ends_as_it_says() {
    async fn fickle(ctx: Context, (): ()) -> Result<u32, Failure> {
        let next = async {
            ctx.sleep(MINUTE).await?;
            Err::<u32, _>(ctx.continue_as_new(&()))
        };
        match select(next, ctx.signal(APPROVED).recv()).await {
            Either::Left(continued) => {
                assert!(continued.is_err());
                Err(Failure::new("no more").of_kind("closed"))
            }
            Either::Right(_) => Ok(1),
        }
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(ODD, fickle).start();
    let handle = stage.odd().await;

    assert_eq!(ended(&handle).await.expect_err("closed").kind, "closed");
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.run.number, 1);
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_continues_in_a_select_or_in_a_saga_does_so_and_undoes_nothing() {
    static UNDONE: AtomicU32 = AtomicU32::new(0);
    const ROUNDS: Workflow<u32, u32> = Workflow::new("tests.rounds");
    async fn rounds(ctx: Context, round: u32) -> Result<u32, Failure> {
        let saga = ctx.saga();
        saga.undo(|_| async {
            UNDONE.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let next = async {
            ctx.sleep(MINUTE).await?;
            match round {
                3 => Ok(round),
                _ => Err(ctx.continue_as_new(&(round + 1))),
            }
        };
        let result = match select(ctx.signal(APPROVED).recv(), next).await {
            Either::Left(_) => Ok(0),
            Either::Right(result) => result,
        };
        saga.settle(result).await
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(ROUNDS, rounds).start();
    let started = stage.client.start(ROUNDS, id("r"), &0).await;

    assert_eq!(ended(&started.expect("started").handle).await, Ok(3));
    assert_eq!(UNDONE.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_context_that_is_used_in_a_step_or_a_task_of_its_own_is_named_with_its_place() {
    async fn in_step(ctx: Context, (): ()) -> Result<u32, Failure> {
        let inner = ctx.clone();
        ctx.step("nested", async move || {
            inner.sleep(MINUTE).await?;
            Ok::<_, Failure>(1)
        })
        .await
    }
    async fn in_task(ctx: Context, (): ()) -> Result<u32, Failure> {
        let own = ctx.clone();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { own.activity(DOUBLE, &1).await });
        ctx.sleep(MINUTE).await?;
        Ok(1)
    }
    async fn moved(ctx: Context, (): ()) -> Result<u32, Failure> {
        let call = ctx.activity(DOUBLE, &1);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(call);
        ctx.sleep(MINUTE).await?;
        Ok(1)
    }
    type Odd =
        fn(Context, ()) -> std::pin::Pin<Box<dyn Future<Output = Result<u32, Failure>> + Send>>;
    let codes: [(Odd, &str); 3] = [
        (|ctx, ()| Box::pin(in_step(ctx, ())), "local step"),
        (|ctx, ()| Box::pin(in_task(ctx, ())), "task of its own"),
        (|ctx, ()| Box::pin(moved(ctx, ())), "task of its own"),
    ];
    for (code, expected) in codes {
        let stage = Stage::new().await;
        let _worker = stage.worker().workflow(ODD, code).start();
        let handle = stage.odd().await;

        let trouble = stage.trouble(&handle).await;

        assert!(
            trouble.contains(expected) && trouble.contains("hostile.rs"),
            "{trouble}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_look_into_the_context_and_ask_nothing_of_it() {
    const WHEN: Query<(), u64> = Query::new("when");
    const SLEEP: Query<(), u64> = Query::new("sleep");
    const PANIC: Query<(), u64> = Query::new("panic");
    async fn asked(ctx: Context, (): ()) -> Result<u32, Failure> {
        let (looks, sleeps) = (ctx.clone(), ctx.clone());
        ctx.answers(WHEN, move |()| u64::from(looks.cancel_reason().is_some()));
        ctx.answers(SLEEP, move |()| {
            drop(sleeps.sleep(MINUTE));
            1
        });
        ctx.answers(PANIC, |()| panic!("no luck"));
        ctx.signal(APPROVED).recv().await?;
        Ok(1)
    }
    let stage = Stage::new().await;
    let handle = stage.odd().await;
    let refused = handle.query(WHEN, &()).await.expect_err("nobody knows it");
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let elsewhere = crate::model::Namespace::new("elsewhere").expect("a name");
    let other = stage.engine.worker(elsewhere, queue());
    let _other = other.workflow(ODD, asked).start();
    let refused = handle.query(WHEN, &()).await.expect_err("nobody here");
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let _worker = stage.worker().workflow(ODD, asked).start();

    assert_eq!(handle.query(WHEN, &()).await.expect("an answer"), 0);
    let refused = handle.query(SLEEP, &()).await.expect_err("it asks");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("hostile.rs"), "{refused}");
    let refused = handle.query(PANIC, &()).await.expect_err("it panics");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("no luck"), "{refused}");
    assert_eq!(handle.query(WHEN, &()).await.expect("an answer"), 0);
}

/// In time that passes, since the blocked thread keeps it from standing still.
#[tokio::test]
async fn an_answer_that_blocks_is_waited_for_a_bounded_time_and_blocks_nobody_else() {
    const STUCK: Query<(), u32> = Query::new("stuck");
    const QUICK: Query<(), u32> = Query::new("quick");
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let code = move |ctx: Context, (): ()| {
        let blocked = Arc::clone(&blocked);
        async move {
            ctx.answers(STUCK, move |()| {
                _ = blocked.lock().expect("free").recv();
                1
            });
            ctx.answers(QUICK, |()| 2);
            ctx.signal(APPROVED).recv().await?;
            Ok::<u32, Failure>(1)
        }
    };
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(ODD, code).start();
    let handle = stage.odd().await;

    let (stuck, quick) = tokio::join!(handle.query(STUCK, &()), handle.query(QUICK, &()));

    drop(free);
    assert_eq!(quick.expect("an answer"), 2);
    let error = stuck.expect_err("it blocks");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("did not answer"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_panics_when_it_is_dropped_fails_its_turn_and_harms_no_other() {
    struct Grumpy;
    impl Drop for Grumpy {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "not yet");
        }
    }
    async fn grumpy(ctx: Context, (): ()) -> Result<u32, Failure> {
        let loser = async {
            let _held = Grumpy;
            ctx.sleep(60 * MINUTE).await
        };
        select(ctx.signal(APPROVED).recv(), loser).await;
        Ok(1)
    }
    let stage = Stage::new().await;
    let worker = stage.worker().workflow(ODD, grumpy).workflow(SUM, sum);
    let _worker = worker.activity(DOUBLE, double).start();
    let handle = stage.odd().await;
    tokio::time::sleep(MINUTE).await;

    let approve = handle.signal(APPROVED, &"ann".to_owned());
    approve.await.expect("sent");

    let trouble = stage.trouble(&handle).await;
    assert!(trouble.contains("not yet"), "{trouble}");
    let other = stage.client.start(SUM, id("a"), &vec![1]).await;
    assert_eq!(ended(&other.expect("started").handle).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn children_of_children_return_through_every_level_and_end_with_the_first() {
    const DEEP: Workflow<u32, u32> = Workflow::new("tests.deep");
    async fn deep(ctx: Context, left: u32) -> Result<u32, Failure> {
        match left {
            0 => ctx.signal(APPROVED).recv().await.map(|_| 0),
            _ => ctx
                .child(DEEP, &(left - 1))
                .await
                .map(|depth: u32| depth + 1),
        }
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(DEEP, deep).start();
    let open = || async {
        let mut filter = crate::store::Filter::all(namespace());
        filter.statuses = vec![RunStatus::Pending, RunStatus::Running, RunStatus::Waiting];
        stage.client.count(&filter).await.expect("a count")
    };
    let started = stage.client.start(DEEP, id("a"), &100).await;
    let handle = started.expect("started").handle;
    while open().await < 101 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    handle.terminate("enough").await.expect("ended");

    while open().await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let started = stage.client.start(DEEP, id("b"), &30).await;
    let handle = started.expect("started").handle;
    while open().await < 31 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let page = stage
        .client
        .list(&crate::store::Listing {
            filter: crate::store::Filter::all(namespace()),
            limit: 1,
            after: None,
        })
        .await
        .expect("a page");
    let deepest = stage.client.handle(DEEP, page.runs[0].workflow.clone());
    let approve = deepest.signal(APPROVED, &"ann".to_owned());
    approve.await.expect("sent");
    assert_eq!(ended(&handle).await, Ok(30));
}

#[tokio::test(start_paused = true)]
async fn a_select_of_another_crate_that_polls_in_any_order_goes_the_same_way_again() {
    async fn race(ctx: Context, (): ()) -> Result<u32, Failure> {
        let mut done = 0;
        for _ in 0..20 {
            tokio::select! {
                slept = ctx.sleep(MINUTE) => slept?,
                doubled = ctx.activity(DOUBLE, &1) => done += doubled?,
            }
        }
        Ok(done)
    }
    let stage = Stage::new().await;
    // Nothing is kept in memory, so each turn begins at the start.
    let worker = stage.worker().cached_runs(0).workflow(ODD, race);
    let _worker = worker.activity(DOUBLE, double).start();

    assert_eq!(ended(&stage.odd().await).await, Ok(40));
}

#[tokio::test(start_paused = true)]
async fn a_signal_counts_once_under_its_request_and_not_at_all_after_the_end() {
    async fn names(ctx: Context, (): ()) -> Result<u32, Failure> {
        let first = ctx.signal(APPROVED).recv().await?;
        let second = ctx.signal(APPROVED).recv().await?;
        Ok(first.len() as u32 * 10 + second.len() as u32)
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(ODD, names).start();
    let handle = stage.odd().await;
    let send = |name: &str, request: &str| {
        let request = RequestId::new(request).expect("an id");
        handle.signal(APPROVED, &name.to_owned()).request(request)
    };

    for (name, request) in [("\u{1F980}", "1"), ("ann", "1"), ("e", "2")] {
        send(name, request).await.expect("sent");
    }

    assert_eq!(ended(&handle).await, Ok(41));
    send("ann", "1").await.expect("it was sent");
    let late = send("ann", "3").await.expect_err("it has ended");
    assert_eq!(late.kind(), ErrorKind::Invalid);
}
