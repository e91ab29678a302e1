//! The ticker: runs jobs at their instants, each on one of all nodes.

mod clock;
mod due;
mod place;
mod roster;
mod scan;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, Name, Result};
use coord_lease::{Leases, Owner};
use coord_redis::{Kept, Receipt, Redis};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use crate::job::{Job, Tick};
use crate::queue::Queue;
use crate::schedule::TickTime;
use crate::signals::{SIGNALS, Signal};
use due::passed_over;
use place::Answer;
use roster::{Asked, Id, Roster};
use scan::{End, Run, pass_over, unpanicked};

/// Scans of this node at once: they wait for a database most of the time.
const SCANS: usize = 16;

/// Claims in one script: it holds up the server for well under a millisecond.
const CLAIMS: usize = 64;

/// How often the tenants are listed anew.
const REFRESH: Duration = Duration::from_mins(1);

/// Between two attempts to list the tenants.
const ORGS_AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// A list that takes longer is no list of tenants.
const ORGS_LIMIT: Duration = Duration::from_secs(30);

type Listing = Pin<Box<dyn Future<Output = Result<Vec<Name>>> + Send>>;

/// Runs jobs for tenants: of all nodes that do, exactly one has each tick.
///
/// Each node runs one. None is the leader: every tick of every job and tenant is claimed for
/// itself, so that the nodes share them, and one that dies costs the others nothing but the
/// [lease](Job::lease) of the ticks it was at.
pub struct Ticker<Q> {
    redis: Redis,
    queue: Arc<Q>,
    jobs: Vec<Arc<Job>>,
    orgs: Arc<dyn Fn() -> Listing + Send + Sync>,
    refresh: Duration,
    scans: NonZeroUsize,
}

impl<Q: Queue> Ticker<Q> {
    /// A ticker of `jobs` for the tenants that `orgs` lists, whose records go to `queue`.
    ///
    /// `orgs` is asked again every minute; see [`refresh`](Self::refresh). While it fails, the
    /// last list stays in use.
    ///
    /// # Errors
    /// `Invalid` when two jobs have the same name.
    pub fn new<O, L>(redis: &Redis, queue: Arc<Q>, jobs: Vec<Job>, orgs: O) -> Result<Self>
    where
        O: Fn() -> L + Send + Sync + 'static,
        L: Future<Output = Result<Vec<Name>>> + Send + 'static,
    {
        let mut names = BTreeSet::new();
        if let Some(twice) = jobs.iter().find(|job| !names.insert(&job.name)) {
            return Err(Error::invalid(format!("two jobs are named {}", twice.name)));
        }
        coord_core::signals::register(SIGNALS);
        redis.keeps(Kept::Ticks);
        Ok(Self {
            redis: redis.clone(),
            queue,
            jobs: jobs.into_iter().map(Arc::new).collect(),
            orgs: Arc::new(move || Box::pin(orgs())),
            refresh: REFRESH,
            scans: NonZeroUsize::new(SCANS).expect("it is not zero"),
        })
    }

    /// How often the tenants are listed anew; every minute if not set.
    #[must_use]
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.refresh = interval;
        self
    }

    /// How many scans this node has at once; 16 if not set. What is due beyond that is left to
    /// the other nodes, or waits.
    #[must_use]
    pub fn scans(mut self, most: NonZeroUsize) -> Self {
        self.scans = most;
        self
    }

    /// Runs until `shutdown` completes.
    ///
    /// Then no tick is claimed any more, scans under way are given up and released at once, for
    /// another node to do, and those that were through are finished. The cooldown of a finished
    /// tick stays.
    ///
    /// # Cancel safety
    /// Dropping it gives up what is under way as a shutdown does, only that the releases go on in
    /// the background; [`Redis::shutdown`] waits for them.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut running = Running::new(self);
        loop {
            running.claim();
            let wake = running.next_wake();
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(event) = running.tasks.join_next() => running.happened(event),
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        running.stop().await;
    }
}

impl<Q> fmt::Debug for Ticker<Q> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ticker")
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

