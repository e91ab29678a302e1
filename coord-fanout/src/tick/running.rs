//! A ticker at work: what it starts, and what it makes of the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, FencingToken, Name, Result};
use coord_lease::{Leases, Owner};
use coord_redis::{Receipt, Redis};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::due::passed_over;
use super::place::{Answer, Ask, claim};
use super::roster::{Id, Roster, Seat, Wanted};
use super::scan::{End, Run, pass_over, unpanicked};
use super::turn::Claim;
use super::{Listing, Ticker};
use crate::job::Tick;
use crate::queue::Queue;
use crate::schedule::TickTime;
use crate::signals::Signal;

/// After a claim that failed.
const CLAIM_AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// Between two attempts to list the tenants.
const ORGS_AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// A list that takes longer is no list of tenants.
const ORGS_LIMIT: Duration = Duration::from_secs(30);

/// What a task of the ticker ends with.
enum Event {
    Orgs(Result<Vec<Name>>),
    Answered(Vec<Asked>, Result<Vec<Answer>>, Heard),
    Ended(Id, End),
}

/// A part of a claim on its way.
struct Asked {
    id: Id,
    ask: Ask,
    claim: Claim,
}

/// When a call was sent and answered, and the server's time in the answer.
#[derive(Clone, Copy)]
struct Heard {
    sent_at: Instant,
    received_at: Instant,
    told: TickTime,
}

/// A grant that an answer gave.
struct Granted {
    last: Option<TickTime>,
    fence: FencingToken,
    cover: Vec<TickTime>,
}

pub(super) struct Running<Q> {
    ticker: Ticker<Q>,
    leases: Leases,
    owner: Arc<str>,
    roster: Roster,
    tasks: JoinSet<Event>,
    /// Tenants with a tick that is claimed or scanned: no more than scans are allowed.
    taken: usize,
    /// Claims under way. On one server there is one at a time, and what becomes free or due
    /// meanwhile shares the next one; in a cluster no two tenants could share one anyway.
    asking: usize,
    /// When the tenants are listed next; nothing while they are.
    orgs_at: Option<Instant>,
    orgs_errors: u32,
    listing: Option<AbortHandle>,
    stop: watch::Sender<bool>,
}

impl<Q: Queue> Running<Q> {
    pub(super) fn new(ticker: Ticker<Q>) -> Self {
        let owner = Owner::new(Name::new("ticker").expect("it is not empty"));
        Self {
            leases: Leases::new(&ticker.redis),
            owner: owner.encode().into(),
            roster: Roster::new(ticker.redis.keys().clone(), ticker.jobs.clone()),
            tasks: JoinSet::new(),
            taken: 0,
            asking: 0,
            orgs_at: Some(Instant::now()),
            orgs_errors: 0,
            listing: None,
            stop: watch::Sender::new(false),
            ticker,
        }
    }

    /// When there is something to start; what is under way is an [`event`](Self::event).
    pub(super) fn next_wake(&self) -> Instant {
        let claim = self.roster.next_wake().filter(|_| self.room() > 0);
        let wakes = [claim, self.orgs_at];
        let never = || Instant::now() + self.ticker.refresh;
        wakes.into_iter().flatten().min().unwrap_or_else(never)
    }

    /// Starts what is due: claims, and listing the tenants.
    pub(super) fn start(&mut self) {
        let now = Instant::now();
        if self.orgs_at.is_some_and(|at| at <= now) {
            self.orgs_at = None;
            let orgs = Arc::clone(&self.ticker.orgs);
            let listing = async move { Event::Orgs(listed(&*orgs).await) };
            self.listing = Some(self.tasks.spawn(listing));
        }
        let wanted = match self.room() {
            0 => Vec::new(),
            room => self.roster.take(now, room),
        };
        self.taken += wanted.iter().filter(|one| one.ask.due.is_some()).count();
        let redis = &self.ticker.redis;
        let mut slots = BTreeMap::<_, Vec<_>>::new();
        for Wanted { id, ask, claim } in wanted {
            let claim = claim.unwrap_or_else(|| Claim::new(redis, &ask.place, ask.ttl));
            let slot = slots.entry(redis.slot(&ask.place.lock)).or_default();
            slot.push(Asked { id, ask, claim });
        }
        for asked in slots.into_values() {
            self.asking += 1;
            self.tasks
                .spawn(ask(redis.clone(), Arc::clone(&self.owner), asked));
        }
    }

