//! Locks and leases in Redis: who has them, and their release by an operator.

use axum::Json;
use coord_core::{FencingToken, Name};
use coord_lease::{Holder, Leases, Owner, RemoveResult};
use coord_lock::{Locks, Released};
use coord_redis::Redis;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Administer, Everywhere, Read};
use super::input::{Asked, At, Body};
use super::problem::Problem;
use super::workflows::named;
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(locks))
        .routes(routes!(lock))
        .routes(routes!(force_release))
        .routes(routes!(leases))
        .routes(routes!(lease))
        .routes(routes!(evict))
}

/// A lock or a lease that somebody has.
#[derive(Serialize, ToSchema)]
struct Grant {
    name: String,
    /// Who has it, as it calls itself.
    owner: Option<String>,
    /// The number of the grant, larger at each: the fencing token.
    fence: u64,
    /// How long it is still granted for, on the server's clock.
    remaining_ms: u64,
}

impl Grant {
    fn of(name: &str, holder: &Holder) -> Self {
        Self {
            name: name.to_owned(),
            owner: holder.owner().map(owner),
            fence: holder.fence.get(),
            remaining_ms: u64::try_from(holder.remaining.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn owner(owner: &Owner) -> String {
    let (name, host, pid) = (owner.name(), owner.host(), owner.pid());
    format!("{name} on {host}, process {pid}")
}

fn redis(node: &Node) -> Result<&Redis, Problem> {
    node.redis().ok_or_else(|| {
        let why = "this node has no Redis, so it knows no locks and leases";
        Problem::missing("redis_not_configured", why)
    })
}

fn name(text: String) -> Result<Name, Problem> {
    named("name", Name::new(text))
}

fn nobody(what: &str, name: &Name) -> Problem {
    Problem::missing(
        "not_held",
        format!("nobody has the {what} {}", name.as_str()),
    )
}

/// The locks that somebody has.
#[derive(Serialize, ToSchema)]
struct LockList {
    locks: Vec<Grant>,
}

/// The locks that somebody has, by their names. Reads the whole key space in small steps.
#[utoipa::path(get, path = "/locks", tag = "grants", params(Wanted),
    responses((status = 200, body = LockList)))]
async fn locks(
    caller: Everywhere<Read>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<LockList>, Problem> {
    let held = Locks::new(redis(&caller.node)?)
        .list(&wanted.prefix)
        .await?;
    let locks = held.iter();
    let locks = locks.map(|(name, holder)| Grant::of(name.as_str(), holder));
    Ok(Json(LockList {
        locks: locks.collect(),
    }))
}

/// Who has a lock.
#[utoipa::path(get, path = "/locks/{name}", tag = "grants", params(("name" = String, Path)),
    responses((status = 200, body = Grant)))]
async fn lock(caller: Everywhere<Read>, At(name_of): At<String>) -> Result<Json<Grant>, Problem> {
    let name = name(name_of)?;
    let holder = Locks::new(redis(&caller.node)?).inspect(&name).await?;
    let holder = holder.ok_or_else(|| nobody("lock", &name))?;
    Ok(Json(Grant::of(name.as_str(), &holder)))
}

/// Which grant is to end.
#[derive(Deserialize, ToSchema)]
struct Release {
    /// The fencing token of the grant, as it was read: a later grant is left alone.
    #[schema(minimum = 1)]
    fence: u64,
}

impl Release {
    fn fence(&self) -> Result<FencingToken, Problem> {
        named("fence", FencingToken::new(self.fence))
    }
}

/// What became of a release.
#[derive(Serialize, ToSchema)]
struct ReleaseAnswer {
    name: String,
    /// `released`, or `gone` when nobody had it any more.
    outcome: &'static str,
}

/// Ends a grant of a lock, whoever has it, as if its owner had released it.
///
/// The owner finds out at its next renewal, and may act until then: only the fencing token stops it.
/// The signal `redis.lock.forced` carries the name of the caller's token.
#[utoipa::path(post, path = "/locks/{name}/force-release", tag = "grants", request_body = Release,
    params(("name" = String, Path)), responses((status = 200, body = ReleaseAnswer)))]
async fn force_release(
    caller: Everywhere<Administer>,
    At(name_of): At<String>,
    Body(release): Body<Release>,
) -> Result<Json<ReleaseAnswer>, Problem> {
    let name = name(name_of)?;
    let locks = Locks::new(redis(&caller.node)?);
    let fence = release.fence()?;
    let outcome = match locks.force_release(&name, fence, &caller.by()?).await? {
        Released::Freed => "released",
        Released::Gone => "gone",
        Released::HeldByOther => return Err(another("lock", &name)),
    };
    Ok(Json(ReleaseAnswer {
        name: name.as_str().to_owned(),
        outcome,
    }))
}

fn another(what: &str, name: &Name) -> Problem {
    let why = format!(
        "the {what} {} was granted anew since it was read",
        name.as_str()
    );
    Problem::conflict("fence_outdated", why)
}

/// Which of them to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Only those whose names begin so.
    #[serde(default)]
    prefix: String,
}

/// The leases that somebody has.
#[derive(Serialize, ToSchema)]
struct Grants {
    leases: Vec<Grant>,
}

/// The leases that somebody has. Reads the whole key space in small steps.
#[utoipa::path(get, path = "/leases", tag = "grants", params(Wanted),
    responses((status = 200, body = Grants)))]
async fn leases(
    caller: Everywhere<Read>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Grants>, Problem> {
    let held = Leases::new(redis(&caller.node)?)
        .list(&wanted.prefix)
        .await?;
    let leases = held.iter();
    let leases = leases.map(|(name, holder)| Grant::of(name.as_str(), holder));
    Ok(Json(Grants {
        leases: leases.collect(),
    }))
}

/// Who has a lease.
#[utoipa::path(get, path = "/leases/{name}", tag = "grants", params(("name" = String, Path)),
    responses((status = 200, body = Grant)))]
async fn lease(caller: Everywhere<Read>, At(name_of): At<String>) -> Result<Json<Grant>, Problem> {
    let name = name(name_of)?;
    let holder = Leases::new(redis(&caller.node)?).inspect(&name).await?;
    let holder = holder.ok_or_else(|| nobody("lease", &name))?;
    Ok(Json(Grant::of(name.as_str(), &holder)))
}

/// Ends a grant of a lease, whoever has it.
///
/// The owner finds out at its next renewal, and may act until then: only the fencing token stops it.
/// The signal `redis.resource_lease.evicted` carries the name of the caller's token.
#[utoipa::path(post, path = "/leases/{name}/force-release", tag = "grants", request_body = Release,
    params(("name" = String, Path)), responses((status = 200, body = ReleaseAnswer)))]
async fn evict(
    caller: Everywhere<Administer>,
    At(name_of): At<String>,
    Body(release): Body<Release>,
) -> Result<Json<ReleaseAnswer>, Problem> {
    let name = name(name_of)?;
    let leases = Leases::new(redis(&caller.node)?);
    let fence = release.fence()?;
    let outcome = match leases.evict(&name, fence, &caller.by()?).await? {
        RemoveResult::Removed => "released",
        RemoveResult::NotFound => "gone",
        RemoveResult::NotOwner { .. } => return Err(another("lease", &name)),
        RemoveResult::Unknown => {
            let why = format!(
                "releasing the lease {}: Redis gave no answer",
                name.as_str()
            );
            return Err(coord_core::Error::timeout(why).into());
        }
    };
    Ok(Json(ReleaseAnswer {
        name: name.as_str().to_owned(),
        outcome,
    }))
}
