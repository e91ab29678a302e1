//! Runs that continue as new while everything else goes on.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_child_that_continues_a_hundred_times_sees_every_signal_once_and_its_parent_the_end() {
    const CHILD: Workflow<Vec<u32>, Vec<u32>> = Workflow::new("tests.child");
    const PARENT: Workflow<(), Vec<u32>> = Workflow::new("tests.parent");
    const NUMBER: Signal<u32> = Signal::new("number");
    async fn child(ctx: Context, mut seen: Vec<u32>) -> Result<Vec<u32>, Failure> {
        for _ in 0..10 {
            seen.push(ctx.signal(NUMBER).recv().await?);
        }
        if seen.len() == 1000 {
            return Ok(seen);
        }
        Err(ctx.continue_as_new(&seen))
    }
    async fn parent(ctx: Context, (): ()) -> Result<Vec<u32>, Failure> {
        ctx.child(CHILD, &Vec::new()).id(id("child")).await
    }
    let stage = Stage::new().await;
    let worker = stage.worker().workflow(PARENT, parent);
    let _worker = worker.workflow(CHILD, child).start();
    let started = stage.client.start(PARENT, id("parent"), &()).await;
    let handle = started.expect("started").handle;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let child = stage.client.handle(CHILD, id("child"));
    for number in 0..1000 {
        child.signal(NUMBER, &number).await.expect("sent");
    }

    let seen = handle.result(10 * MINUTE).await.expect("an answer");
    let seen = seen.expect("ended").expect("an output");
    assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    let described = child.describe().await.expect("an answer").expect("there");
    assert_eq!(described.run.number, 100);
}