/// What a task of the ticker ends with.
enum Event {
    Orgs(Result<Vec<Name>>),
    Answered(Answered),
    Ended(Id, End),
}

/// What became of a claim for tenants that share a slot.
struct Answered {
    asked: Vec<Asked>,
    sent: Instant,
    received: Instant,
    answer: Result<(TickTime, Vec<Answer>)>,
}

struct Running<Q> {
    ticker: Ticker<Q>,
    leases: Leases,
    owner: Arc<str>,
    roster: Roster,
    tasks: JoinSet<Event>,
    /// Tenants that are asked for or scanned: no more than scans are allowed.
    taken: usize,
    /// When the tenants are listed next; nothing while they are.
    orgs_at: Option<Instant>,
    orgs_errors: u32,
    listing: Option<AbortHandle>,
    stop: watch::Sender<bool>,
}

impl<Q: Queue> Running<Q> {
    fn new(ticker: Ticker<Q>) -> Self {
        let owner = Owner::new(Name::new("ticker").expect("it is not empty"));
        Self {
            leases: Leases::new(&ticker.redis),
            owner: owner.encode().into(),
            roster: Roster::new(&ticker.redis, ticker.jobs.clone()),
            tasks: JoinSet::new(),
            taken: 0,
            orgs_at: Some(Instant::now()),
            orgs_errors: 0,
            listing: None,
            stop: watch::Sender::new(false),
            ticker,
        }
    }

    fn next_wake(&self) -> Instant {
        let is_free = self.taken < self.ticker.scans.get();
        let claim = self.roster.next_wake().filter(|_| is_free);
        let wakes = [claim, self.orgs_at];
        // A task under way wakes the loop itself.
        let never = || Instant::now() + self.ticker.refresh;
        wakes.into_iter().flatten().min().unwrap_or_else(never)
    }

    /// Starts what is due: claims, and listing the tenants.
    fn claim(&mut self) {
        let now = Instant::now();
        if self.orgs_at.is_some_and(|at| at <= now) {
            self.orgs_at = None;
            let orgs = Arc::clone(&self.ticker.orgs);
            let listing = async move { Event::Orgs(listed(&*orgs).await) };
            self.listing = Some(self.tasks.spawn(listing));
        }
        let free = self.ticker.scans.get() - self.taken;
        let asked = self.roster.take(now, free.min(CLAIMS));
        self.taken += asked.len();
        let mut slots = BTreeMap::<_, Vec<_>>::new();
        for asked in asked {
            let slot = self.ticker.redis.slot(&asked.ask.place.lock);
            slots.entry(slot).or_default().push(asked);
        }
        for asked in slots.into_values() {
            let (redis, owner) = (self.ticker.redis.clone(), Arc::clone(&self.owner));
            self.tasks
                .spawn(async move { Event::Answered(ask(&redis, &owner, asked).await) });
        }
    }

    fn happened(&mut self, event: Result<Event, JoinError>) {
        // A panic of ours; those of scans and lists are errors by now.
        let event = event.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let now = Instant::now();
        match event {
            Event::Orgs(orgs) => self.listed(orgs, now),
            Event::Answered(answered) => self.answered(answered),
            Event::Ended(id, end) => {
                self.taken -= 1;
                self.roster.ended(&id, end, now);
            }
        }
    }

    fn listed(&mut self, orgs: Result<Vec<Name>>, now: Instant) {
        let wait = match orgs {
            Ok(orgs) => {
                self.orgs_errors = 0;
                self.roster.set_orgs(&orgs, now);
                self.ticker.refresh
            }
            Err(error) => {
                let error = Detail::error(&error);
                Signal::TickOrgsFailed { error }.emit();
                let wait = ORGS_AGAIN
                    .jittered(self.orgs_errors)
                    .min(self.ticker.refresh);
                self.orgs_errors = self.orgs_errors.saturating_add(1);
                wait
            }
        };
        self.orgs_at = Some(now + wait);
    }