    /// How many ticks may be claimed now.
    fn room(&self) -> usize {
        if self.asking > 0 && !self.ticker.redis.is_cluster() {
            return 0;
        }
        self.ticker.scans.get() - self.taken
    }

    /// Waits for something that is under way, and acts on what became of it; for ever when there
    /// is nothing.
    ///
    /// # Cancel safety
    /// Safe: what ends later is the next event.
    pub(super) async fn event(&mut self) {
        let Some(event) = self.tasks.join_next().await else {
            return std::future::pending().await;
        };
        // A panic of ours; those of scans and lists are errors by now.
        let event = event.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        match event {
            Event::Orgs(orgs) => self.listed(orgs),
            Event::Answered(asked, answers, heard) => self.answered(asked, answers, heard),
            Event::Ended(id, end) => {
                self.taken -= 1;
                self.roster.ended(&id, end, Instant::now());
            }
        }
    }

    /// Ends all tasks in order; see [`Ticker::run`].
    pub(super) async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(listing) = &self.listing {
            listing.abort();
        }
        while let Some(event) = self.tasks.join_next().await {
            if let Ok(Event::Answered(asked, answers, heard)) = event {
                self.answered(asked, answers, heard);
            }
        }
    }

    fn listed(&mut self, orgs: Result<Vec<Name>>) {
        let now = Instant::now();
        let wait = match orgs {
            Ok(orgs) => {
                self.orgs_errors = 0;
                self.roster.set_orgs(&orgs, now);
                self.ticker.refresh
            }
            Err(error) => {
                let error = Detail::error(&error);
                Signal::TickOrgsFailed { error }.emit();
                let again = ORGS_AGAIN.jittered(self.orgs_errors);
                self.orgs_errors = self.orgs_errors.saturating_add(1);
                again.min(self.ticker.refresh)
            }
        };
        self.orgs_at = Some(now + wait);
    }

    fn answered(&mut self, asked: Vec<Asked>, answers: Result<Vec<Answer>>, heard: Heard) {
        self.taken -= asked.iter().filter(|one| one.ask.due.is_some()).count();
        self.asking -= 1;
        match answers {
            Ok(answers) => {
                let Heard {
                    sent_at,
                    received_at,
                    told,
                } = heard;
                self.roster.clock.observe(told, sent_at, received_at);
                for (asked, answer) in asked.into_iter().zip(answers) {
                    let due = asked.ask.due.as_ref();
                    self.roster.answered(&asked.id, &answer, due, received_at);
                    self.settle(asked, answer, heard);
                }
            }
            Err(error) => {
                Signal::TickClaimFailed {
                    tenants: asked.len() as u64,
                    error: Detail::error(&error),
                }
                .emit();
                for mut asked in asked {
                    asked.claim.failed(&error);
                    let errors = self.roster.seat(&asked.id).map_or(0, |seat| seat.errors);
                    let again = heard.received_at + CLAIM_AGAIN.jittered(errors);
                    self.roster.failed(&asked.id, asked.claim, again);
                }
            }
        }
    }

    /// Acts on the answer for one tenant.
    fn settle(&mut self, asked: Asked, answer: Answer, heard: Heard) {
        let Some(seat) = self.roster.seat(&asked.id) else {
            // The tenant is gone; what was granted is released by the drop of the claim.
            return;
        };
        let (job_type, org) = (seat.job.name.clone(), asked.id.1.clone());
        report_ahead(seat, &asked.id, heard.told);
        match answer {
            Answer::Idle(_) | Answer::Busy { is_pause: true, .. } => {}
            Answer::Busy { .. } => Signal::TickContended { job_type, org }.emit(),
            Answer::Foreign => Signal::TickForeign { job_type, org }.emit(),
            Answer::Passed(last) => {
                if let (Some(last), Some(due)) = (last, &asked.ask.due) {
                    let times = (due.upto, seat.horizon(heard.told));
                    let over = passed_over(&seat.job.timing, last, &[], times);
                    pass_over(over, &job_type, &org);
                }
            }
            Answer::Granted { last, fence, cover } => {
                let granted = Granted { last, fence, cover };
                return self.run(asked, granted, heard);
            }
        }
        asked.claim.refused();
    }

    /// Starts the scan of a tick that was granted.
    fn run(&mut self, asked: Asked, granted: Granted, heard: Heard) {
        let Asked { id, ask, claim } = asked;
        let Granted { last, fence, cover } = granted;
        let Some(seat) = self.roster.seat(&id) else {
            return;
        };
        let upto = ask.due.map_or(heard.told, |due| due.upto);
        let times = (upto, seat.horizon(heard.told));
        let over = last.map(|last| passed_over(&seat.job.timing, last, &cover, times));
        let newest = cover.last().copied().unwrap_or(upto);
        // A tenant's very first run, at once, is not late.
        let late = last.map(|_| heard.told.since(newest.plus(ask.shift)));
        Signal::TickFired {
            late_ms: late.unwrap_or_default(),
            job_type: seat.job.name.clone(),
            org: id.1.clone(),
            instant: Detail::new(newest),
            fence,
        }
        .emit();
        let run = Run {
            job: Arc::clone(&seat.job),
            tick: Tick {
                job: seat.job.name.clone(),
                org: id.1.clone(),
                instants: cover,
                fence,
            },
            shift: ask.shift,
            upto,
            turn: claim.granted(&self.leases, fence, heard.sent_at),
            over: over.unwrap_or_default(),
            failures: seat.failures,
        };
        self.taken += 1;
        let (queue, stop) = (Arc::clone(&self.ticker.queue), self.stop.subscribe());
        self.tasks
            .spawn(async move { Event::Ended(id, run.execute(&*queue, stop).await) });
    }
}

