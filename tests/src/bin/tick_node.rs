//! A node that ticks, for tests that kill it.
//!
//! `tick-node URL PREFIX LEASE_MS PERIOD_MS TENANTS GATE`, where a period of 0 is a job that runs
//! at once and then rests, and the gate is where a scan waits until standard input says `go`:
//! `before` its records, `after` them, or `none`. It says, one a line:
//!
//! | line | when |
//! |---|---|
//! | `scan ORG INSTANTS FENCE` | a scan begins |
//! | `put ID` | a message is enqueued |
//! | `finished`, `lost`, `released` and the tenant | the tick ended so |
//! | `stopped` | it was told to `stop`, and did |

use std::num::NonZeroU8;
use std::str::FromStr;
use std::time::Duration;

use coord_core::{Name, Ttl};
use coord_fanout::{CatchUp, Enqueued, FirstRun, Job, Message, Records, Schedule, Tick, Ticker};
use coord_redis::{Config, Redis};
use coord_tests::recorder::recorder;
use coord_tests::sink::Sink;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// No test takes longer.
const LONG: Duration = Duration::from_mins(10);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Before,
    After,
    None,
}

/// What standard input said.
#[derive(Clone, Copy, Default)]
struct Said {
    go: bool,
    stop: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> coord_core::Result<()> {
    recorder();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, prefix, lease_ms, period_ms, tenants, gate] = args.as_slice() else {
        panic!("six arguments, not {args:?}")
    };
    let redis = Redis::connect(Config::from_url(url)?.prefix(prefix)?).await?;
    let gate = match gate.as_str() {
        "before" => Gate::Before,
        "after" => Gate::After,
        _ => Gate::None,
    };
    let (said, hears) = watch::channel(Said::default());
    let job = job(number(period_ms), gate, &hears)?.lease(Ttl::from_millis(number(lease_ms))?);
    let orgs = (0..number(tenants)).map(|org| Name::new(format!("org-{org}")));
    let orgs = orgs.collect::<coord_core::Result<Vec<_>>>()?;
    let queue = Sink::new(|messages: &[Message]| {
        for message in messages {
            println!("put {}", message.id);
        }
        Ok(vec![Enqueued::Added; messages.len()])
    });

    let mut beside = JoinSet::new();
    beside.spawn(listen(said));
    for end in ["finished", "lost", "released"] {
        beside.spawn(tell(end));
    }
    let listed = move || std::future::ready(Ok(orgs.clone()));
    let ticker = Ticker::new(&redis, queue, vec![job], listed)?;
    ticker.run(heard(hears, |said| said.stop)).await;
    redis.shutdown(Duration::from_secs(5)).await?;
    println!("stopped");
    Ok(())
}

fn number<N: FromStr>(text: &str) -> N {
    let number = text.parse().ok();
    number.unwrap_or_else(|| panic!("{text} is no number"))
}

fn job(period_ms: u64, gate: Gate, hears: &watch::Receiver<Said>) -> coord_core::Result<Job> {
    let once = Duration::from_hours(100 * 24);
    let period = Duration::from_millis(period_ms);
    let interval = if period.is_zero() { once } else { period };
    let hears = hears.clone();
    let scan = move |tick, records| scan(tick, records, gate, hears.clone());
    let job = Job::scan(Name::new("death")?, Schedule::every(interval)?, scan);
    Ok(if period.is_zero() {
        job.first_run(FirstRun::AtOnce)
    } else {
        job.catch_up(CatchUp::All(NonZeroU8::MAX))
    })
}

async fn scan(
    tick: Tick,
    records: Records,
    gate: Gate,
    hears: watch::Receiver<Said>,
) -> coord_core::Result<()> {
    let instants = tick.instants.iter().map(|at| at.as_millis().to_string());
    let instants: Vec<_> = instants.collect();
    println!("scan {} {} {}", tick.org, instants.join(","), tick.fence);
    if gate == Gate::Before {
        heard(hears.clone(), |said| said.go).await;
    }
    for instant in &instants {
        records.send(Message::new(Name::new(instant)?, "")).await?;
    }
    if gate == Gate::After {
        heard(hears, |said| said.go).await;
    }
    Ok(())
}

async fn listen(said: watch::Sender<Said>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        said.send_modify(|said| match line.as_str() {
            "go" => said.go = true,
            "stop" => said.stop = true,
            other => panic!("nobody knows {other:?}"),
        });
    }
    // The test that has the other end is gone, or wants nothing more.
    std::future::pending::<()>().await;
}

async fn heard(mut hears: watch::Receiver<Said>, what: impl Fn(&Said) -> bool) {
    hears
        .wait_for(|said| what(said))
        .await
        .expect("the listener never ends");
}

/// Says each signal `fanout.tick.<end>`.
async fn tell(end: &'static str) {
    let key = format!("fanout.tick.{end}");
    for told in 0.. {
        let seen = recorder().events(&key, &[], told + 1, LONG).await;
        println!("{end} {}", seen[told].field("org").unwrap_or("?"));
    }
}
