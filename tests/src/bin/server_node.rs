//! A node as a service has it, for tests that load and end it: HTTP, Socket.IO, a worker, a consumer
//! of a queue, a tick and a lease, in one ordered shutdown.
//!
//! `server-node EFFECTS STEP_MS`: all else is in the environment, as `coord serve` reads it; without
//! tokens it asks nobody for one. The workflow `records.double` takes a number and doubles it in an
//! activity that takes `STEP_MS`; `records.wait` waits for the signal `go`. Messages of the queue
//! `records` take `STEP_MS`, too, and then add a line with their id to `EFFECTS`. The job `sweep` of
//! `acme` is due at once; its scan says `scanning`, ends when there is a file `EFFECTS.go`, and then
//! says `scanned`. It holds the lease `shift` if nobody else does. It says `serving ADDRESS`, and `down`
//! and `up` when news of other nodes stop and go on. SIGTERM ends it, and then it says what ended:
//! `consumer`, `ticker`, `worker`, `lease`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Env, Error, Name, Result, Ttl};
use coord_engine::flow::{Activity, Context, Signal, Workflow};
use coord_engine::model::{Failure, Namespace, Queue};
use coord_engine::worker::Worker;
use coord_engine::{Engine, EngineConfig};
use coord_fanout::{
    Consumer, Delivery, FirstRun, Job, QueueOptions, Records, Schedule, StreamQueue, Tick, Ticker,
};
use coord_lease::{Leases, Owner};
use coord_redis::Redis;
use coord_server::{Config, Ending, Node};
use coord_tests::recorder::recorder;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

const DOUBLE: Workflow<u64, u64> = Workflow::new("records.double");
const WAIT: Workflow<(), ()> = Workflow::new("records.wait");
const WORK: Activity<u64, u64> = Activity::new("records.work");
const GO: Signal<()> = Signal::new("go");
/// How often a scan looks whether it may end.
const LOOK: Duration = Duration::from_millis(20);
/// Far longer than any test: a lease that is left behind is found.
const TTL_MS: u64 = 600_000;

async fn double(ctx: Context, number: u64) -> Result<u64, Failure> {
    ctx.activity(WORK, &number).await
}

async fn wait(ctx: Context, (): ()) -> Result<(), Failure> {
    ctx.signal(GO).recv().await
}

#[tokio::main]
async fn main() -> Result<()> {
    recorder();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [effects, step_ms] = args.as_slice() else {
        panic!("two arguments, not {args:?}");
    };
    let step = Duration::from_millis(step_ms.parse().expect("a number of milliseconds"));
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be heard");

    let env = Env::process();
    let mut config = Config::from_env(&env)?;
    config.is_open = config.tokens_file.is_none();
    let engine = EngineConfig::from_env(&env)?.start().await?;
    let redis = Redis::from_env(&env).await?;
    let worker = worker(&engine, step);
    let [of_consumer, of_ticker, of_lease] = [(); 3].map(|()| redis.clone());
    let go = format!("{effects}.go");
    let effects = effects.clone();
    let node = Node::builder(engine, config.access()?)
        .redis(redis)
        .realtime()
        .beside(move |ending| consume(of_consumer, effects, step, ending))
        .beside(move |ending| tick(of_ticker, go, ending))
        .beside(async move |ending: Ending| {
            worker.shutdown(ending.told().await).await;
            println!("worker");
            Ok(())
        })
        .beside(move |ending| hold(of_lease, ending))
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("loopback has a free port");
    println!("serving {}", listener.local_addr().expect("it listens"));

    let end = async move { _ = terminate.recv().await };
    tokio::select! {
        served = coord_server::serve(&node, listener, end, config.drain) => served,
        () = tell("redis.adapter.disconnected", "down") => Ok(()),
        () = tell("redis.adapter.reconnected", "up") => Ok(()),
    }
}

fn worker(engine: &Engine, step: Duration) -> Worker {
    let work = move |_, number: u64| async move {
        tokio::time::sleep(step).await;
        Ok::<_, Failure>(number * 2)
    };
    let worker = engine.worker(Namespace::default(), Queue::default());
    let worker = worker.workflow(DOUBLE, double).workflow(WAIT, wait);
    worker.activity(WORK, work).start()
}

/// Says `word` whenever `key` is emitted.
async fn tell(key: &str, word: &str) {
    for count in 1.. {
        recorder().events(key, &[], count, Duration::MAX).await;
        println!("{word}");
    }
}

fn queue(redis: &Redis) -> Result<StreamQueue> {
    let (name, options) = (Name::new("records")?, QueueOptions::default());
    Ok(StreamQueue::new(redis, name, options))
}

async fn tick(redis: Redis, go: String, ending: Ending) -> Result<()> {
    let scan = move |_: Tick, _: Records| {
        let go = go.clone();
        async move {
            println!("scanning");
            while !std::fs::exists(&go).unwrap_or_default() {
                tokio::time::sleep(LOOK).await;
            }
            println!("scanned");
            Ok(())
        }
    };
    let hourly = Schedule::every(Duration::from_hours(1))?;
    let sweep = Job::scan(Name::new("sweep")?, hourly, scan).first_run(FirstRun::AtOnce);
    let orgs = || async { Ok(vec![Name::new("acme")?]) };
    let ticker = Ticker::new(&redis, queue(&redis)?, vec![sweep], orgs)?;
    ticker.run(async { _ = ending.told().await }).await;
    println!("ticker");
    Ok(())
}

async fn consume(redis: Redis, effects: String, step: Duration, ending: Ending) -> Result<()> {
    let queue = queue(&redis)?;
    let handler = move |delivery: Arc<Delivery>| {
        let effects = effects.clone();
        async move {
            tokio::time::sleep(step).await;
            let mut file = OpenOptions::new().append(true).create(true).open(effects)?;
            file.write_all(format!("{}\n", delivery.message.id).as_bytes())?;
            Ok(())
        }
    };
    let told = async { _ = ending.told().await };
    Consumer::new(queue).run(handler, told).await?;
    println!("consumer");
    Ok(())
}

async fn hold(redis: Redis, ending: Ending) -> Result<()> {
    let owner = Owner::new(Name::new(format!("node-{}", std::process::id()))?);
    let (shift, ttl) = (Name::new("shift")?, Ttl::from_millis(TTL_MS)?);
    let claim = Leases::new(&redis).claim(&shift, &owner, ttl).await?;
    let Some(lease) = claim.claimed() else {
        return Ok(());
    };
    tokio::select! {
        _ = ending.told() => {
            // In the background, which the shutdown of Redis waits for.
            drop(lease);
            println!("lease");
            Ok(())
        }
        () = lease.lost() => Err(Error::lost("the shift")),
    }
}
