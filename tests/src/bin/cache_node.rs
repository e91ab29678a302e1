//! A process that has a cache, for tests that kill or stop one.
//!
//! `cache_node URL PREFIX` reads one command a line and answers each with one line:
//!
//! | command | answer |
//! |---|---|
//! | `fetch NAME VALUE LOAD_MS` | `loading NAME` once its own loader runs, then `got VALUE`, or `failed KIND` |
//! | `get NAME` | `got VALUE`, `nothing`, or `failed KIND` |
//! | `delete NAME` | `deleted`, or `failed KIND` |
//!
//! `NAME` may be `0..N`: then all these names are fetched at once, and the answer is `got N`.

use std::convert::Infallible;
use std::io::{BufRead as _, Write as _};
use std::num::NonZeroUsize;
use std::time::Duration;

use coord_cache::{Cache, CacheOptions, Life};
use coord_core::{Error, Name, Result};
use coord_redis::{Config, Redis};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(prefix)) = (args.next(), args.next()) else {
        return Err(Error::invalid("usage: cache_node URL PREFIX"));
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("the system has room for a runtime");
    let redis = runtime.block_on(Redis::connect(Config::from_url(&url)?.prefix(&prefix)?))?;
    let entries = NonZeroUsize::new(1000).expect("more than none");
    let near = CacheOptions::default().near(entries, Life::new(Duration::from_mins(1))?);
    let _runtime = runtime.enter();
    let cache = Cache::new(&redis, &Name::new("users")?, near);
    answer("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("commands are UTF-8");
        answer(&runtime.block_on(obey(&cache, &line)));
    }
    Ok(())
}

async fn obey(cache: &Cache<String>, line: &str) -> String {
    let words: Vec<_> = line.split(' ').collect();
    let done = match words.as_slice() {
        ["fetch", names, value, load_ms] => fetch(cache, names, value, load_ms).await,
        ["get", name] => get(cache, name).await,
        ["delete", name] => delete(cache, name).await,
        _ => Ok(format!("not understood: {line}")),
    };
    done.unwrap_or_else(|error| format!("failed {}", error.kind()))
}

async fn fetch(cache: &Cache<String>, names: &str, value: &str, load_ms: &str) -> Result<String> {
    let load = Duration::from_millis(load_ms.parse().map_err(|_| Error::invalid("no number"))?);
    let one = |name: String, value: String| {
        let cache = cache.clone();
        async move {
            let told = name.clone();
            let loader = move || async move {
                answer(&format!("loading {told}"));
                tokio::time::sleep(load).await;
                Ok::<_, Infallible>(value)
            };
            let got = cache.get_or_fetch(&Name::new(name)?, loader).await?;
            Ok::<_, Error>(got.expect("every loader has a value").as_str().to_owned())
        }
    };
    let Some(count) = names.strip_prefix("0..") else {
        let got = one(names.to_owned(), value.to_owned()).await?;
        return Ok(format!("got {got}"));
    };
    let count: usize = count.parse().map_err(|_| Error::invalid("no number"))?;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..count {
        all.spawn(one(n.to_string(), value.to_owned()));
    }
    for got in all.join_all().await {
        got?;
    }
    Ok(format!("got {count}"))
}

async fn get(cache: &Cache<String>, name: &str) -> Result<String> {
    let got = cache.get(&Name::new(name)?).await?;
    Ok(got.map_or_else(|| "nothing".to_owned(), |got| format!("got {got}")))
}

async fn delete(cache: &Cache<String>, name: &str) -> Result<String> {
    cache.delete(&Name::new(name)?).await?;
    Ok("deleted".to_owned())
}

fn answer(line: &str) {
    let mut out = std::io::stdout();
    // Nobody reads any more when the test has ended.
    _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
