//! The renewal of many leases.

use std::sync::Arc;
use std::time::Duration;

use coord_core::{ClaimToken, Name, Ttl};
use coord_lease::{Claim, Lease, Leases, Owner};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Result;
use crate::machine;
use crate::scripts;
use crate::server::Server;
use crate::statistics::Spread;
use crate::table::{Cost, Row, Table, Target};

const LEASES: usize = 10_000;
const TTL: Duration = Duration::from_secs(30);

/// Each lease is renewed once in this time, at a third of its TTL.
const WINDOW: Duration = Duration::from_secs(10);

/// Claims and calls under way at once.
const CALLS: usize = 64;

/// The thread that renews.
const UPKEEP: &str = "coord-upkeep";

/// What the renewal of all leases came to.
struct Renewals {
    calls: f64,
    server_us: f64,
    executing_us: f64,
    client_us: f64,
}

pub(crate) async fn run(server: &Server) -> Result<Table> {
    let ours = ours(server).await?;
    let each = each(server).await?;
    let row = |unit, peer: &str, pick: fn(&Renewals) -> f64| Row {
        work: format!(
            "{LEASES} leases, TTL {} s, for {} s",
            TTL.as_secs(),
            WINDOW.as_secs()
        ),
        peer: peer.to_owned(),
        unit,
        ours: Spread::of([pick(&ours)]),
        theirs: Spread::of([pick(&each)]),
        ratio: pick(&ours) / pick(&each),
        target: None,
        met: None,
        our_cost: ours.cost(),
        their_cost: each.cost(),
    };
    let peer = "a call a lease";
    Ok(Table {
        title: format!("renewal: {LEASES} leases of a client, renewed at a third of their TTL"),
        server: String::new(),
        load: Vec::new(),
        notes: vec![
            "a call a lease: redis-rs with the same script, 64 calls under way; costs are a renewal"
                .to_owned(),
            "client us: of the thread that renews, and of the whole process for the peer".to_owned(),
        ],
        rows: vec![
            row("calls", peer, |all| all.calls).aim(Target::RatioAtMost(1.0 / 20.0)),
            row("server us a renewal", peer, |all| all.server_us / LEASES as f64),
            row("client us a renewal", peer, |all| all.client_us / LEASES as f64),
        ],
    })
}

impl Renewals {
    fn cost(&self) -> Cost {
        let each = |total: f64| Some(total / LEASES as f64);
        Cost {
            round_trips: each(self.calls),
            server_us: each(self.server_us),
            executing_us: each(self.executing_us),
            client_us: each(self.client_us),
        }
    }
}

async fn ours(server: &Server) -> Result<Renewals> {
    let redis = server.coord(true).await?;
    let leases = Leases::new(&redis);
    let start = Instant::now();
    let held = claim(&leases).await?;
    // The renewals come at a third of the TTL: a window of that length around it has each once.
    let before = start + TTL / 3 - WINDOW / 2;
    if Instant::now() >= before {
        return Err("claiming the leases took longer than until their renewal".into());
    }
    tokio::time::sleep_until(before).await;
    let (usage, cpu) = (server.usage().await?, machine::cpu(Some(UPKEEP)));
    tokio::time::sleep_until(before + WINDOW).await;
    let used = server.usage().await?.since(&usage);
    let cpu = machine::cpu(Some(UPKEEP)).saturating_sub(cpu);
    for lease in &held {
        lease.check()?;
    }
    let renewals = Renewals {
        calls: used.calls(&["evalsha", "eval"]) as f64,
        server_us: used.cpu_us(),
        executing_us: used.executing_us(&["evalsha", "eval"]),
        client_us: cpu.as_secs_f64() * 1e6,
    };
    drop(held);
    redis.shutdown(Duration::from_secs(10)).await?;
    Ok(renewals)
}

async fn claim(leases: &Leases) -> Result<Vec<Lease>> {
    let owner = Owner::new(Name::new("bench")?);
    let ttl = Ttl::new(TTL)?;
    let mut claiming = JoinSet::new();
    for part in 0..CALLS {
        let (leases, owner) = (leases.clone(), owner.clone());
        claiming.spawn(async move {
            let mut held = Vec::new();
            for index in (part..LEASES).step_by(CALLS) {
                let name = Name::new(format!("lease-{index}"))?;
                match leases.claim(&name, &owner, ttl).await? {
                    Claim::Claimed(lease) => held.push(lease),
                    Claim::Held(_) => return Err(format!("{name} is held").into()),
                }
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(held)
        });
    }
    let mut held = Vec::with_capacity(LEASES);
    while let Some(claimed) = claiming.join_next().await {
        held.extend(claimed??);
    }
    Ok(held)
}

/// The bare client, which renews each by a call of its own.
async fn each(server: &Server) -> Result<Renewals> {
    let mut connection = server.plain(true).await?;
    let digest: Arc<str> = scripts::load(&mut connection, scripts::RENEW).await?.into();
    let token = ClaimToken::random();
    let value: Arc<str> = format!("{}:1", token.as_str()).into();
    let mut filling = redis::pipe();
    for index in 0..LEASES {
        let key = format!("bench-each:{index}");
        filling
            .cmd("SET")
            .arg(&key)
            .arg(&*value)
            .arg("PX")
            .arg(60_000)
            .ignore();
        filling
            .cmd("SET")
            .arg(format!("{key}:record"))
            .arg("1:1:{}")
            .arg("PX")
            .arg(60_000)
            .ignore();
    }
    filling.exec_async(&mut connection).await?;

    let (usage, cpu) = (server.usage().await?, machine::cpu(None));
    let mut renewing = JoinSet::new();
    for part in 0..CALLS {
        let (connection, digest, value) = (connection.clone(), digest.clone(), value.clone());
        renewing.spawn(renew_part(connection, digest, value, part));
    }
    while let Some(renewed) = renewing.join_next().await {
        renewed??;
    }
    let used = server.usage().await?.since(&usage);
    let cpu = machine::cpu(None).saturating_sub(cpu);
    Ok(Renewals {
        calls: used.calls(&["evalsha", "eval"]) as f64,
        server_us: used.cpu_us(),
        executing_us: used.executing_us(&["evalsha", "eval"]),
        client_us: cpu.as_secs_f64() * 1e6,
    })
}

async fn renew_part(
    mut connection: MultiplexedConnection,
    digest: Arc<str>,
    value: Arc<str>,
    part: usize,
) -> Result<()> {
    for index in (part..LEASES).step_by(CALLS) {
        let key = format!("bench-each:{index}");
        let mut renew = redis::cmd("EVALSHA");
        renew
            .arg(&*digest)
            .arg(2)
            .arg(&key)
            .arg(format!("{key}:record"));
        renew.arg(&*value).arg(TTL.as_millis() as u64);
        let [reply]: [i64; 1] = renew.query_async(&mut connection).await?;
        if reply != 1 {
            return Err(format!("a renewal answered {reply}").into());
        }
    }
    Ok(())
}
