//! Tasks that are handed over from node to node through streams in Redis.

use std::ops::Range;
use std::time::Duration;

use coord_engine::Engine;
use coord_engine::client::Client;
use coord_engine::flow::Workflow;
use coord_engine::health::{Category, Check, Status};
use coord_engine::model::{Namespace, Queue};
use coord_engine::operator::Figures;
use coord_engine::worker::Worker;
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::servers::RedisServer;
use coord_tests::wait::{eventually, eventually_some};

use super::nodes::AUDIT;
use super::wake::{client, end_right, engine, start};
use super::{SOON, Stage, id};

pub(super) const MODE: &str = "DW_V2_TASK_DISPATCH_MODE";
/// How long an activity of the nodes takes.
const STEP: Duration = Duration::from_millis(5);
/// How many workflows come one by one to nodes that have nothing else to do.
const RUNS: u64 = 60;

/// For how many workers of a process there is a place.
const PLACES: u64 = 64;
const DOUBLE: Workflow<u64, u64> = Workflow::new("tests.double");

fn queue(number: u64) -> Queue {
    Queue::new(format!("queue-{number}")).expect("a name")
}

async fn dispatch(engine: &Engine) -> Check {
    let report = engine.health().await;
    let check = report.check("task_dispatch").expect("it is looked at");
    assert_eq!(check.category, Category::Acceleration);
    check.clone()
}

/// What two nodes did with workflows that came one by one.
async fn one_by_one(url: &str, mode: &str) -> Figures {
    let stage = Stage::new();
    let environment = stage.environment(&[
        ("CACHE_DRIVER", "redis"),
        ("COORD_REDIS_URL", url),
        ("COORD_REDIS_PREFIX", mode),
        ("COORD_ENGINE_HEARTBEAT", "200ms"),
        (MODE, mode),
    ]);
    let engine = engine(&environment).await;
    let client = client(&engine);
    let _one = stage.node_in(STEP, &environment).await;
    let _two = stage.node_in(STEP, &environment).await;
    for record in 0..RUNS {
        let started = client.start(AUDIT, id(&record.to_string()), &record).await;
        let ended = started.expect("started").handle.result(SOON).await;
        assert_eq!(ended.expect("an answer"), Some(Ok(record * 4)));
    }
    let what = "the nodes have written what they did";
    eventually_some(SOON, what, || async {
        let snapshot = engine.operator_snapshot().await.expect("read");
        assert_eq!(snapshot.task_dispatch_mode, mode);
        (snapshot.fleet.runs_closed == RUNS).then_some(snapshot.fleet)
    })
    .await
}

const fn in_vain(of: &Figures) -> u64 {
    let asked = of.looks_by_hint + of.looks_by_hand;
    asked - of.looks_by_hint_with_work - of.looks_by_hand_with_work
}

#[tokio::test]
async fn nodes_that_are_handed_tasks_look_in_vain_less_often() {
    let server = need!(RedisServer::start().await);

    let polled = one_by_one(&server.url(), "poll").await;
    let queued = one_by_one(&server.url(), "queue").await;

    for (mode, of) in [("poll", &polled), ("queue", &queued)] {
        println!(
            "{mode}: {RUNS} runs on two nodes: {} looks by hints, {} by what was handed over, {} \
             by the time; {} of them in vain; {} calls of the database",
            of.looks_by_hint,
            of.looks_by_hand,
            of.looks_by_time,
            in_vain(of),
            of.calls.count,
        );
    }
    assert_eq!(polled.looks_by_hand, 0);
    assert!(queued.looks_by_hand_with_work > 0, "{queued:?}");
    assert!(in_vain(&queued) < in_vain(&polled));
}

/// Has a workflow done in the queue of one worker.
async fn ends_in(starter: &Engine, number: u64) {
    let client = starter.client(Namespace::default(), queue(number));
    let started = client.start(DOUBLE, id(&number.to_string()), &number).await;
    let ended = started.expect("started").handle.result(SOON).await;
    assert_eq!(ended.expect("an answer"), Some(Ok(number * 2)));
}

/// Workers of one process, each of a queue of its own.
fn workers_of(engine: &Engine, numbers: Range<u64>) -> Vec<Worker> {
    let worker = |number| {
        let worker = engine.worker(Namespace::default(), queue(number));
        let double = worker.workflow(DOUBLE, async |_, number| Ok(number * 2));
        double.start()
    };
    numbers.map(worker).collect()
}

/// So many workers wait for what is handed over.
async fn waiting_become(server: &RedisServer, count: usize) {
    let what = format!("{count} wait");
    eventually(SOON, &what, || async {
        let told = server.info("blocked_clients").await;
        told.is_ok_and(|told| told == count.to_string())
    })
    .await;
}

#[tokio::test]
async fn forty_workers_of_a_process_are_all_handed_their_tasks() {
    let server = need!(RedisServer::start().await);
    let stage = Stage::new();
    let environment = through_redis(&stage, &server);
    let (starter, engine) = (engine(&environment).await, engine(&environment).await);

    let workers = workers_of(&engine, 0..40);

    waiting_become(&server, workers.len()).await;
    for number in 0..40 {
        ends_in(&starter, number).await;
    }
    let what = "what each was handed is counted";
    eventually(SOON, what, || async {
        let snapshot = starter.operator_snapshot().await.expect("read");
        snapshot.fleet.looks_by_hand_with_work >= 40
    })
    .await;
    assert_eq!(dispatch(&engine).await.status, Status::Ok);
}

