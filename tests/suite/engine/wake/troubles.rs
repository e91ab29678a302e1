//! What becomes of hints when that which carries them is in trouble, under load: only time is lost,
//! and the engine says so.

use std::time::Duration;

use coord_engine::Engine;
use coord_engine::health::{Category, Check, Status};
use coord_engine::wake::Health;
use coord_tests::need;
use coord_tests::proxy::FaultProxy;
use coord_tests::recorder::recorder;
use coord_tests::servers::{MemcachedServer, NatsServer, RedisServer};

use super::{Environment, RECORDS, Stage, becomes, client, end_right, engine, start};
use crate::engine::SOON;

/// How long an activity of the nodes takes.
const STEP: Duration = Duration::from_millis(10);

/// What carries the hints, and how it is broken.
enum Carrier {
    Redis(RedisServer),
    Memcached(MemcachedServer),
    Nats(NatsServer),
}

/// One call of whichever it is.
macro_rules! on {
    ($carrier:expr, $call:ident()$(.$await:ident)?) => {
        match $carrier {
            Carrier::Redis(server) => server.$call()$(.$await)?,
            Carrier::Memcached(server) => server.$call()$(.$await)?,
            Carrier::Nats(server) => server.$call()$(.$await)?,
        }
    };
}

impl Carrier {
    const fn name(&self) -> &'static str {
        match self {
            Self::Redis(_) => "redis",
            Self::Memcached(_) => "memcached",
            Self::Nats(_) => "nats",
        }
    }

    /// What nodes are told that reach it at `port`.
    fn environment(&self, stage: &Stage, port: u16) -> Environment {
        let (name, value) = match self {
            Self::Redis(_) => ("COORD_REDIS_URL", format!("redis://127.0.0.1:{port}")),
            Self::Memcached(_) => ("MEMCACHED_PORT", port.to_string()),
            Self::Nats(_) => ("NATS_URL", format!("nats://127.0.0.1:{port}")),
        };
        stage.environment(&[("CACHE_DRIVER", self.name()), (name, &value)])
    }

    /// Puts what is none of ours wherever hints are, and takes away what is.
    async fn corrupt(&self) {
        match self {
            Self::Redis(server) => {
                let channels = server.command(&["PUBSUB", "CHANNELS", "*"]).await;
                for channel in channels.expect("it answers").items() {
                    let publish = ["PUBLISH", &channel.text(), "\u{0}no hint\nwf:*"];
                    server.command(&publish).await.expect("it answers");
                }
                server.command(&["FLUSHALL"]).await.expect("it answers");
            }
            Self::Memcached(server) => {
                server.command("flush_all").await;
                server.set("coord:{wake}", "no number").await;
                server.set("coord:{wake}:message:1", "no hint").await;
            }
            Self::Nats(server) => {
                let lines = vec![b'\n'; 500_000];
                let foreign: [&[u8]; 4] = [b"\xff\xfe\x00", b"", b"somebody\n*\nwf:x", &lines];
                for payload in foreign {
                    server.publish("coord.engine.wake", payload).await;
                }
            }
        }
    }
}

/// What the engine says of its hints.
pub(super) async fn hints(engine: &Engine) -> Check {
    let report = engine.health().await;
    let check = report.check("long_poll_wake_acceleration");
    check.expect("it is looked at").clone()
}

/// Three nodes at work, and what carries their hints behind a proxy.
struct Fleet {
    stage: Stage,
    carrier: Carrier,
    proxy: FaultProxy,
    engine: Engine,
    _nodes: Vec<coord_tests::process::NodeProcess>,
    /// The next record.
    next: u64,
}

impl Fleet {
    async fn new(carrier: Carrier) -> Self {
        let proxy = FaultProxy::start(on!(&carrier, addr())).await;
        let stage = Stage::new();
        let environment = carrier.environment(&stage, proxy.port());
        let engine = engine(&environment).await;
        let mut nodes = Vec::new();
        for _ in 0..3 {
            nodes.push(stage.node_in(STEP, &environment).await);
        }
        becomes(&engine, Health::Healthy).await;
        let about = [("backend", carrier.name())];
        recorder().event("engine.wake.restored", &about, SOON).await;
        Self {
            stage,
            carrier,
            proxy,
            engine,
            _nodes: nodes,
            next: 0,
        }
    }

