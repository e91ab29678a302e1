//! Activities and local steps.

use super::*;

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

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn results_that_come_during_a_commit_go_along_with_one_another() {
    const ALL: Workflow<u32, u32> = Workflow::new("tests.all");
    async fn all(ctx: Context, count: u32) -> Result<u32, Failure> {
        let calls = (0..count).map(|number| ctx.activity(DOUBLE, &number));
        let doubled: Result<Vec<u32>, Failure> = join_all(calls).await.into_iter().collect();
        Ok(doubled?.iter().sum())
    }
    // A database that answers later, unlike the one of the other tests.
    let store = crate::store::Sqlite::connect("sqlite::memory:").expect("a url");
    let engine = Engine::start(store).await.expect("a database in memory");
    let worker = engine.worker(namespace(), queue()).workflow(ALL, all);
    let _worker = worker.activity(DOUBLE, double).start();
    let client = engine.client(namespace(), queue());
    let started = client.start(ALL, id("a"), &50).await.expect("started");

    let result = started.handle.result(MINUTE).await.expect("an answer");

    assert_eq!(result, Some(Ok(49 * 50)));
    let history = started.handle.history().await.expect("a history");
    let is_end = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted(_));
    let ends = history.iter().filter(|event| is_end(&event.kind));
    assert_eq!(ends.count(), 50);
    let described = started.handle.describe().await.expect("an answer");
    let messages = described.expect("there").run.inbox_seq;
    assert_eq!(messages, 0, "each would have been a message of its own");
}