fn report_ahead(seat: &Seat, id: &Id, told: TickTime) {
    let ahead = seat.last.map(|last| last.since(told));
    if let Some(ahead_ms) = ahead.filter(|ahead| !ahead.is_zero()) {
        let (job_type, org) = (seat.job.name.clone(), id.1.clone());
        Signal::TickAhead {
            ahead_ms,
            job_type,
            org,
        }
        .emit();
    }
}

async fn listed(orgs: &(dyn Fn() -> Listing + Send + Sync)) -> Result<Vec<Name>> {
    let listed = unpanicked(async { orgs().await });
    let listed = tokio::time::timeout(ORGS_LIMIT, listed).await;
    listed.unwrap_or_else(|_| {
        Err(Error::unavailable(format!(
            "no list of tenants within {ORGS_LIMIT:?}"
        )))
    })
}

/// Claims for tenants that share a slot.
async fn ask(redis: Redis, owner: Arc<str>, mut asked: Vec<Asked>) -> Event {
    let receipt = Receipt::default();
    for asked in &mut asked {
        asked.claim.sends(&receipt);
    }
    let asks: Vec<_> = asked
        .iter()
        .map(|asked| (&asked.ask, &asked.claim.token))
        .collect();
    let sent_at = Instant::now();
    let (told, answers) = match claim(&redis, &owner, &asks, &receipt).await {
        Ok((told, answers)) => (told, Ok(answers)),
        Err(error) => (TickTime::from_millis(0), Err(error)),
    };
    let heard = Heard {
        sent_at,
        received_at: Instant::now(),
        told,
    };
    Event::Answered(asked, answers, heard)
}