    /// Starts some records, and says with which they begin.
    async fn load(&mut self) -> u64 {
        let from = self.next;
        start(&client(&self.engine), from).await;
        self.next += RECORDS;
        from
    }

    async fn done(&self, from: u64) {
        end_right(&client(&self.engine), from).await;
    }

    /// Lets `trouble` come in the middle of work. It is told as what it is, and more work is done.
    async fn through(&mut self, trouble: impl AsyncFnOnce(&Self)) {
        let before = self.load().await;
        trouble(self).await;
        let during = self.load().await;
        becomes(&self.engine, Health::Degraded).await;
        self.says_so().await;
        self.done(before).await;
        self.done(during).await;
    }

    /// Its hints do not pass, that is a warning of acceleration, and nothing else is wrong.
    async fn says_so(&self) {
        let name = self.carrier.name();
        let about = [("backend", name)];
        recorder().event("engine.wake.lost", &about, SOON).await;
        let check = hints(&self.engine).await;
        assert_eq!(
            (check.category, check.status),
            (Category::Acceleration, Status::Warning)
        );
        assert!(
            check.message.contains(&format!("through {name} for ")),
            "{check:?}"
        );
        assert!(!check.remedy.is_empty());
        let report = self.engine.health().await;
        assert!(report.is_ready());
        assert_eq!(report.category(Category::Acceleration), Status::Warning);
    }

    /// Hints pass again.
    async fn recovers(&self) {
        becomes(&self.engine, Health::Healthy).await;
    }

    /// All that was started had its effects, each once.
    fn was_right(&self) {
        let effects = self.stage.effects();
        assert_eq!(effects.len() as u64, self.next * 4);
        assert!(effects.values().all(|times| *times == 1), "{effects:?}");
    }
}

async fn troubles(carrier: Carrier) {
    let mut fleet = Fleet::new(carrier).await;

    // Stopped, and going on.
    fleet
        .through(async |fleet| on!(&fleet.carrier, pause().await))
        .await;
    on!(&fleet.carrier, resume().await);
    fleet.recovers().await;

    // Out of reach: whatever is sent is swallowed.
    fleet.through(async |fleet| fleet.proxy.hole()).await;
    fleet.proxy.heal().await;
    fleet.recovers().await;

    // Dead, and back with nothing of what it had.
    fleet
        .through(async |fleet| on!(&fleet.carrier, kill().await))
        .await;
    on!(&fleet.carrier, restart().await);
    fleet.recovers().await;

    // Restarted within a moment, so that only what was under way is lost.
    let from = fleet.load().await;
    on!(&fleet.carrier, kill().await);
    on!(&fleet.carrier, restart().await);
    fleet.done(from).await;
    fleet.recovers().await;

    // Full of what is none of ours, again and again.
    for _ in 0..5 {
        let from = fleet.load().await;
        fleet.carrier.corrupt().await;
        fleet.done(from).await;
        assert!(hints(&fleet.engine).await.status <= Status::Warning);
    }
    fleet.recovers().await;
    fleet.was_right();
}

#[tokio::test]
async fn a_redis_in_trouble_costs_three_nodes_time_and_nothing_else() {
    troubles(Carrier::Redis(need!(RedisServer::start().await))).await;
}

#[tokio::test]
async fn a_memcached_in_trouble_costs_three_nodes_time_and_nothing_else() {
    troubles(Carrier::Memcached(need!(MemcachedServer::start().await))).await;
}

#[tokio::test]
async fn a_nats_in_trouble_costs_three_nodes_time_and_nothing_else() {
    troubles(Carrier::Nats(need!(NatsServer::start().await))).await;
}

#[tokio::test]
async fn hints_that_stay_away_are_told_of_with_their_age() {
    let server = need!(NatsServer::start().await);
    let stage = Stage::new();
    let carrier = Carrier::Nats(server);
    let port = on!(&carrier, addr()).port();
    let engine = engine(&carrier.environment(&stage, port)).await;
    becomes(&engine, Health::Healthy).await;

    on!(&carrier, kill().await);

    let age = coord_tests::wait::eventually_some(SOON, "it has an age", || async {
        let check = hints(&engine).await;
        (check.age >= Duration::from_secs(2)).then_some(check)
    });
    let check = age.await;
    assert_eq!(check.count, 1);
    assert!(recorder().observed("engine.wake.lost_age"));
}
