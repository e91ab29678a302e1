//! The client, on every dialect.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_engine::Engine;
use coord_engine::client::{Client, MAX_BATCH_STARTS, Queried, Reached, StartCall, Updated};
use coord_engine::flow::{Context, Signal, Workflow};
use coord_engine::model::{Attributes, Failure, History, Queue, RequestId, TypeName, WorkflowId};
use coord_engine::store::{Condition, Filter, Target, Test};
use coord_engine::worker::Worker;

use crate::callers::{Caller, with};
use crate::stage::{Stage, namespace, request};

const ECHO: Workflow<String, String> = Workflow::new("tests.echo");
const COLLECT: Workflow<u32, Vec<String>> = Workflow::new("tests.collect");
const STAGES: Workflow<u32, String> = Workflow::new("tests.stages");
const NEWS: Signal<String> = Signal::new("news");
/// Far above what anything here takes.
const SOON: Duration = Duration::from_mins(1);

async fn echo(_: Context, text: String) -> Result<String, Failure> {
    Ok(text)
}

/// The first `count` signals.
async fn collect(ctx: Context, count: u32) -> Result<Vec<String>, Failure> {
    let mut collected = Vec::new();
    for _ in 0..count {
        collected.push(ctx.signal(NEWS).recv().await?);
    }
    Ok(collected)
}

/// Is found by its stage, also over the run that it goes on as, until it hears some news.
async fn stages(ctx: Context, number: u32) -> Result<String, Failure> {
    if number == 0 {
        ctx.set_search_attributes(ctx.search_attributes().with("stage", "first")?)?;
        ctx.set_memo(serde_json::Map::from_iter([(
            "about".to_owned(),
            "a".into(),
        )]))?;
        return Err(ctx.continue_as_new(&1));
    }
    let before = ctx.search_attributes();
    ctx.set_search_attributes(before.clone().with("stage", "second")?)?;
    ctx.signal(NEWS).recv().await?;
    ctx.set_search_attributes(Attributes::new())?;
    let about = ctx.memo()["about"].to_string();
    Ok(format!("{before:?} {about}"))
}

fn client(engine: &Engine) -> Client {
    engine.client(namespace(), Queue::default())
}

fn worker(engine: &Engine) -> Worker {
    let worker = engine.worker(namespace(), Queue::default());
    worker
        .workflow(ECHO, echo)
        .workflow(COLLECT, collect)
        .workflow(STAGES, stages)
        .start()
}

fn id(text: &str) -> WorkflowId {
    WorkflowId::new(text).expect("an id")
}

pub(crate) async fn a_batch_of_starts_is_answered_one_by_one(stage: Stage) {
    let engine = stage.database.engine().await;
    let client = client(&engine);
    client
        .start(ECHO, id("taken"), &String::new())
        .await
        .expect("started");
    let start = |name: &str, text: &str| client.start(ECHO, id(name), &text.to_owned());
    let too_large = "x".repeat(coord_engine::Limits::default().payload_bytes as usize);

    let answers = client
        .start_batch([
            start("a", "1"),
            start("taken", "2"),
            start("taken", "3").or_existing(),
            start("b", &too_large),
            start("c", "4"),
            start("c", "5"),
        ])
        .await
        .expect("an answer to each");

    let said: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(started) => Ok(started.was_created),
            Err(error) => Err(error.kind()),
        })
        .collect();
    let invalid = Err(ErrorKind::Invalid);
    assert_eq!(
        said,
        [Ok(true), invalid, Ok(false), invalid, Ok(true), invalid]
    );
    let _worker = worker(&engine);
    for (answer, expected) in [(0, "1"), (4, "4")] {
        let handle = &answers[answer].as_ref().expect("started").handle;
        let done = handle.result(SOON).await.expect("an answer");
        assert_eq!(done, Some(Ok(expected.to_owned())));
    }
}