    fn answered(&mut self, answered: Answered) {
        let Answered {
            asked,
            sent,
            received,
            answer,
        } = answered;
        self.taken -= asked.len();
        match answer {
            Ok((told, answers)) => {
                self.roster.clock.observe(told, sent, received);
                for (asked, answer) in asked.into_iter().zip(answers) {
                    self.settle(asked, answer, (told, sent, received));
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
                    self.roster.unanswered(&asked.id, asked.claim, received);
                }
            }
        }
    }

    /// Acts on the answer for one tenant, given at `told` on the server's clock.
    fn settle(
        &mut self,
        asked: Asked,
        answer: Answer,
        (told, sent, received): (TickTime, Instant, Instant),
    ) {
        let Asked { id, ask, claim } = asked;
        self.roster
            .answered(&id, &answer, ask.due.as_ref(), received);
        let Some(seat) = self.roster.seat(&id) else {
            // The tenant is gone; what was granted is released by the drop of the claim.
            return;
        };
        let names = || (seat.job.name.clone(), id.1.clone());
        if let Some(ahead_ms) = seat
            .last
            .map(|last| last.since(told))
            .filter(|d| !d.is_zero())
        {
            let (job_type, org) = names();
            Signal::TickAhead {
                ahead_ms,
                job_type,
                org,
            }
            .emit();
        }
        match answer {
            Answer::Idle(_) => claim.refused(),
            Answer::Busy { is_pause, .. } => {
                if !is_pause {
                    let (job_type, org) = names();
                    Signal::TickContended { job_type, org }.emit();
                }
                claim.refused();
            }
            Answer::Foreign => {
                let (job_type, org) = names();
                Signal::TickForeign { job_type, org }.emit();
                claim.refused();
            }
            Answer::Passed(last) => {
                claim.refused();
                if let (Some(last), Some(due)) = (last, ask.due) {
                    let timing = &seat.job.timing;
                    let over = passed_over(timing, last, &[], (due.upto, seat.horizon(told)));
                    pass_over(over, &seat.job.name, &id.1);
                }
            }
            Answer::Granted { last, fence, cover } => {
                let upto = ask.due.map_or(told, |due| due.upto);
                let over = last.map(|last| {
                    let horizon = seat.horizon(told);
                    passed_over(&seat.job.timing, last, &cover, (upto, horizon))
                });
                let turn = claim.granted(&self.leases, fence, sent);
                let newest = cover.last().copied().unwrap_or(upto);
                let (name, org) = names();
                Signal::TickFired {
                    late_ms: told.since(newest.plus(ask.shift)),
                    job_type: name.clone(),
                    org: org.clone(),
                    instant: Detail::new(newest),
                    fence,
                }
                .emit();
                let run = Run {
                    job: Arc::clone(&seat.job),
                    tick: Tick {
                        job: name,
                        org,
                        instants: cover,
                        fence,
                    },
                    shift: ask.shift,
                    upto,
                    turn,
                    over: over.unwrap_or_default(),
                    failures: seat.failures,
                };
                self.taken += 1;
                let (queue, stop) = (Arc::clone(&self.ticker.queue), self.stop.subscribe());
                self.tasks.spawn(async move {
                    let end = run.to_its_end(&*queue, stop).await;
                    Event::Ended(id, end)
                });
            }
        }
    }

    /// Ends all tasks in order; see [`Ticker::run`].
    async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(listing) = &self.listing {
            listing.abort();
        }
        while let Some(event) = self.tasks.join_next().await {
            if let Ok(Event::Answered(answered)) = event {
                self.answered(answered);
            }
        }
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

async fn ask(redis: &Redis, owner: &str, mut asked: Vec<Asked>) -> Answered {
    let receipt = Receipt::default();
    for asked in &mut asked {
        asked.claim.sends(&receipt);
    }
    let sent = Instant::now();
    let asks: Vec<_> = asked.iter().map(|asked| &asked.ask).collect();
    let answer = place::claim(redis, owner, &asks, &receipt).await;
    Answered {
        asked,
        sent,
        received: Instant::now(),
        answer,
    }
}
