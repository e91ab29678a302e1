//! Limits, budgets and codecs, with a worker.

use super::*;
use crate::flow::Saga;
use crate::limits::Limits;
use crate::model::RunStatus;

async fn stage(limits: Limits) -> Stage {
    let engine = Engine::builder(Memory::new()).limits(limits).start().await;
    let engine = engine.expect("a store in memory");
    let client = engine.client(namespace(), queue());
    Stage { engine, client }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_is_too_large_is_one_failure_in_the_workflow_and_no_loop() {
    static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
    const BIG: Workflow<u32, (String, String)> = Workflow::new("tests.big");
    const ECHO: Activity<String, String> = Activity::new("tests.echo");
    async fn big(ctx: Context, size: u32) -> Result<(String, String), Failure> {
        let large = "x".repeat(size as usize);
        let argument = ctx.activity(ECHO, &large).await.expect_err("too large");
        let result = ctx.activity(ECHO, &"x".to_owned()).await;
        Ok((argument.kind, result.expect_err("too large").kind))
    }
    async fn echo(_: Attempt, _: String) -> Result<String, Failure> {
        ATTEMPTS.fetch_add(1, Ordering::SeqCst);
        Ok("x".repeat(1000))
    }
    let stage = stage(Limits {
        payload_bytes: 500,
        ..Limits::default()
    })
    .await;
    let _worker = stage
        .worker()
        .workflow(BIG, big)
        .activity(ECHO, echo)
        .start();

    let started = stage.client.start(BIG, id("a"), &1000).await;

    let handle = started.expect("started").handle;
    let kinds = handle.result(10 * MINUTE).await.expect("an answer");
    let large = || Failure::PAYLOAD_TOO_LARGE.to_owned();
    assert_eq!(kinds, Some(Ok((large(), large()))));
    assert_eq!(
        ATTEMPTS.load(Ordering::SeqCst),
        1,
        "trying again cannot help"
    );
    let refused = handle.signal(APPROVED, &"x".repeat(1000)).await;
    let refused = refused.expect_err("too large");
    assert_eq!(refused.kind(), coord_core::ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_told_once_that_it_should_continue_as_new_and_may_do_so_when_it_likes() {
    const CHAIN: Workflow<u32, u32> = Workflow::new("tests.chain");
    async fn chain(ctx: Context, mut done: u32) -> Result<u32, Failure> {
        while done < 30 {
            ctx.activity(DOUBLE, &done).await?;
            done += 1;
            if ctx.should_continue_as_new() {
                return Err(ctx.continue_as_new(&done));
            }
        }
        Ok(done)
    }
    let stage = stage(Limits {
        suggest_events: 20,
        ..Limits::default()
    })
    .await;
    let _worker = stage
        .worker()
        .workflow(CHAIN, chain)
        .activity(DOUBLE, double)
        .start();

    let started = stage.client.start(CHAIN, id("a"), &0).await;

    let handle = started.expect("started").handle;
    assert_eq!(
        handle.result(MINUTE).await.expect("an answer"),
        Some(Ok(30))
    );
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.run.status, RunStatus::Completed);
    assert!(described.run.number > 2, "run {}", described.run.number);
    assert!(described.run.history_length < 30);
}

#[tokio::test(start_paused = true)]
async fn a_history_that_is_full_refuses_operations_and_lets_its_run_end() {
    const FOREVER: Workflow<(), u32> = Workflow::new("tests.forever");
    async fn forever(ctx: Context, (): ()) -> Result<u32, Failure> {
        let mut done = 0;
        loop {
            let step = ctx.step("count", async || Ok::<_, Failure>(1)).await;
            let step = match step {
                Ok(_) => ctx.activity(DOUBLE, &1).await.map(drop),
                Err(failure) => Err(failure),
            };
            match step {
                Ok(()) => done += 1,
                Err(failure) if failure.kind == Failure::LIMIT_EXCEEDED => return Ok(done),
                Err(failure) => return Err(failure),
            }
        }
    }
    let stage = stage(Limits {
        history_events: 31,
        ..Limits::default()
    })
    .await;
    let _worker = stage
        .worker()
        .workflow(FOREVER, forever)
        .activity(DOUBLE, double)
        .start();

    let started = stage.client.start(FOREVER, id("a"), &()).await;

    let handle = started.expect("started").handle;
    assert_eq!(
        handle.result(MINUTE).await.expect("an answer"),
        Some(Ok(10))
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_turn_is_committed_in_parts_and_nothing_is_refused() {
    const GATHER: Workflow<u32, u32> = Workflow::new("tests.gather");
    const NUMBER: Signal<u32> = Signal::new("number");
    async fn gather(ctx: Context, count: u32) -> Result<u32, Failure> {
        let mut sum = 0;
        for _ in 0..count {
            sum += ctx.signal(NUMBER).recv().await?;
        }
        Ok(sum)
    }
    let stage = stage(Limits {
        transaction_events: 50,
        command_batch: 10,
        ..Limits::default()
    })
    .await;
    let started = stage.client.start(GATHER, id("a"), &600).await;
    let handle = started.expect("started").handle;
    for _ in 0..600 {
        handle.signal(NUMBER, &1).await.expect("sent");
    }

    let _worker = stage.worker().workflow(GATHER, gather).start();

    assert_eq!(
        handle.result(MINUTE).await.expect("an answer"),
        Some(Ok(600))
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_beyond_what_may_wait_is_refused_to_its_sender() {
    const BUSY: Workflow<(), ()> = Workflow::new("tests.busy");
    async fn busy(ctx: Context, (): ()) -> Result<(), Failure> {
        ctx.signal(APPROVED).recv().await.map(drop)
    }
    let stage = stage(Limits {
        pending_updates: 1,
        ..Limits::default()
    })
    .await;
    let _worker = stage.worker().workflow(BUSY, busy).start();
    let started = stage.client.start(BUSY, id("a"), &()).await;
    let handle = started.expect("started").handle;
    let send = async |request: &str| {
        let request = RequestId::new(request).expect("an id");
        handle.update(ADD, &1, request, MINUTE).await
    };

    assert_eq!(send("r1").await.expect("no answer is no error"), None);
    let refused = send("r2").await.expect("an answer").expect("in time");

    assert_eq!(refused.expect_err("refused").kind, Failure::LIMIT_EXCEEDED);
}

#[tokio::test(start_paused = true)]
async fn what_a_codec_wrote_is_all_that_the_database_sees() {
    let memory = Memory::new();
    let engine = Engine::builder(memory.clone());
    let engine = engine.codec(crate::values::tests::Inverted).start().await;
    let engine = engine.expect("a store in memory");
    let client = engine.client(namespace(), queue());
    let stage = Stage { engine, client };
    let _worker = stage.sum_worker();
    let started = stage.client.start(SUM, id("a"), &vec![1, 2]).await;
    let handle = started.expect("started").handle;

    assert_eq!(handle.result(MINUTE).await.expect("an answer"), Some(Ok(6)));

    let history = handle.history().await.expect("a history");
    let codecs = history.iter().filter_map(|event| event.payload.as_ref());
    let codecs: Vec<_> = codecs.map(|payload| payload.codec.to_string()).collect();
    assert_eq!(codecs, ["inverted"; 6]);
    let other = Engine::start(memory).await.expect("a store in memory");
    let other = other.client(namespace(), queue()).handle(SUM, id("a"));
    let error = other.result(MINUTE).await.expect_err("another codec");
    assert!(error.to_string().contains("inverted"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_saga_undoes_the_last_thing_first_and_says_what_it_could_not_undo() {
    const TRIP: Workflow<bool, u32> = Workflow::new("tests.trip");
    const BOOK: Activity<u32, u32> = Activity::new("tests.book");
    const CANCEL: Activity<u32, ()> = Activity::new("tests.cancel");
    static CANCELLED: std::sync::Mutex<Vec<u32>> = std::sync::Mutex::new(Vec::new());
    async fn book_one(ctx: &Context, saga: &Saga, number: u32) -> Result<u32, Failure> {
        let booked = ctx.activity(BOOK, &number).retry(Retry::never()).await?;
        let undo = move |ctx: Context| async move {
            ctx.activity(CANCEL, &booked).retry(Retry::never()).await
        };
        saga.undo(undo);
        Ok(booked)
    }
    async fn trip(ctx: Context, waits: bool) -> Result<u32, Failure> {
        let saga = ctx.saga();
        let booked = async {
            book_one(&ctx, &saga, 1).await?;
            book_one(&ctx, &saga, 2).await?;
            if waits {
                ctx.signal(APPROVED).recv().await?;
            }
            book_one(&ctx, &saga, 3).await
        };
        saga.settle(booked.await).await
    }
    async fn book(_: Attempt, number: u32) -> Result<u32, Failure> {
        match number {
            3 => Err(Failure::new("no room").of_kind("full")),
            booked => Ok(booked * 10),
        }
    }
    async fn cancel(_: Attempt, booked: u32) -> Result<(), Failure> {
        CANCELLED.lock().expect("free").push(booked);
        match booked {
            20 if CANCELLED.lock().expect("free").len() > 2 => Err(Failure::new("too late")),
            _ => Ok(()),
        }
    }
    let stage = Stage::new().await;
    let worker = stage.worker().workflow(TRIP, trip);
    let _worker = worker.activity(BOOK, book).activity(CANCEL, cancel).start();

    let cancelled = stage.client.start(TRIP, id("a"), &true).await;
    let cancelled = cancelled.expect("started").handle;
    tokio::time::sleep(MINUTE).await;
    cancelled.cancel("enough").await.expect("asked");
    let end = cancelled.result(MINUTE).await.expect("an answer");
    assert_eq!(
        end.expect("ended").expect_err("cancelled").kind,
        "cancelled"
    );
    let described = cancelled.describe().await.expect("an answer");
    assert_eq!(described.expect("there").run.status, RunStatus::Cancelled);
    assert_eq!(*CANCELLED.lock().expect("free"), [20, 10]);

    let failed = stage.client.start(TRIP, id("b"), &false).await;
    let failed = failed.expect("started").handle;
    let end = failed.result(MINUTE).await.expect("an answer");
    let failure = end.expect("ended").expect_err("full");
    assert_eq!(failure.kind, Failure::NOT_UNDONE);
    assert!(failure.message.contains("too late"), "{failure}");
    assert_eq!(failure.cause.expect("what led to it").kind, "full");
    assert_eq!(*CANCELLED.lock().expect("free"), [20, 10, 20, 10]);
}