pub(crate) async fn a_command_by_name_is_answered_by_what_became_of_it(stage: Stage) {
    let engine = stage.database.engine().await;
    let untyped = client(&engine).untyped();
    let type_name = |text: &str| TypeName::new(text).expect("a name");
    let current = Target::Current(namespace(), id("c"));
    let news = |request: &str, target: &Target| {
        let (untyped, target, request) = (untyped.clone(), target.clone(), self::request(request));
        let name = TypeName::new("news").expect("a name");
        async move {
            untyped
                .signal(target, name, &"n".into(), Some(request))
                .await
        }
    };
    assert_eq!(
        news("r", &current).await.expect("an answer"),
        Reached::Missing
    );

    let start = untyped.start(type_name("tests.collect"), id("c"), &2.into());
    let run = start
        .await
        .expect("started")
        .handle
        .run()
        .cloned()
        .expect("known");

    // Once a request, by the run as by its workflow.
    let this = Target::Run(run.clone());
    assert_eq!(
        news("r", &current).await.expect("sent"),
        Reached::Now(run.clone())
    );
    assert_eq!(
        news("r", &this).await.expect("sent"),
        Reached::Before(run.clone())
    );
    let asked = untyped.query(&current, &type_name("any"), &().into()).await;
    assert_eq!(asked.expect("an answer"), Queried::NobodyHere);
    let _worker = worker(&engine);
    let asked = untyped.query(&current, &type_name("any"), &().into()).await;
    assert_eq!(asked.expect("an answer"), Queried::NotKnown);
    assert_eq!(
        news("s", &this).await.expect("sent"),
        Reached::Now(run.clone())
    );
    let ended = client(&engine).handle(COLLECT, id("c")).result(SOON).await;
    assert_eq!(
        ended
            .expect("an answer")
            .and_then(Result::ok)
            .map(|it| it.len()),
        Some(2)
    );

    let (_, events) = untyped
        .events(&run, 1, 2)
        .await
        .expect("read")
        .expect("a run");
    assert_eq!(
        events.iter().map(|event| event.seq).collect::<Vec<_>>(),
        [2, 3]
    );
    let late = untyped.cancel(this.clone(), "late", None).await;
    assert_eq!(late.expect("an answer"), Reached::Closed);
    let late = untyped.terminate(current.clone(), "late", None).await;
    assert_eq!(late.expect("an answer"), Reached::Closed);
    let update = (type_name("u"), &().into());
    let update = untyped
        .update(current, update, self::request("u"), SOON)
        .await;
    assert_eq!(update.expect("an answer"), Updated::Closed);
}

pub(crate) async fn a_batch_that_is_too_large_starts_nothing(stage: Stage) {
    let engine = stage.database.engine().await;
    let client = client(&engine);
    let calls = |count: usize| {
        let call = |number| client.start(ECHO, id(&format!("w{number}")), &String::new());
        (0..count).map(call).collect::<Vec<StartCall<String>>>()
    };

    let refused = client.start_batch(calls(MAX_BATCH_STARTS + 1)).await;

    assert_eq!(
        refused.err().map(|error| error.kind()),
        Some(ErrorKind::Invalid)
    );
    let described = client.handle(ECHO, id("w0")).describe().await;
    assert_eq!(described.expect("an answer"), None);
    let started = client
        .start_batch(calls(MAX_BATCH_STARTS))
        .await
        .expect("started");
    assert!(started.iter().all(Result::is_ok));
}

