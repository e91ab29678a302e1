//! Local steps, and what interrupts them.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_request_to_end_interrupts_a_local_step_and_the_workflow_cleans_up() {
    static DROPPED: AtomicU32 = AtomicU32::new(0);
    const HANGS: Workflow<(), u32> = Workflow::new("tests.hangs");
    struct Notes;
    impl Drop for Notes {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    async fn hangs(ctx: Context, (): ()) -> Result<u32, Failure> {
        let hung = ctx.step("hang", async || {
            let _notes = Notes;
            std::future::pending::<Result<u32, Failure>>().await
        });
        let failure = hung.await.expect_err("it never ends by itself");
        assert_eq!(failure.kind, Failure::CANCELLED);
        let cleaned = ctx.step("clean", async || Ok::<_, Failure>(21)).await?;
        ctx.activity(DOUBLE, &cleaned).await
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(HANGS, hangs)
        .activity(DOUBLE, double)
        .start();
    let started = stage.client.start(HANGS, id("a"), &()).await;
    let handle = started.expect("started").handle;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();

    handle.cancel("enough").await.expect("asked");

    assert_eq!(
        handle.result(MINUTE).await.expect("an answer"),
        Some(Ok(42))
    );
    assert!(
        before.elapsed() < Duration::from_secs(5),
        "not by a renewal"
    );
    assert_eq!(DROPPED.load(Ordering::SeqCst), 1);
    let history = handle.history().await.expect("a history");
    let failed = history.iter().find_map(|event| match &event.kind {
        EventKind::StepFailed(failed) => Some(failed.failure.message.clone()),
        _ => None,
    });
    assert_eq!(failed.as_deref(), Some("enough"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_terminated_stays_so_whatever_its_code_returns_later() {
    const SLOW: Workflow<(), u32> = Workflow::new("tests.slow");
    async fn slow(ctx: Context, (): ()) -> Result<u32, Failure> {
        ctx.step("slow", async || {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok::<_, Failure>(1)
        })
        .await
    }
    let stage = Stage::new().await;
    let _worker = stage.worker().workflow(SLOW, slow).start();
    let started = stage.client.start(SLOW, id("a"), &()).await;
    let handle = started.expect("started").handle;
    tokio::time::sleep(Duration::from_secs(1)).await;

    handle.terminate("enough").await.expect("ended");
    tokio::time::sleep(MINUTE).await;

    let failure = handle.result(MINUTE).await.expect("an answer");
    assert_eq!(
        failure.expect("ended").expect_err("ended").kind,
        Failure::TERMINATED
    );
    let history = handle.history().await.expect("a history");
    let last = history.last().map(|event| event.kind.name().to_owned());
    assert_eq!(last.as_deref(), Some("Terminated"));
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_due_at_the_instant_that_was_fixed_whatever_happens_meanwhile() {
    const BOTH: Workflow<(), i64> = Workflow::new("tests.both");
    async fn both(ctx: Context, (): ()) -> Result<i64, Failure> {
        let begun = ctx.now();
        let (slept, doubled) = join(ctx.sleep(5 * MINUTE), ctx.activity(DOUBLE, &1)).await;
        slept?;
        doubled?;
        i64::try_from(ctx.now().since(begun).as_secs()).map_err(Failure::from)
    }
    async fn three_minutes(_: Attempt, number: u32) -> Result<u32, Failure> {
        tokio::time::sleep(3 * MINUTE).await;
        Ok(number)
    }
    let stage = Stage::new().await;
    let _worker = stage
        .worker()
        .workflow(BOTH, both)
        .activity(DOUBLE, three_minutes)
        .start();

    let started = stage.client.start(BOTH, id("a"), &()).await;

    let handle = started.expect("started").handle;
    let seconds = handle.result(60 * MINUTE).await.expect("an answer");
    let seconds = seconds.expect("ended").expect("an output");
    assert!((300..302).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_came_due_while_nobody_was_there_fires_once_when_somebody_is() {
    const NAP: Workflow<(), ()> = Workflow::new("tests.nap");
    async fn nap(ctx: Context, (): ()) -> Result<(), Failure> {
        ctx.sleep(Duration::from_secs(1)).await
    }
    let stage = Stage::new().await;
    let worker = stage.worker().workflow(NAP, nap).start();
    let started = stage.client.start(NAP, id("a"), &()).await;
    let handle = started.expect("started").handle;
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(worker);
    tokio::time::sleep(5 * MINUTE).await;

    let _next = stage.worker().workflow(NAP, nap).start();

    assert_eq!(
        handle.result(MINUTE).await.expect("an answer"),
        Some(Ok(()))
    );
    let history = handle.history().await.expect("a history");
    let fired = history
        .iter()
        .filter(|event| matches!(event.kind, EventKind::TimerFired(_)));
    assert_eq!(fired.count(), 1);
}
