//! Processes that keep to a namespace.

use super::*;

const NOTHING: Workflow<(), ()> = Workflow::new("tests.nothing");

async fn nothing(_: Context, (): ()) -> Result<(), Failure> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_engine_of_a_namespace_removes_nothing_of_another() {
    let store = Memory::new();
    let of = async |name: &str| {
        let builder = Engine::builder(store.clone());
        let builder = builder.namespace(Namespace::new(name).expect("a name"));
        builder.start().await.expect("a store in memory")
    };
    let (own, other) = (of("tests").await, of("other").await);
    let client = own.client(namespace(), queue());
    let worker = own.worker(namespace(), queue());
    let _worker = worker.workflow(NOTHING, nothing).start();
    let started = client.start(NOTHING, id("a"), &()).await.expect("started");
    let ended = started.handle.result(MINUTE).await.expect("an answer");
    assert_eq!(ended, Some(Ok(())));
    client.keep_closed_runs(Duration::ZERO).await.expect("set");

    assert_eq!(other.retire_closed_runs(|_| {}).await.expect("removed"), 0);
    assert_eq!(own.retire_closed_runs(|_| {}).await.expect("removed"), 1);
}