pub(crate) async fn what_is_started_with_the_callers_own_rows_is_worked_on_after_the_commit(
    stage: Stage,
) {
    let Some(mut caller) = Caller::begin(&stage.database).await else {
        return;
    };
    caller.execute("CREATE TABLE orders (id INTEGER)").await;
    caller.commit().await;
    let engine = stage.database.engine().await;
    let (client, _worker) = (client(&engine), worker(&engine));
    for (name, is_kept) in [("kept", true), ("undone", false)] {
        let mut caller = Caller::begin(&stage.database).await.expect("another");
        caller.execute("INSERT INTO orders VALUES (1)").await;
        let call = client.start(ECHO, id(name), &"hello".to_owned());

        let started = with!(&mut caller, it => call.in_transaction(it).await).expect("started");

        assert!(started.value().was_created);
        if is_kept {
            caller.commit().await;
            let handle = started.committed().handle;
            let done = handle.result(SOON).await.expect("an answer");
            assert_eq!(done, Some(Ok("hello".to_owned())));
        } else {
            caller.roll_back().await;
            drop(started);
            let described = client.handle(ECHO, id(name)).describe().await;
            assert_eq!(described.expect("an answer"), None);
        }
    }
}

pub(crate) async fn a_signal_in_the_callers_transaction_is_received_once(stage: Stage) {
    let Some(mut undone) = Caller::begin(&stage.database).await else {
        return;
    };
    let engine = stage.database.engine().await;
    let (client, _worker) = (client(&engine), worker(&engine));
    let started = client.start(COLLECT, id("w"), &2).await.expect("started");
    let handle = started.handle;
    let signal = |text: &str| handle.signal(NEWS, &text.to_owned());

    let sent = with!(&mut undone, it => signal("undone").in_transaction(it).await);
    undone.roll_back().await;
    drop(sent.expect("sent"));
    let mut kept = Caller::begin(&stage.database).await.expect("another");
    let sent = with!(&mut kept, it => signal("kept").in_transaction(it).await);
    kept.commit().await;
    sent.expect("sent").committed();
    signal("last").await.expect("sent");

    let done = handle.result(SOON).await.expect("an answer");
    assert_eq!(done, Some(Ok(vec!["kept".to_owned(), "last".to_owned()])));
}

pub(crate) async fn a_command_with_a_request_is_carried_out_once(stage: Stage) {
    let engine = stage.database.engine().await;
    let client = client(&engine);
    let once = |name: &str| -> RequestId { request(name) };
    let start = || client.start(COLLECT, id("w"), &2).request(once("start"));
    let first = start().await.expect("started");
    let again = start().await.expect("answered as the first time");
    assert!(again.was_created);
    assert_eq!(again.handle.run(), first.handle.run());
    let handle = first.handle;
    for _ in 0..2 {
        let signal = handle.signal(NEWS, &"one".to_owned());
        signal.request(once("signal")).await.expect("sent");
        handle
            .cancel("enough")
            .request(once("cancel"))
            .await
            .expect("asked");
    }
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.run.inbox_seq, 2, "one signal, one request to end");

    for _ in 0..2 {
        let end = handle.terminate("now").request(once("end"));
        end.await.expect("ended, and said so again");
    }

    let error = handle.terminate("now").await.expect_err("it has ended");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

pub(crate) async fn a_url_and_a_pool_lead_to_the_same_database(stage: Stage) {
    let Some([at_url, beside]) = stage.database.engines().await else {
        return;
    };
    let start = client(&at_url).start(ECHO, id("w"), &"hello".to_owned());
    start.await.expect("started");

    let _worker = worker(&beside);

    let done = client(&beside).handle(ECHO, id("w")).result(SOON).await;
    assert_eq!(done.expect("an answer"), Some(Ok("hello".to_owned())));
}

