//! A quota of ten calls a minute and tenant, and of two hundred a day, over all instances.
//!
//! Each run asks twenty times. Run several at once: ten of all their calls pass. Stop Redis: each
//! instance then gives out its share, and says so.
//! ```sh
//! COORD_REDIS_URL=redis://127.0.0.1:6379 cargo run -p coord-ratelimit --example api_quota
//! ```

use std::num::NonZeroU32;
use std::time::Duration;

use coord_core::{Env, Name, Result};
use coord_ratelimit::{Decision, Limit, Limiter, Quota, Subject, WithoutRedis};
use coord_redis::Redis;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let redis = Redis::from_env(&Env::process()).await?;
    let limits = [
        Limit::fixed_window(Name::new("per-minute")?, Quota::per_minute(10)?),
        Limit::fixed_window(Name::new("per-day")?, Quota::per_day(200)?),
    ];
    let instances = NonZeroU32::new(2).expect("it is not zero");
    let limiter = Limiter::new(&redis, limits, WithoutRedis::Share { instances })?;

    let tenant = Subject::new(&Name::new("acme")?);
    for call in 1..=20 {
        let decision = limiter.try_acquire(&tenant, 1).await?;
        let how = if decision.is_degraded() {
            ", without Redis"
        } else {
            ""
        };
        match decision {
            Decision::Allowed(standing) => {
                println!("allowed call {call}, {} left{how}", standing.remaining);
            }
            Decision::Denied { retry_after, .. } => {
                println!("denied call {call}, again in {retry_after:?}{how}");
            }
            Decision::NeverAllowed { capacity, .. } => println!("at most {capacity} at once{how}"),
        }
    }
    redis.shutdown(Duration::from_secs(5)).await
}
