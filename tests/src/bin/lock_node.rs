//! A process that takes locks, for tests that kill or stop one.
//!
//! `lock_node URL PREFIX` reads one command a line and answers each with one line:
//!
//! | command | answer |
//! |---|---|
//! | `acquire NAME any\|fifo TTL_MS WAIT_MS` | `acquired FENCE`, or `failed KIND` |
//! | `check` | `held`, or the kind of the error |
//! | `release` | `freed`, `gone`, `held by other`, or `failed KIND` |

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use coord_core::{Error, Name, Result, Ttl};
use coord_lock::{Lock, LockOptions, Locks, Order, Released};
use coord_redis::{Config, Redis};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(prefix)) = (args.next(), args.next()) else {
        return Err(Error::invalid("usage: lock_node URL PREFIX"));
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has room for a runtime");
    let redis = runtime.block_on(Redis::connect(Config::from_url(&url)?.prefix(&prefix)?))?;
    let locks = Locks::new(&redis);
    let mut held = None;
    answer("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("commands are UTF-8");
        answer(&runtime.block_on(obey(&locks, &mut held, &line)));
    }
    Ok(())
}

async fn obey(locks: &Locks, held: &mut Option<Lock>, line: &str) -> String {
    let words: Vec<_> = line.split(' ').collect();
    let failed = |error: Error| format!("failed {}", error.kind());
    match (words.as_slice(), held.take()) {
        (["acquire", name, order, ttl_ms, wait_ms], _) => {
            match acquire(locks, name, order, ttl_ms, wait_ms).await {
                Ok(lock) => {
                    let fence = lock.fence();
                    *held = Some(lock);
                    format!("acquired {fence}")
                }
                Err(error) => failed(error),
            }
        }
        (["check"], Some(lock)) => {
            let answer = match lock.check() {
                Ok(()) => "held".to_owned(),
                Err(error) => error.kind().to_string(),
            };
            *held = Some(lock);
            answer
        }
        (["release"], Some(lock)) => match lock.release().await {
            Ok(Released::Freed) => "freed".to_owned(),
            Ok(Released::Gone) => "gone".to_owned(),
            Ok(Released::HeldByOther) => "held by other".to_owned(),
            Err(error) => failed(error),
        },
        _ => format!("not understood: {line}"),
    }
}

async fn acquire(
    locks: &Locks,
    name: &str,
    order: &str,
    ttl_ms: &str,
    wait_ms: &str,
) -> Result<Lock> {
    let number = |text: &str| text.parse().map_err(|_| Error::invalid("no number"));
    let order = match order {
        "fifo" => Order::Fifo,
        _ => Order::Any,
    };
    let options = LockOptions::default()
        .ttl(Ttl::from_millis(number(ttl_ms)?)?)
        .order(order);
    let wait = Duration::from_millis(number(wait_ms)?);
    locks.acquire(&Name::new(name)?, wait, &options).await
}

fn answer(line: &str) {
    let mut out = std::io::stdout();
    // Nobody reads any more when the test has ended.
    _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
