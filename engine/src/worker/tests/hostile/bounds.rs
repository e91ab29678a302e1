//! More than may be, and spans that are none.

use super::*;
use crate::limits::Limits;

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