pub(crate) async fn a_workflow_says_what_it_is_found_by(stage: Stage) {
    let engine = stage.database.engine().await;
    let (client, first) = (client(&engine), worker(&engine));
    let found = async |name: &str, value: &str| {
        let condition = Condition {
            name: name.to_owned(),
            test: Test::Is(value.into()),
        };
        let filter = Filter {
            attributes: vec![condition],
            ..Filter::all(namespace())
        };
        client.count(&filter).await.expect("a count")
    };
    let customer = Attributes::new().with("customer", "ann").expect("one");
    let start = client.start(STAGES, id("w"), &0);
    let handle = start
        .search_attributes(customer)
        .await
        .expect("started")
        .handle;
    let until = tokio::time::Instant::now() + SOON;
    while found("stage", "second").await == 0 {
        assert!(tokio::time::Instant::now() < until, "it is never found");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(found("customer", "ann").await, 2, "both runs");
    assert_eq!(found("stage", "first").await, 1, "the first run");
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.memo["about"], "a");

    // Another worker runs the code again, along its history.
    assert!(first.shutdown(SOON).await);
    let _second = worker(&engine);
    handle.signal(NEWS, &String::new()).await.expect("sent");

    let done = handle
        .result(SOON)
        .await
        .expect("an answer")
        .expect("in time");
    let text = done.expect("its output");
    assert!(
        text.contains("ann") && text.contains("first") && text.ends_with("\"a\""),
        "{text}"
    );
    assert_eq!(found("stage", "second").await, 0);
    let history = handle.history().await.expect("a history");
    let kinds = history
        .iter()
        .filter(|it| it.kind.name() == "SearchAttributes");
    assert_eq!(kinds.count(), 2);
}

async fn exported(stage: &Stage, signals: u32) -> History {
    let engine = stage.database.engine().await;
    let (client, worker) = (client(&engine), worker(&engine));
    let start = client.start(COLLECT, id("w"), &2);
    let attributes = Attributes::new().with("customer", "ann").expect("one");
    let handle = start
        .search_attributes(attributes)
        .await
        .expect("started")
        .handle;
    for number in 0..signals {
        let signal = handle.signal(NEWS, &number.to_string());
        signal.await.expect("sent");
    }
    let until = tokio::time::Instant::now() + SOON;
    loop {
        let history = handle.export().await.expect("a history");
        let applied = history
            .events()
            .iter()
            .filter(|it| it.kind.name() == "SignalApplied");
        if applied.count() == signals as usize {
            assert!(worker.shutdown(SOON).await);
            let text = handle.export().await.expect("a history").to_json();
            return History::from_json(&text.expect("a document")).expect("a history");
        }
        assert!(tokio::time::Instant::now() < until, "{history:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn an_exported_run_is_imported_under_its_ids_and_only_once(stage: Stage) {
    let history = exported(&stage, 2).await;
    let empty = Stage::new(stage.database.another().await).await;
    let engine = empty.database.engine().await;
    let there = client(&engine);

    there.import(&history).await.expect("imported");

    let handle = there.handle(COLLECT, id("w"));
    assert_eq!(handle.export().await.expect("a history"), history);
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.run.run, *history.run());
    assert_eq!(described.tasks, []);
    assert!(described.attributes.get("customer").is_some());
    let done = handle.result(SOON).await.expect("an answer");
    assert_eq!(done, Some(Ok(vec!["0".to_owned(), "1".to_owned()])));
    let elsewhere = coord_engine::model::Namespace::new("elsewhere").expect("a name");
    for client in [there, engine.client(elsewhere, Queue::default())] {
        let again = client.import(&history).await.expect_err("it is there");
        assert_eq!(again.kind(), ErrorKind::Invalid);
    }
    assert_eq!(handle.export().await.expect("a history"), history);
}

pub(crate) async fn an_open_run_that_is_imported_waits_until_it_is_resumed(stage: Stage) {
    let history = exported(&stage, 1).await;
    let empty = Stage::new(stage.database.another().await).await;
    let engine = empty.database.engine().await;
    let (client, _worker) = (client(&engine), worker(&engine));

    client.import(&history).await.expect("imported");

    let handle = client.handle(COLLECT, id("w"));
    let described = handle.describe().await.expect("an answer").expect("there");
    assert_eq!(described.tasks[0].blocked.as_deref(), Some("imported"));
    handle.signal(NEWS, &"last".to_owned()).await.expect("sent");
    assert_eq!(handle.export().await.expect("a history"), history);
    handle.resume().await.expect("resumed");
    let done = handle.result(SOON).await.expect("an answer");
    assert_eq!(done, Some(Ok(vec!["0".to_owned(), "last".to_owned()])));
}
