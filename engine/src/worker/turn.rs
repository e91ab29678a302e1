//! A turn: replay, go on, commit.

mod answer;
mod give_up;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use coord_core::trace::Span;
use coord_core::{Error, Result};
use tokio::time::Instant;

use super::Shop;
use super::leases::LeaseGuard;
use super::live::{Live, Stand, Trouble, started, turn_of};
use crate::model::{Closed, Event, Record, RunId, Task, TaskId, TypeName};
use crate::signals::{Cached, Signal};
use crate::store::{
    Append, ClaimedTask, Fence, Held, Lease, Load, LoadedRun, Outcome, Then, Turn, Write,
};
use crate::transition::Identity;

/// How many events are read at a time.
const PAGE: u32 = 10_000;
impl Shop {
    /// Takes the turn that was claimed by the request sent at `sent`.
    pub(super) async fn turn(self: Arc<Self>, claimed: ClaimedTask, sent: Instant) {
        let task = claimed.task;
        let held = (task.id.clone(), task.epoch, task.attempt);
        self.turn_of(&task.run, held, sent, self.live(&task)).await;
    }

    /// Takes a turn of `run` under its workflow task, given with its epoch and its attempt.
    pub(super) async fn turn_of(
        self: &Arc<Self>,
        run: &RunId,
        (task, epoch, attempt): (TaskId, u64, u32),
        sent: Instant,
        live: impl Future<Output = Result<Box<Live>, Trouble>>,
    ) {
        let owner = self.core.owner();
        let until = (sent, self.turn_lease());
        let lease = self.leases.hold((&task, epoch), &owner, until);
        let ended = match live.await {
            Ok(live) => self.go_on(live, &lease).await,
            Err(trouble) => Err(trouble),
        };
        if let Err(trouble) = ended {
            self.give_up(run, attempt, &lease, trouble).await;
        }
        Signal::Turn {
            elapsed_ms: sent.elapsed(),
        }
        .emit();
    }

    /// The run of `task`, as far as its history goes, with the messages that wait.
    async fn live(&self, task: &Task) -> Result<Box<Live>, Trouble> {
        let cached = self.cache.take(&task.run);
        let is_hit = cached.is_some();
        let known = cached
            .as_ref()
            .map_or(0, |live| live.draft.state().length());
        let (loaded, events) = self.load(&task.run, known).await?;
        let replay = |loaded: &LoadedRun, events: &[Event]| {
            let turn = turn_of(&task.run, started(events));
            self.replay(loaded, events, turn)
        };
        let mut live = match cached {
            Some(mut live) if events.is_empty() => {
                live.begin_again();
                live
            }
            // Somebody else has gone on with it since.
            Some(_) => {
                let (loaded, events) = self.load(&task.run, 0).await?;
                replay(&loaded, &events)?
            }
            None => replay(&loaded, &events)?,
        };
        self.core
            .meter
            .cached(if is_hit { Cached::Hit } else { Cached::Miss });
        live.take(loaded.inbox);
        Ok(live)
    }

    fn replay(
        &self,
        loaded: &LoadedRun,
        events: &[Event],
        turn: Span,
    ) -> Result<Box<Live>, Trouble> {
        let run = &loaded.run;
        let identity = Identity {
            namespace: run.namespace.clone(),
            workflow: run.workflow.clone(),
            run: run.run.clone(),
        };
        let drained = loaded
            .inbox
            .first()
            .map_or(run.inbox_seq, |first| first.seq - 1);
        let mut live = self.follow(identity, &run.name, events, (drained, turn))?;
        if run.fingerprint.is_some() {
            live.unrecorded = None;
        }
        Ok(live)
    }

    /// Takes the code of `name` along `events`, with the messages up to `drained` taken, in a turn of
    /// which the span is `turn`.
    pub(super) fn follow(
        &self,
        identity: Identity,
        name: &TypeName,
        events: &[Event],
        (drained, turn): (u64, Span),
    ) -> Result<Box<Live>, Trouble> {
        let unknown = || Error::invalid(format!("this worker does not know {name}"));
        let function = self.registry.workflow_named(name).ok_or_else(unknown)?;
        let means = (Arc::clone(&self.core.ids), Arc::clone(&self.core.values));
        let at = (drained, self.core.clock.now(), turn);
        let mut live = Live::replay(identity, means, events, &**function, at)?;
        live.unrecorded = self.registry.fingerprint(name).cloned();
        Ok(Box::new(live))
    }

