//! The cron tick on several nodes, under real faults.

mod catch_up;
mod death;
mod failover;
mod finish;
mod once;
mod scan;
mod start;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::{Key, Name, Ttl};
use coord_fanout::{Enqueued, Job, Message, Schedule, Ticker};
use coord_redis::{Command, Redis};
use coord_tests::need::unique;
use coord_tests::sink::Sink;
use coord_tests::stage;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Far above what anything here takes, so that only what never happens runs into it.
const SOON: Duration = Duration::from_secs(20);

/// The interval of most jobs here: some ticks pass in the time of a test, and a busy machine still
/// keeps up.
const PERIOD: Duration = Duration::from_millis(200);

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn orgs(count: usize) -> Vec<Name> {
    (0..count).map(|org| name(&format!("org-{org}"))).collect()
}

fn ttl(millis: u64) -> Ttl {
    Ttl::from_millis(millis).expect("in range")
}

fn every(interval: Duration) -> Schedule {
    Schedule::every(interval).expect("in range")
}

/// An interval whose next instant is hours away: for jobs that run at once and then rest.
fn rarely() -> Schedule {
    every(Duration::from_hours(100 * 24))
}

async fn connect_within(url: &str, prefix: &str, deadline: Duration) -> Redis {
    let config = stage::config(url, prefix)
        .ping_interval(Duration::from_millis(200))
        .deadline(deadline);
    stage::connect(config).await
}

async fn connect(url: &str, prefix: &str) -> Redis {
    connect_within(url, prefix, Duration::from_secs(5)).await
}

/// The lock of a job and tenant.
fn lock(redis: &Redis, job: &str, org: &str) -> Key {
    redis.keys().key("cron-fanout", &[&name(job), &name(org)])
}

async fn get(redis: &Redis, key: &Key) -> Option<String> {
    let get = Command::new("GET").key(key).idempotent();
    let reply = redis.run(&get).await.expect("the server is there");
    reply.optional().map(|reply| reply.text().expect("text"))
}

async fn set(redis: &Redis, key: &Key, value: &str) {
    let set = Command::new("SET")
        .key(key)
        .arg(value)
        .arg("PX")
        .arg(60_000);
    redis.run(&set).await.expect("the server is there");
}

async fn ms_left(redis: &Redis, key: &Key) -> i64 {
    let left = Command::new("PTTL").key(key).idempotent();
    let reply = redis.run(&left).await.expect("the server is there");
    reply.int().expect("a number")
}

async fn server_ms(redis: &Redis) -> i64 {
    let reply = redis.run(&Command::new("TIME").idempotent()).await;
    let [seconds, micros] = reply.expect("the server is there").array().expect("two");
    seconds.int().expect("a number") * 1000 + micros.int().expect("a number") / 1000
}

/// All that any node enqueued, in order and with its repetitions.
#[derive(Clone, Default)]
struct Book {
    messages: Arc<Mutex<Vec<Message>>>,
    written: watch::Sender<()>,
}

impl Book {
    /// A queue that writes into this book.
    fn sink(&self) -> Sink {
        let book = self.clone();
        Sink::new(move |messages: &[Message]| {
            book.write(messages);
            Ok(vec![Enqueued::Added; messages.len()])
        })
    }

    fn write(&self, messages: &[Message]) {
        self.lock().extend_from_slice(messages);
        self.written.send_replace(());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ids(&self) -> Vec<String> {
        let messages = self.lock();
        messages
            .iter()
            .map(|message| message.id.to_string())
            .collect()
    }

    /// The instants of `message` jobs by job and tenant, in the order in which they were enqueued.
    fn instants(&self) -> BTreeMap<String, Vec<i64>> {
        let mut instants = BTreeMap::<_, Vec<_>>::new();
        for id in self.ids() {
            let (who, instant) = id.rsplit_once("::").expect("the id of a tick");
            let instant = instant.parse().expect("milliseconds");
            instants.entry(who.to_owned()).or_default().push(instant);
        }
        instants
    }

    /// Waits until `enough` of it is written.
    async fn until(&self, what: &str, enough: impl Fn(&Self) -> bool) {
        let mut written = self.written.subscribe();
        let filled = async {
            while !enough(self) {
                written.changed().await.expect("the book holds the sender");
            }
        };
        let filled = tokio::time::timeout(SOON, filled).await;
        assert!(
            filled.is_ok(),
            "not within {SOON:?}: {what}; there is {:?}",
            self.ids()
        );
    }
}

/// A job whose ticks are messages, in a book.
fn message_job(job: &str, interval: Duration) -> Job {
    Job::message(name(job), every(interval), |_, _| Vec::new())
}

/// Tickers in this process, each on a client of its own.
struct Nodes {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Nodes {
    fn new() -> Self {
        coord_tests::recorder::recorder();
        Self {
            tasks: JoinSet::new(),
            stop: watch::Sender::new(false),
        }
    }

    fn start(&mut self, redis: &Redis, book: &Book, jobs: Vec<Job>, orgs: Vec<Name>) {
        let listed = move || std::future::ready(Ok(orgs.clone()));
        let ticker = Ticker::new(redis, book.sink(), jobs, listed).expect("the jobs differ");
        let mut stop = self.stop.subscribe();
        self.tasks.spawn(ticker.run(async move {
            // Without a sender there is nobody left to run for.
            _ = stop.wait_for(|stop| *stop).await;
        }));
    }

    /// Shuts all of them down.
    async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.expect("a ticker does not panic");
            }
        };
        let ended = tokio::time::timeout(SOON, ended).await;
        ended.expect("a shutdown is bounded");
    }
}

/// Whether `instants` are in order, without a gap and without a repetition.
fn assert_each_once(instants: &[i64], period: Duration) {
    let period = i64::try_from(period.as_millis()).expect("small");
    for pair in instants.windows(2) {
        assert_eq!(pair[1] - pair[0], period, "{instants:?}");
    }
}

fn prefix() -> String {
    unique("tick")
}
