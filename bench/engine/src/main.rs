//! The workflow engine side by side with its peers.

mod chaos;
mod compare;
mod deaths;
mod dialects;
mod drain;
mod fan_out;
mod growth;
mod idle;
mod mysql;
mod nodes;
mod ours;
mod peers;
mod pickup;
mod resume;
mod server;
mod starts;

use std::process::ExitCode;

use coord_bench_measure::results::{Results, block_on, finished};
use coord_bench_measure::{Result, machine};
use coord_core::{Env, Variable};

use mysql::MySql;
use server::Server;

const URL: Variable = Variable::new(
    "COORD_BENCH_PG_URL",
    "postgres://postgres@127.0.0.1:5432",
    "The PostgreSQL server to measure on, without a database: nothing else may use it meanwhile.",
);

const MYSQL_URL: Variable = Variable::new(
    "COORD_BENCH_MYSQL_URL",
    "mysql://root@127.0.0.1:3306",
    "The MySQL or MariaDB server to measure on, without a database: nothing else may use it meanwhile.",
);

const REDIS_URL: Variable = Variable::new(
    "COORD_BENCH_REDIS_URL",
    "redis://127.0.0.1:6379",
    "The Redis that carries hints in one of the benchmarks.",
);

const MEMCACHED: Variable = Variable::new(
    "COORD_BENCH_MEMCACHED",
    "127.0.0.1:11211",
    "The memcached that carries hints in the same one.",
);

const NATS_URL: Variable = Variable::new(
    "COORD_BENCH_NATS_URL",
    "nats://127.0.0.1:4222",
    "And the NATS.",
);

/// Both cores of a small machine, which the server needs as well.
const WORKERS: usize = 2;

const NAMES: [&str; 13] = [
    "steps",
    "noop",
    "drain",
    "start",
    "fan-out",
    "pickup",
    "idle",
    "resume",
    "growth",
    "slow-disk",
    "dialects",
    "deaths",
    "chaos",
];

fn main() -> ExitCode {
    let names: Vec<_> = std::env::args().skip(1).collect();
    match names.as_slice() {
        [name, arguments @ ..] if name == pickup::NODE => {
            return finished(block_on(WORKERS, pickup::serve(arguments)));
        }
        [name, arguments @ ..] if name == nodes::NODE => {
            return finished(block_on(WORKERS, nodes::serve(arguments)));
        }
        _ => {}
    }
    if let Some(name) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        eprintln!("bench: {name} is none of {}", NAMES.join(", "));
        return ExitCode::from(2);
    }
    finished(block_on(WORKERS, run(&names)))
}

async fn run(names: &[String]) -> Result<()> {
    let env = Env::process();
    let server = Server::new(env.text(&URL)?.unwrap_or(URL.default));
    let mysql = MySql::new(env.text(&MYSQL_URL)?.unwrap_or(MYSQL_URL.default));
    let redis = env.text(&REDIS_URL)?.unwrap_or(REDIS_URL.default);
    let brokers = pickup::Brokers {
        redis: redis.to_owned(),
        memcached: env
            .text(&MEMCACHED)?
            .unwrap_or(MEMCACHED.default)
            .to_owned(),
        nats: env.text(&NATS_URL)?.unwrap_or(NATS_URL.default).to_owned(),
    };
    let identity = server.identity().await?;
    let mut results = Results::open();
    for name in NAMES {
        if !names.is_empty() && !names.iter().any(|one| one == name) {
            continue;
        }
        let load = machine::load();
        let mut table = match name {
            "steps" => compare::steps(&server).await?,
            "noop" => compare::noop(&server).await?,
            "drain" => drain::drain(&server).await?,
            "start" => starts::start(&server).await?,
            "fan-out" => fan_out::fan_out(&server).await?,
            "pickup" => pickup::pickup(&server, &brokers).await?,
            "idle" => idle::idle(&server).await?,
            "resume" => resume::resume(&server).await?,
            "growth" => growth::growth(&server).await?,
            "slow-disk" => compare::slow_disk(&server).await?,
            "deaths" => deaths::deaths(&server).await?,
            "chaos" => chaos::chaos(&server).await?,
            _ => dialects::dialects(&server, &mysql).await?,
        };
        (table.load, table.server) = (load, identity.clone());
        results.add(&format!("engine-{name}"), &table)?;
    }
    results.close();
    Ok(())
}
