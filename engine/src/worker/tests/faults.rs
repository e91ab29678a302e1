//! What a worker leaves behind, and code that is wrong.

use super::*;
use crate::committer::locked;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_ends_though_an_activity_blocks_its_thread_and_others_go_on_with_it() {
    const BLOCKED: Workflow<(), u32> = Workflow::new("tests.blocked");
    async fn blocked(ctx: Context, (): ()) -> Result<u32, Failure> {
        ctx.activity(DOUBLE, &1).await
    }
    let stage = Stage::new().await;
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(2);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(Some(released));
    let blocks = move |_: Attempt, number: u32| {
        // Only the first time.
        if let Some(released) = locked(&released).take() {
            begun.try_send(()).expect("somebody waits for it");
            // What a client without async does.
            _ = released.recv();
        }
        async move { Ok::<_, Failure>(number) }
    };
    let worker = || stage.worker().workflow(BLOCKED, blocked);
    let first = worker().activity(DOUBLE, blocks).start();
    let handle = stage
        .client
        .start(BLOCKED, id("a"), &())
        .await
        .expect("started")
        .handle;
    has_begun.recv().await.expect("it blocks");

    assert!(!first.shutdown(Duration::ZERO).await, "it blocks");
    let second = worker().activity(DOUBLE, double).start();
    let result = handle.result(MINUTE).await.expect("an answer");
    release.send(()).expect("it waits still");

    assert_eq!(result, Some(Ok(2)), "the second one made it");
    assert!(second.shutdown(MINUTE).await);
    assert_eq!(handle.result(MINUTE).await.expect("an answer"), result);
}
