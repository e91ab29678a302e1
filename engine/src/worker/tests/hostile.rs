//! Code that nobody means to write, and some service runs all the same.

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
async fn a_loop_that_takes_no_failure_for_an_answer_is_ended_and_harms_nobody() {
    async fn stubborn(ctx: Context, (): ()) -> Result<u32, Failure> {
        loop {
            _ = ctx.sleep(Duration::ZERO).await;
            _ = ctx.step("try", async || Ok::<_, Failure>(1)).await;
            _ = ctx.side_effect("coin", || 1);
        }
    }
    let stage = stage(Limits {
        history_events: 100,
        ..Limits::default()
    })
    .await;
    let _worker = stage.worker().workflow(ODD, stubborn).start();
    let handle = stage.odd().await;

    let failure = ended(&handle).await.expect_err("it never ends by itself");

    assert_eq!(failure.kind, Failure::LIMIT_EXCEEDED);
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.run.status, RunStatus::Terminated);
    assert!(described.run.history_length < 1200, "{described:?}");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_timers_at_once_are_as_many_as_may_be_and_refusals() {
    async fn timers(ctx: Context, count: u32) -> Result<u32, Failure> {
        let all = join_all((0..count).map(|_| ctx.sleep(MINUTE))).await;
        for refused in all.iter().filter_map(|slept| slept.as_ref().err()) {
            assert_eq!(refused.kind, Failure::LIMIT_EXCEEDED);
        }
        Ok(all.iter().filter(|slept| slept.is_ok()).count() as u32)
    }
    const TIMERS: Workflow<u32, u32> = Workflow::new("tests.timers");
    for (limits, expected) in [(Limits::default(), 1000), (Limits::NONE, 10_000)] {
        let stage = stage(limits).await;
        let _worker = stage.worker().workflow(TIMERS, timers).start();
        let started = stage.client.start(TIMERS, id("t"), &10_000).await;

        assert_eq!(ended(&started.expect("started").handle).await, Ok(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_memo_or_attributes_beyond_their_limit_are_one_failure_in_the_workflow() {
    async fn marks(ctx: Context, (): ()) -> Result<u32, Failure> {
        let memo = |text: &str| serde_json::Map::from_iter([("a".to_owned(), text.into())]);
        ctx.set_memo(memo("123"))?;
        let refused = ctx.set_memo(memo("1234")).expect_err("too large");
        assert_eq!(refused.kind, Failure::LIMIT_EXCEEDED);
        assert_eq!(ctx.memo(), memo("123"), "it stays as it was");
        ctx.set_search_attributes(ctx.search_attributes().with("a", "123")?)?;
        let refused = ctx.set_search_attributes(ctx.search_attributes().with("a", "1234")?);
        assert_eq!(
            refused.expect_err("too large").kind,
            Failure::LIMIT_EXCEEDED
        );
        ctx.signal(APPROVED).recv().await?;
        Ok(1)
    }
    let limits = Limits {
        memo_bytes: 11,
        attribute_bytes: 4,
        ..Limits::default()
    };
    let memory = Memory::new();
    let engine = |limits| Engine::builder(memory.clone()).limits(limits).start();
    let narrow = engine(limits).await.expect("a store in memory");
    let client = narrow.client(namespace(), queue());
    let start = |name: &str, memo: &str| client.start(ODD, id(name), &()).memo("a", memo);
    let refused = start("b", "1234").await.map(drop);
    assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Invalid);
    let attributes = crate::model::Attributes::new().with("a", "1234");
    let refused = start("b", "").search_attributes(attributes.expect("one"));
    let refused = refused.await.map(drop).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let handle = start("a", "123").await.expect("started").handle;
    let first = narrow.worker(namespace(), queue()).workflow(ODD, marks);
    let first = first.start();
    tokio::time::sleep(MINUTE).await;
    drop(first);

    // What was refused stays so when more is allowed.
    let wide = engine(Limits::NONE).await.expect("a store in memory");
    let second = wide.worker(namespace(), queue()).workflow(ODD, marks);
    let _second = second.start();
    let approve = handle.signal(APPROVED, &"ann".to_owned());
    approve.await.expect("sent");

    assert_eq!(ended(&handle).await, Ok(1));
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.memo["a"], "123");
}

#[tokio::test(start_paused = true)]
async fn a_signal_beyond_what_may_wait_is_refused_to_its_sender_and_nothing_is_lost() {
    const NUMBER: Signal<u32> = Signal::new("number");
    async fn gather(ctx: Context, (): ()) -> Result<u32, Failure> {
        ctx.signal(APPROVED).recv().await?;
        let mut sum = 0;
        for _ in 0..4 {
            sum += ctx.signal(NUMBER).recv().await?;
        }
        Ok(sum)
    }
    let stage = stage(Limits {
        pending_signals: 3,
        ..Limits::default()
    })
    .await;
    let _worker = stage.worker().workflow(ODD, gather).start();
    let handle = stage.odd().await;
    let send = |number: u32| handle.signal(NUMBER, &number);
    for number in [1, 10] {
        send(number).await.expect("sent");
    }
    // Taken, and received by nobody.
    tokio::time::sleep(MINUTE).await;
    send(100).await.expect("the third");

    let refused = send(1000).await.expect_err("the fourth");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    // What bounds signals bounds nothing else.
    handle.describe().await.expect("an answer").expect("there");
    let other = stage.client.start(ODD, id("other"), &()).await;
    drop(other.expect("started"));
    let approve = handle.signal(APPROVED, &String::new()).await;
    assert!(approve.is_err(), "a signal of another name is one, too");
}

#[tokio::test(start_paused = true)]
async fn spans_without_end_are_waits_without_end() {
    async fn endless(ctx: Context, (): ()) -> Result<u32, Failure> {
        let call = ctx
            .activity(DOUBLE, &21)
            .schedule_to_start(Duration::MAX)
            .start_to_close(Duration::MAX)
            .schedule_to_close(Duration::MAX)
            .heartbeat(Duration::MAX);
        let doubled = call.await?;
        let never = ctx.wait_until("never", || false).within(Duration::MAX);
        let slept = select(never, ctx.sleep(Duration::MAX));
        match select(slept, ctx.signal(APPROVED).recv()).await {
            Either::Left(_) => Err(Failure::new("the end of time")),
            Either::Right(approved) => approved.map(|_| doubled),
        }
    }
    let stage = Stage::new().await;
    let worker = stage.worker().workflow(ODD, endless);
    let _worker = worker.activity(DOUBLE, double).start();
    let started = stage
        .client
        .start(ODD, id("odd"), &())
        .within(Duration::MAX);
    let handle = started.await.expect("started").handle;
    let never = stage
        .client
        .start(ODD, id("never"), &())
        .delay(Duration::MAX);
    let never = never.await.expect("started").handle;
    tokio::time::sleep(MINUTE).await;

    let approve = handle.signal(APPROVED, &"ann".to_owned());
    approve.await.expect("sent");

    assert_eq!(ended(&handle).await, Ok(42));
    let described = never.describe().await.expect("an answer").expect("there");
    assert_eq!(described.run.status, RunStatus::Pending);
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_is_a_time_that_is_over() {
    async fn slow(_: Attempt, number: u32) -> Result<u32, Failure> {
        tokio::time::sleep(60 * MINUTE).await;
        Ok(number)
    }
    async fn hasty(ctx: Context, (): ()) -> Result<u32, Failure> {
        let late = ctx.activity(DOUBLE, &1).schedule_to_close(Duration::ZERO);
        let late = late.await;
        assert_eq!(late.expect_err("late").kind, Failure::TIMED_OUT);
        ctx.sleep(Duration::ZERO).await?;
        let never = ctx.wait_until("never", || false).within(Duration::ZERO);
        assert_eq!(never.await.expect_err("late").kind, Failure::TIMED_OUT);
        Ok(1)
    }
    let stage = Stage::new().await;
    let worker = stage.worker().workflow(ODD, hasty);
    let _worker = worker.activity(DOUBLE, slow).start();
    let handle = stage.odd().await;

    assert_eq!(ended(&handle).await, Ok(1));
    let started = stage
        .client
        .start(ODD, id("late"), &())
        .within(Duration::ZERO);
    let late = started.await.expect("started").handle;
    assert_eq!(
        ended(&late).await.expect_err("late").kind,
        Failure::TIMED_OUT
    );
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