#[tokio::test]
async fn workers_for_whom_there_is_no_place_look_until_there_is_one() {
    let server = need!(RedisServer::start().await);
    let stage = Stage::new();
    let environment = through_redis(&stage, &server);
    let (starter, engine) = (engine(&environment).await, engine(&environment).await);
    let first = workers_of(&engine, 0..PLACES);
    waiting_become(&server, first.len()).await;

    let others = workers_of(&engine, PLACES..PLACES + 10);

    for number in PLACES..PLACES + 10 {
        ends_in(&starter, number).await;
    }
    let streams = server.command(&["KEYS", "*engine.tasks*"]).await;
    assert_eq!(streams.expect("it answers").items().len(), first.len());
    assert_eq!(dispatch(&engine).await.status, Status::Ok);
    drop(first);
    waiting_become(&server, others.len()).await;
}

/// Changes what lies in the streams, in all ways that there are.
async fn meddle(server: &RedisServer, round: u32) {
    let keys = server.command(&["KEYS", "*engine.tasks*"]).await;
    for key in keys.expect("it answers").items() {
        let key = key.text();
        // Some of them fail, where the stream has just gone.
        _ = match round % 5 {
            0 => server.command(&["XTRIM", &key, "MAXLEN", "0"]).await,
            1 => server.command(&["XADD", &key, "*", "i", "nobody:0"]).await,
            2 => {
                server
                    .command(&["XADD", &key, "*", "\u{0}", "\n", "x", ""])
                    .await
            }
            3 => {
                server
                    .command(&["XGROUP", "DESTROY", &key, "workers"])
                    .await
            }
            _ => server.command(&["DEL", &key]).await,
        };
        _ = server.command(&["XADD", &key, "*", "i", ""]).await;
    }
}

/// The environment of a node whose tasks are handed over through `server`.
fn through_redis(stage: &Stage, server: &RedisServer) -> Vec<(String, String)> {
    stage.environment(&[
        ("CACHE_DRIVER", "redis"),
        ("COORD_REDIS_URL", &server.url()),
        ("COORD_ENGINE_HEARTBEAT", "200ms"),
    ])
}

async fn all_right(stage: &Stage, client: &Client, from: u64) {
    end_right(client, from).await;
    let effects = stage.effects();
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
}

#[tokio::test]
async fn streams_that_somebody_meddles_with_cost_time_and_nothing_else() {
    let server = need!(RedisServer::start().await);
    let stage = Stage::new();
    let environment = through_redis(&stage, &server);
    let engine = engine(&environment).await;
    let client = client(&engine);
    let _one = stage.node_in(STEP, &environment).await;
    let _two = stage.node_in(STEP, &environment).await;
    let meddling = async {
        for round in 0.. {
            meddle(&server, round).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let working = async {
        for from in [0, 20, 40, 60] {
            start(&client, from).await;
            all_right(&stage, &client, from).await;
        }
    };

    tokio::select! {
        () = working => {}
        () = meddling => unreachable!("it goes on and on"),
    }
}

#[tokio::test]
async fn a_redis_that_is_gone_has_nodes_look_and_is_told_of() {
    let server = need!(RedisServer::start().await);
    let stage = Stage::new();
    let environment = through_redis(&stage, &server);
    let engine = engine(&environment).await;
    let client = client(&engine);
    let _one = stage.node_in(STEP, &environment).await;
    start(&client, 0).await;
    all_right(&stage, &client, 0).await;
    recorder()
        .event("engine.dispatch.restored", &[], SOON)
        .await;
    recorder().event("engine.dispatch.handed", &[], SOON).await;
    assert_eq!(dispatch(&engine).await.status, Status::Ok);

    server.kill().await;
    start(&client, 20).await;

    all_right(&stage, &client, 20).await;
    recorder().event("engine.dispatch.lost", &[], SOON).await;
    let lost = dispatch(&engine).await;
    assert_eq!(lost.status, Status::Warning, "{lost:?}");
    assert!(!lost.remedy.is_empty() && lost.message.contains("poll"));
    assert!(engine.health().await.is_ready());
    let snapshot = engine.operator_snapshot().await.expect("read");
    assert_eq!(snapshot.task_dispatch_mode, "queue_degraded");
    server.restart().await;
    start(&client, 40).await;
    all_right(&stage, &client, 40).await;
    // It is tried with each task that there is, and so it is found that it works again.
    let mut record = 60;
    while dispatch(&engine).await.status != Status::Ok {
        let one = client.start(AUDIT, id(&record.to_string()), &record).await;
        let ended = one.expect("started").handle.result(SOON).await;
        assert_eq!(ended.expect("an answer"), Some(Ok(record * 4)));
        record += 1;
        assert!(record < 10_000, "it is never found");
    }
    let what = "what is handed over again is told";
    eventually(SOON, what, || async {
        recorder().count("engine.dispatch.restored", &[]) >= 2
    })
    .await;
}
