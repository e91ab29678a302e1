//! `coord locks` and `coord leases`: who has what in Redis.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use coord_core::{Calendar, Env, Error, FencingToken, Name, Result};
use coord_lease::{Holder, RemoveResult};
use coord_lock::Released;
use coord_redis::Redis;
use serde_json::{Value, json};

use super::exit::Failure;
use super::input;
use super::show::{Shown, list, table};

/// How long what runs in the background may take to end: nothing was begun that needs it.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct Locks {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    what: LockCommand,
}

#[derive(Subcommand)]
enum LockCommand {
    /// Lists the locks that somebody has.
    List(Begun),
    /// Says who has a lock.
    Inspect(Named),
    /// Ends a grant, whoever has it, as if its owner had released it.
    ///
    /// The owner finds out at its next renewal, and may act until then: only the fencing token
    /// stops it. What was done is said by a signal on standard error, `redis.lock.forced`.
    Release(Forced),
}

#[derive(Args)]
pub(crate) struct Leases {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    what: LeaseCommand,
}

#[derive(Subcommand)]
enum LeaseCommand {
    /// Lists the leases that somebody has.
    List(Begun),
    /// Says who has a lease.
    Inspect(Named),
    /// Ends a grant, whoever has it.
    ///
    /// The owner finds out at its next renewal, and may act until then: only the fencing token
    /// stops it. What was done is said by a signal on standard error,
    /// `redis.resource_lease.evicted`.
    Evict(Forced),
}

#[derive(Args)]
struct Place {
    /// Where Redis is, in place of `COORD_REDIS_URL`.
    #[arg(long, global = true, value_name = "URL")]
    redis: Option<String>,
}

#[derive(Args)]
struct Named {
    #[arg(value_parser = input::id::<Name>)]
    name: Name,
}

#[derive(Args)]
struct Begun {
    /// Only those whose names begin so.
    #[arg(default_value = "")]
    prefix: String,
}

#[derive(Args)]
struct Forced {
    #[arg(value_parser = input::id::<Name>)]
    name: Name,
    /// The fencing token of the grant, as `inspect` shows it: a later grant is left alone.
    #[arg(long, value_parser = fence)]
    fence: FencingToken,
    /// Who does it, for those who ask later.
    #[arg(long, value_name = "NAME", value_parser = input::id::<Name>)]
    by: Name,
}

fn fence(text: &str) -> Result<FencingToken, String> {
    text.parse()
        .map_err(|_| "a fencing token is a whole number above 0".to_owned())
}

impl Place {
    async fn connect(&self) -> Result<Redis> {
        let mut env = Env::process();
        if let Some(url) = &self.redis {
            env = env.with("COORD_REDIS_URL", url);
        }
        if !coord_redis::Config::is_placed(&env)? {
            return Err(Error::invalid(
                "nothing says where Redis is: give --redis URL, or set COORD_REDIS_URL",
            ));
        }
        Redis::from_env(&env).await
    }
}

impl Locks {
    pub(super) async fn run(self) -> Result<Shown, Failure> {
        let redis = self.place.connect().await?;
        let locks = coord_lock::Locks::new(&redis);
        let shown = match self.what {
            LockCommand::List(Begun { prefix }) => Ok(listed("locks", &locks.list(&prefix).await?)),
            LockCommand::Inspect(Named { name }) => {
                holder("lock", &name, locks.inspect(&name).await?.as_ref())
            }
            LockCommand::Release(forced) => {
                crate::logs::audit()?;
                let Forced { name, fence, by } = forced;
                match locks.force_release(&name, fence, &by).await? {
                    Released::Freed => Ok(ended("lock", &name, fence)),
                    Released::Gone => Err(nobody("lock", &name)),
                    Released::HeldByOther => Err(granted_anew("lock", &name)),
                }
            }
        };
        redis.shutdown(GRACE).await?;
        shown
    }
}

impl Leases {
    pub(super) async fn run(self) -> Result<Shown, Failure> {
        let redis = self.place.connect().await?;
        let leases = coord_lease::Leases::new(&redis);
        let shown = match self.what {
            LeaseCommand::List(Begun { prefix }) => {
                Ok(listed("leases", &leases.list(&prefix).await?))
            }
            LeaseCommand::Inspect(Named { name }) => {
                holder("lease", &name, leases.inspect(&name).await?.as_ref())
            }
            LeaseCommand::Evict(forced) => {
                crate::logs::audit()?;
                let Forced { name, fence, by } = forced;
                match leases.evict(&name, fence, &by).await? {
                    RemoveResult::Removed => Ok(ended("lease", &name, fence)),
                    RemoveResult::NotFound => Err(nobody("lease", &name)),
                    RemoveResult::NotOwner { .. } => Err(granted_anew("lease", &name)),
                    RemoveResult::Unknown => {
                        let message = format!("evicting the owner of lease {name}");
                        Err(Error::timeout(message).into())
                    }
                }
            }
        };
        redis.shutdown(GRACE).await?;
        shown
    }
}

fn nobody(what: &str, name: &Name) -> Failure {
    Failure::Missing(format!("nobody has the {what} {name}"))
}

fn granted_anew(what: &str, name: &Name) -> Failure {
    let message = format!("the {what} {name} has another fencing token by now: inspect it again");
    Error::contended(message).into()
}

fn ended(what: &str, name: &Name, fence: FencingToken) -> Shown {
    let document = json!({ "name": name.as_str(), "fence": fence.get(), "released": true });
    Shown::new(
        document,
        format!("the grant {fence} of {what} {name} has ended"),
    )
}

fn holder(what: &str, name: &Name, holder: Option<&Holder>) -> Result<Shown, Failure> {
    let holder = holder.ok_or_else(|| nobody(what, name))?;
    let text = list([
        ("name", name.to_string()),
        ("owner", owner(holder)),
        ("since", since(holder)),
        ("fence", holder.fence.to_string()),
        (
            "ends in",
            format!("{:?}, if it is not renewed", holder.remaining),
        ),
    ]);
    Ok(Shown::new(document(name, holder), text))
}

fn listed(what: &str, held: &[(Name, Holder)]) -> Shown {
    let documents: Vec<_> = held.iter().map(|(name, it)| document(name, it)).collect();
    let rows = held.iter().map(|(name, holder)| {
        let left = format!("{:?}", holder.remaining);
        let fence = holder.fence.to_string();
        [name.to_string(), owner(holder), since(holder), fence, left]
    });
    let text = table(["NAME", "OWNER", "SINCE", "FENCE", "ENDS IN"], rows);
    Shown::new(json!({ what: documents }), text)
}

fn document(name: &Name, holder: &Holder) -> Value {
    let owner = holder.owner().map(|owner| {
        json!({
            "name": owner.name().as_str(),
            "host": owner.host(),
            "pid": owner.pid(),
            "metadata": owner.metadata(),
        })
    });
    let since = since(holder);
    json!({
        "name": name.as_str(),
        "owner": owner,
        "since": (!since.is_empty()).then_some(since),
        "fence": holder.fence.get(),
        "remaining_ms": holder.remaining.as_millis() as u64,
    })
}

/// Who it says it is; nothing when its record is gone.
fn owner(holder: &Holder) -> String {
    holder.owner().map_or_else(String::new, |owner| {
        format!(
            "{} on {}, process {}",
            owner.name(),
            owner.host(),
            owner.pid()
        )
    })
}

fn since(holder: &Holder) -> String {
    let since = holder.record.as_ref().map(|record| record.since);
    let since = since.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or_else(String::new, |since| {
        Calendar::text(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    })
}