    async fn load(&self, run: &RunId, after: u64) -> Result<(LoadedRun, Vec<Event>)> {
        let mut records: Vec<Record> = Vec::new();
        loop {
            let after = records.last().map_or(after, |record| record.seq);
            let wanted = Load {
                run: run.clone(),
                after,
                limit: PAGE,
            };
            let gone = || Error::corrupt(format!("run {run} has a task and no row"));
            let loaded = self.core.reader.load(wanted).await?;
            let mut run = loaded.ok_or_else(gone)?;
            let page = std::mem::take(&mut run.events);
            let is_last = page.len() < PAGE as usize;
            records.extend(page);
            if is_last {
                let events = records.into_iter().map(Event::from_record);
                return Ok((run, events.collect::<Result<_>>()?));
            }
        }
    }

    /// Goes on with a run under its workflow task until it waits or ends, and commits.
    async fn go_on(
        self: &Arc<Self>,
        mut live: Box<Live>,
        lease: &LeaseGuard<'_>,
    ) -> Result<(), Trouble> {
        let fence = Fence::Task(lease.held.clone());
        loop {
            match self.run_on(&mut live).await? {
                Stand::Waits | Stand::Ended => return self.end_turn(live, fence, lease).await,
                Stand::Works if !live.draft.is_pending() => {
                    self.wait_for_step(&mut live, lease).await?;
                }
                Stand::Works | Stand::WantsCommit => self.commit_part(&mut live, lease).await?,
            }
        }
    }

