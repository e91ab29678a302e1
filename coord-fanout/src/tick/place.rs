//! The keys of one job and tenant, and the scripts on them.

use std::time::Duration;

use coord_core::{ClaimToken, Error, FencingToken, Key, KeySpace, Name, Result, Ttl};
use coord_redis::{Command, Redis, Reply, Script};

use super::due::Due;
use crate::job::FirstRun;
use crate::schedule::TickTime;

/// A last tick is kept for 400 days, so that a yearly job knows its last one.
const LAST_TICK_KEPT_MS: u64 = 400 * 24 * 60 * 60 * 1000;

static CLAIM: Script =
    coord_lease::lease_script!("fanout.tick.claim", include_str!("../lua/tick_claim.lua"));
static FINISH: Script =
    coord_lease::lease_script!("fanout.tick.finish", include_str!("../lua/tick_finish.lua"));
static RELEASE: Script = coord_lease::lease_script!(
    "fanout.tick.release",
    include_str!("../lua/tick_release.lua")
);

/// Where the state of one job and tenant lies.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) lock: Key,
    pub(crate) record: Key,
    last: Key,
}

impl Place {
    pub(crate) fn new(keys: &KeySpace, job: &Name, org: &Name) -> Self {
        let lock = keys.key("cron-fanout", &[job, org]);
        Self {
            record: coord_lease::format::record(&lock),
            last: lock.part("last_tick"),
            lock,
        }
    }

    /// Says that the tick up to `upto` is done, until `cooldown_end` with the lock kept; answers
    /// whether it was this one's to say.
    pub(crate) async fn finish(
        &self,
        redis: &Redis,
        (token, fence): (&ClaimToken, FencingToken),
        (upto, cooldown_end): (TickTime, TickTime),
    ) -> Result<bool> {
        let finish = FINISH
            .call(&[&self.lock, &self.record, &self.last])
            .arg(token.as_str())
            .arg(fence.get())
            .arg(upto.as_millis())
            .arg(cooldown_end.as_millis())
            .arg(LAST_TICK_KEPT_MS)
            .idempotent();
        Ok(redis.run(&finish).await?.int()? == 1)
    }

    /// The command that gives up a tick that is not finished; nobody gets it for `pause`.
    pub(crate) fn release(&self, token: &ClaimToken, pause: Duration) -> Command {
        RELEASE
            .call(&[&self.lock])
            .arg(token.as_str())
            .arg(pause.as_millis() as u64)
            .idempotent()
    }
}

/// One tenant's part of a claim.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) place: Place,
    pub(crate) token: ClaimToken,
    pub(crate) ttl: Ttl,
    pub(crate) last: Option<TickTime>,
    pub(crate) first_run: FirstRun,
    pub(crate) shift: Duration,
    /// Nothing to only learn of the last tick.
    pub(crate) due: Option<Due>,
}

/// What became of one tenant's part of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing is due after the last tick, if there is one.
    Idle(Option<TickTime>),
    /// Somebody else has it for so long, if nobody renews it.
    Busy {
        last: Option<TickTime>,
        left: Duration,
        /// Nobody has it: a scan failed.
        is_pause: bool,
    },
    /// What was due after this tick is done with, without a run.
    Passed(Option<TickTime>),
    /// These instants, after the last tick, are ours.
    Granted {
        last: Option<TickTime>,
        fence: FencingToken,
        cover: Vec<TickTime>,
    },
    /// Something else is stored there.
    Foreign,
}

/// Claims for tenants, which share a slot; gives the server's time and the answers in order.
pub(crate) async fn claim(
    redis: &Redis,
    owner: &str,
    asks: &[&Ask],
    receipt: &coord_redis::Receipt,
) -> Result<(TickTime, Vec<Answer>)> {
    let keys: Vec<_> = asks
        .iter()
        .flat_map(|ask| [&ask.place.lock, &ask.place.record, &ask.place.last])
        .collect();
    let claim = CLAIM.call(&keys).arg(owner).arg(LAST_TICK_KEPT_MS);
    let claim = asks.iter().fold(claim, |claim, ask| arguments(claim, ask));
    let reply = redis.run(&claim.idempotent().receipt(receipt)).await?;
    let mut replies = reply.list()?.into_iter();
    let now = replies.next().ok_or_else(|| unexpected("no time"))?.int()?;
    let answers = replies.map(answer).collect::<Result<Vec<_>>>()?;
    if answers.len() != asks.len() {
        return Err(unexpected("another number of answers than of claims"));
    }
    Ok((TickTime::from_millis(now), answers))
}

fn arguments(claim: Command, ask: &Ask) -> Command {
    let (upto, cover) = match &ask.due {
        Some(due) => (due.upto.as_millis().to_string(), due.cover.as_slice()),
        None => (String::new(), [].as_slice()),
    };
    let known = ask.last.map(|last| last.as_millis().to_string());
    let claim = claim
        .arg(ask.token.as_str())
        .arg(ask.ttl.as_millis())
        .arg(known.unwrap_or_default())
        .arg(match ask.first_run {
            FirstRun::NextInstant => "next",
            FirstRun::AtOnce => "now",
        })
        .arg(ask.shift.as_millis() as u64)
        .arg(upto)
        .arg(cover.len());
    cover
        .iter()
        .fold(claim, |claim, instant| claim.arg(instant.as_millis()))
}

fn answer(reply: Reply) -> Result<Answer> {
    let mut parts = reply.list()?.into_iter();
    let mut part = || parts.next().unwrap_or(Reply::Nil);
    let what = part().text()?;
    if what == "foreign" {
        return Ok(Answer::Foreign);
    }
    let last = part().optional().map(instant).transpose()?;
    Ok(match what.as_str() {
        "idle" | "first" => Answer::Idle(last),
        "passed" => Answer::Passed(last),
        "busy" => Answer::Busy {
            last,
            // Below zero: somebody took its TTL away.
            left: u64::try_from(part().int()?).map_or(Duration::MAX, Duration::from_millis),
            is_pause: part().int()? == 1,
        },
        "granted" => Answer::Granted {
            last,
            fence: part().text()?.parse()?,
            cover: parts.map(instant).collect::<Result<_>>()?,
        },
        other => return Err(unexpected(other)),
    })
}

fn instant(reply: Reply) -> Result<TickTime> {
    reply.int().map(TickTime::from_millis)
}

fn unexpected(what: &str) -> Error {
    Error::corrupt(format!("the answer to a claim of ticks has {what}"))
}
