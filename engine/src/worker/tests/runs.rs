//! Workflows: signals, timers, children, ends.

use super::*;

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
async fn an_update_is_answered_once_or_refused() {
    const COUNTER: Workflow<u32, u32> = Workflow::new("tests.counter");
    async fn counter(ctx: Context, most: u32) -> Result<u32, Failure> {
        let (mut count, adds) = (0, ctx.updates(ADD));
        while count < most {
            let request = adds.recv().await?;
            if request.input == 0 {
                request.reject(Failure::new("nothing to add").of_kind("empty"));
                continue;
            }
            count += request.input;
            request.complete(&count);
        }
        Ok(count)
    }
    let stage = Stage::new().await;
    let worker = || stage.worker().workflow(COUNTER, counter).start();
    let first = worker();
    let handle = stage
        .client
        .start(COUNTER, id("a"), &5)
        .await
        .expect("started")
        .handle;
    let add = async |number: u32, request: &str| {
        let request = RequestId::new(request).expect("an id");
        let answer = handle.update(ADD, &number, request, MINUTE).await;
        answer.expect("an answer").expect("in time")
    };

    assert_eq!(add(2, "r1").await, Ok(2));
    assert_eq!(add(0, "r2").await.expect_err("refused").kind, "empty");
    assert_eq!(add(2, "r1").await, Ok(2), "the same request");
    first.shutdown(MINUTE).await;
    let _second = worker();
    assert_eq!(add(3, "r3").await, Ok(5), "along a history with answers");

    assert_eq!(handle.result(MINUTE).await.expect("an answer"), Some(Ok(5)));
    let history = handle.history().await.expect("a history");
    let answers = history.iter().filter(|event| {
        matches!(
            event.kind,
            EventKind::UpdateCompleted(_) | EventKind::UpdateRejected(_)
        )
    });
    assert_eq!(answers.count(), 3);
}