    /// Goes on with a run from the results of some of its activities, which it has heard: results
    /// and what follows from them are one commit, under the leases of the activities, of which
    /// `activity` is one. What is left to do under the run's workflow task, if it works on.
    ///
    /// # Errors
    /// Those of the commit.
    pub(super) async fn go_on_from<'a>(
        self: &'a Arc<Self>,
        mut live: Box<Live>,
        ended: Vec<Held>,
        activity: &LeaseGuard<'_>,
    ) -> Result<Option<(Box<Live>, LeaseGuard<'a>)>, Trouble> {
        let fence = Fence::Activities(ended);
        match self.run_on(&mut live).await? {
            Stand::Waits | Stand::Ended => {
                self.end_turn(live, fence, activity).await?;
                Ok(None)
            }
            Stand::Works | Stand::WantsCommit => {
                let lease = self.take_task(&mut live, fence, activity).await?;
                Ok(Some((live, lease)))
            }
        }
    }

    /// Goes on with a run under the workflow task that was taken along with results.
    pub(super) async fn work_on(self: &Arc<Self>, live: Box<Live>, lease: &LeaseGuard<'_>) {
        let run = live.draft.identity().run.clone();
        if let Err(trouble) = self.go_on(live, lease).await {
            self.give_up(&run, 1, lease, trouble).await;
        }
    }

    async fn run_on(&self, live: &mut Live) -> Result<Stand, Trouble> {
        let now = self.core.clock.now();
        std::future::poll_fn(|cx| Poll::Ready(live.run_on(cx.waker(), now))).await
    }

    /// Waits until a local step has gone on, a timer is due, or there is news for the run.
    async fn wait_for_step(&self, live: &mut Live, lease: &LeaseGuard<'_>) -> Result<(), Trouble> {
        let (drained, clock) = (live.draft.drained(), &self.core.clock);
        let due = live
            .draft
            .state()
            .next_due()
            .map(|due| due.since(clock.now()));
        let mut news = lease.news.clone();
        let moved = std::future::poll_fn(|cx| match live.run_on(cx.waker(), clock.now()) {
            Ok(Stand::Works) if !live.draft.is_pending() => Poll::Pending,
            other => Poll::Ready(other.map(drop)),
        });
        tokio::select! {
            moved = moved => return moved,
            () = tokio::time::sleep(due.unwrap_or(Duration::MAX)), if due.is_some() => {
                return Ok(());
            }
            changed = news.wait_for(|news| news.is_lost || news.inbox_seq > drained) => {
                if changed.map_or(true, |news| news.is_lost) {
                    return Err(Trouble::Lost);
                }
            }
        }
        let known = live.draft.state().length();
        let (loaded, _) = self.load(&live.draft.identity().run.clone(), known).await?;
        live.take(loaded.inbox);
        Ok(())
    }

    /// Commits what was decided so far, under a task that stays leased.
    async fn commit_part(
        self: &Arc<Self>,
        live: &mut Live,
        lease: &LeaseGuard<'_>,
    ) -> Result<(), Trouble> {
        let held = lease.held.clone();
        let (write, eager) = if live.draft.is_events_only() {
            let (run, records) = (live.draft.identity().run.clone(), live.draft.cut_events()?);
            (Write::Append(Append { held, run, records }), Vec::new())
        } else {
            let mut turn = live.cut(Fence::Task(held), Some(Then::Keep))?;
            let eager = self.lease_eagerly(live, &mut turn);
            (Write::Turn(Box::new(turn)), eager)
        };
        let sent = Instant::now();
        match self.commit_held(write, lease).await? {
            Outcome::Done { .. } => {
                self.begin_eagerly(eager, sent);
                Ok(())
            }
            _ => Err(Trouble::Lost),
        }
    }

    /// Commits the results of activities with what follows from them, and takes the run's workflow
    /// task to go on with a local step.
    async fn take_task<'a>(
        self: &'a Arc<Self>,
        live: &mut Live,
        fence: Fence,
        activity: &LeaseGuard<'_>,
    ) -> Result<LeaseGuard<'a>, Trouble> {
        let (owner, sent) = (self.core.owner(), Instant::now());
        let lease = Lease {
            owner: owner.clone(),
            ttl: self.turn_lease(),
        };
        let mut turn = live.cut(fence, Some(Then::Take(lease)))?;
        let eager = self.lease_eagerly(live, &mut turn);
        let task = TaskId::of(&turn.run, 0);
        match self
            .commit_held(Write::Turn(Box::new(turn)), activity)
            .await?
        {
            Outcome::Taken { epoch, .. } => {
                self.begin_eagerly(eager, sent);
                let until = (sent, self.turn_lease());
                Ok(self.leases.hold((&task, epoch), &owner, until))
            }
            Outcome::Stale => Err(Trouble::Stale),
            _ => Err(Trouble::Lost),
        }
    }

    /// Commits the end of a turn; a run that goes on stays in memory.
    async fn end_turn(
        self: &Arc<Self>,
        mut live: Box<Live>,
        fence: Fence,
        lease: &LeaseGuard<'_>,
    ) -> Result<(), Trouble> {
        let mut turn = live.cut(fence, None)?;
        let eager = self.lease_eagerly(&mut live, &mut turn);
        let (run, closed) = (turn.run.clone(), closed(&turn));
        let sent = Instant::now();
        match self.commit_held(Write::Turn(Box::new(turn)), lease).await? {
            Outcome::Done { .. } => {
                match closed {
                    Some(closed) => self.core.wake.ended(&run, &closed),
                    None => self.cache.put(live.at_rest()),
                }
                self.begin_eagerly(eager, sent);
                Ok(())
            }
            Outcome::Stale => Err(Trouble::Stale),
            _ => Err(Trouble::Lost),
        }
    }

    /// Commits a write that `lease` entitles to, through outages of the database, as long as the
    /// lease may hold.
    pub(super) async fn commit_held(
        &self,
        write: Write,
        lease: &LeaseGuard<'_>,
    ) -> Result<Outcome> {
        tokio::select! {
            biased;
            outcome = self.core.commit_patiently(write) => outcome,
            () = lease.lost() => Ok(Outcome::Lost),
        }
    }
}

fn closed(turn: &Turn) -> Option<Closed> {
    match &turn.then {
        Then::Close(closing) => Some(closing.closed.clone()),
        _ => None,
    }
}
