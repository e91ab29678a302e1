//! What this process does, counted where it happens: as signals for its own metrics, and for the
//! last minute as figures that it writes beside its heartbeat, so that any process can show what all
//! of them do.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coord_core::ErrorKind;
use coord_core::signals::BUCKETS;
use tokio::time::Instant;

use crate::committer::locked;
use crate::model::{Closed, TaskKind};
use crate::operator::{Connections, Counters, Counts, Figures, Quantiles};
use crate::signals::{Cached, Ended, Found, How, ProbedBy, Signal, Use};
use crate::store::{Claimed, Fence, Outcome, PutBackHow, Then, Turn, Write};

/// Over how long figures are.
const SPAN: Duration = Duration::from_mins(1);

pub(crate) struct Meter {
    counters: Counters,
    pickup: Spans,
    calls: Spans,
    commits: Spans,
    /// What was counted at the heartbeats of the last minute, and at the last one before it.
    marks: Mutex<VecDeque<(Instant, Mark)>>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            counters: Counters::default(),
            pickup: Spans::default(),
            calls: Spans::default(),
            commits: Spans::default(),
            marks: Mutex::new(VecDeque::from([(Instant::now(), Mark::default())])),
        }
    }
}

/// How many spans ended within each of [`BUCKETS`], and beyond them.
#[derive(Default)]
struct Spans([AtomicU64; BUCKETS.len() + 1]);

type Buckets = [u64; BUCKETS.len() + 1];

#[derive(Clone, Copy, Default)]
struct Mark {
    counts: Counts,
    pickup: Buckets,
    calls: Buckets,
    commits: Buckets,
}

impl Spans {
    fn add(&self, span: Duration) {
        let seconds = span.as_secs_f64();
        let place = BUCKETS.partition_point(|bound| *bound < seconds);
        self.0[place].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Buckets {
        std::array::from_fn(|place| self.0[place].load(Ordering::Relaxed))
    }
}

fn quantiles(now: &Buckets, before: &Buckets) -> Quantiles {
    let counts: Buckets = std::array::from_fn(|place| now[place] - before[place]);
    let count: u64 = counts.iter().sum();
    let until = |part: u64| {
        // The bound below which `part` of a hundred are, rounded up.
        let wanted = (count * part).div_ceil(100);
        let mut seen = 0;
        let place = counts.iter().position(|here| {
            seen += here;
            seen >= wanted && seen > 0
        });
        let place = place.unwrap_or(0).min(BUCKETS.len() - 1);
        if count == 0 {
            return 0;
        }
        Duration::from_secs_f64(BUCKETS[place])
            .as_millis()
            .try_into()
            .unwrap_or(u64::MAX)
    };
    Quantiles {
        count,
        p50_ms: until(50),
        p99_ms: until(99),
    }
}

impl Meter {
    /// A call of the database ended, as `error` says if it failed.
    pub(crate) fn called(&self, elapsed: Duration, error: Option<ErrorKind>) {
        self.calls.add(elapsed);
        // What can never succeed is the caller's business.
        if error.is_some_and(|kind| kind != ErrorKind::Invalid) {
            add(&self.counters.calls_failed, 1);
        }
    }

    pub(crate) fn looked(&self, by: ProbedBy, found: Found) {
        let counters = &self.counters;
        let (looks, with_work) = match by {
            ProbedBy::Hint => (&counters.looks_by_hint, &counters.looks_by_hint_with_work),
            ProbedBy::Handed => (&counters.looks_by_hand, &counters.looks_by_hand_with_work),
            ProbedBy::Due => (&counters.looks_by_due, &counters.looks_by_due_with_work),
            ProbedBy::Time => (&counters.looks_by_time, &counters.looks_by_time_with_work),
        };
        add(looks, 1);
        if found == Found::Work {
            add(with_work, 1);
        }
        Signal::Probe { by, found }.emit();
    }

    /// What a look has got.
    pub(crate) fn claimed(&self, claimed: &Claimed) {
        for kind in [TaskKind::Workflow, TaskKind::Activity] {
            let ours = claimed.tasks.iter().filter(|task| task.task.kind == kind);
            let mut tasks = 0;
            for task in ours {
                tasks += 1;
                let waited_ms = claimed.now.since(task.due_at);
                self.pickup.add(waited_ms);
                Signal::PickedUp { kind, waited_ms }.emit();
            }
            if tasks > 0 {
                let counter = match kind {
                    TaskKind::Workflow => &self.counters.workflow_tasks_claimed,
                    TaskKind::Activity => &self.counters.activity_tasks_claimed,
                };
                add(counter, tasks);
                let how = How::Polled;
                Signal::TasksClaimed { kind, how, tasks }.emit();
            }
        }
    }

    pub(crate) fn cached(&self, cached: Cached) {
        add(
            match cached {
                Cached::Hit => &self.counters.run_cache_hits,
                Cached::Miss => &self.counters.run_cache_misses,
            },
            1,
        );
        Signal::RunRead { cached }.emit();
    }

    /// Tasks were taken back for all.
    pub(crate) fn recovered(&self, tasks: u64) {
        add(&self.counters.tasks_recovered, tasks);
    }

    /// A transaction of the committer happened.
    pub(crate) fn committed(&self, elapsed_ms: Duration, writes: &[Write], outcomes: &[Outcome]) {
        self.commits.add(elapsed_ms);
        Signal::Commit { elapsed_ms }.emit();
        let mut sum = Sum::default();
        for (write, outcome) in writes.iter().zip(outcomes) {
            sum.add(write, outcome);
        }
        sum.tell(&self.counters);
    }

    /// The figures of the last minute, as they are at a heartbeat.
    pub(crate) fn beat(&self, connections: Option<Connections>) -> Figures {
        let now = Instant::now();
        let mark = Mark {
            counts: self.counters.read(),
            pickup: self.pickup.read(),
            calls: self.calls.read(),
            commits: self.commits.read(),
        };
        let mut marks = locked(&self.marks);
        marks.push_back((now, mark));
        while marks.get(1).is_some_and(|(at, _)| now - *at >= SPAN) {
            marks.pop_front();
        }
        let (since, before) = marks.front().copied().unwrap_or((now, mark));
        drop(marks);
        if let Some(connections) = connections {
            show(connections);
        }
        let span_ms = u64::try_from((now - since).as_millis()).unwrap_or(u64::MAX);
        Figures {
            span_ms,
            pickup: quantiles(&mark.pickup, &before.pickup),
            calls: quantiles(&mark.calls, &before.calls),
            commits: quantiles(&mark.commits, &before.commits),
            connections: connections.unwrap_or_default(),
            ..mark.counts.since(&before.counts)
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn show(connections: Connections) {
    let Connections { open, idle, .. } = connections;
    for (state, connections) in [(Use::Busy, open.saturating_sub(idle)), (Use::Idle, idle)] {
        let connections = u64::from(connections);
        Signal::Connections { state, connections }.emit();
    }
}

/// What a transaction has come to.
#[derive(Default)]
struct Sum {
    starts: u64,
    closed: Vec<(Ended, u64)>,
    turns: u64,
    activities: u64,
    failed: u64,
    along: [u64; 2],
    added: u64,
    lost: u64,
}

impl Sum {
    fn add(&mut self, write: &Write, outcome: &Outcome) {
        if *outcome == Outcome::Lost {
            self.lost += 1;
            return;
        }
        let is_done = matches!(outcome, Outcome::Done { .. } | Outcome::Taken { .. });
        match write {
            Write::Start(start) => {
                if let Outcome::Started { created: true, .. } = outcome {
                    self.starts += 1;
                    self.note(TaskKind::Workflow, start.lease.is_some());
                }
            }
            Write::Turn(turn) if is_done => self.turn(turn),
            Write::Settle(_) if is_done => self.activities += 1,
            Write::PutBack(put_back) if is_done => {
                self.failed += u64::from(matches!(put_back.how, PutBackHow::Retry { .. }));
            }
            Write::Terminate(_) if is_done => self.close(Ended::Terminated),
            _ => {}
        }
    }

    fn turn(&mut self, turn: &Turn) {
        if let Fence::Activities(held) = &turn.fence {
            self.activities += held.len() as u64;
        }
        for activity in &turn.activities {
            self.note(TaskKind::Activity, activity.lease.is_some());
        }
        match &turn.then {
            Then::Wait { .. } => self.turns += 1,
            Then::Close(closing) => {
                self.turns += 1;
                self.close(Ended::of(&closing.closed));
            }
            Then::Keep | Then::Take(_) => {}
        }
    }

    fn note(&mut self, kind: TaskKind, is_leased: bool) {
        if is_leased {
            self.along[usize::from(kind == TaskKind::Activity)] += 1;
        } else {
            self.added += 1;
        }
    }

    fn close(&mut self, how: Ended) {
        match self.closed.iter_mut().find(|(known, _)| *known == how) {
            Some((_, runs)) => *runs += 1,
            None => self.closed.push((how, 1)),
        }
    }

    fn tell(self, counters: &Counters) {
        let done = [
            (TaskKind::Workflow, self.turns),
            (TaskKind::Activity, self.activities),
        ];
        for (kind, tasks) in done.into_iter().filter(|(_, tasks)| *tasks > 0) {
            Signal::TasksDone { kind, tasks }.emit();
        }
        let along = [TaskKind::Workflow, TaskKind::Activity]
            .into_iter()
            .zip(self.along);
        for (kind, tasks) in along.filter(|(_, tasks)| *tasks > 0) {
            let how = How::TakenAlong;
            Signal::TasksClaimed { kind, how, tasks }.emit();
        }
        if self.starts > 0 {
            Signal::RunsStarted { runs: self.starts }.emit();
        }
        let closed = self.closed.iter().map(|(_, runs)| runs).sum();
        for (how, runs) in self.closed {
            Signal::RunsClosed { how, runs }.emit();
        }
        add(&counters.workflow_tasks_done, self.turns);
        add(&counters.activity_tasks_done, self.activities);
        add(&counters.attempts_failed, self.failed);
        add(&counters.tasks_taken_along, self.along.iter().sum());
        add(&counters.tasks_added, self.added);
        add(&counters.runs_started, self.starts);
        add(&counters.runs_closed, closed);
        add(&counters.writes_lost, self.lost);
    }
}

impl Ended {
    const fn of(closed: &Closed) -> Self {
        match closed {
            Closed::Completed(_) => Self::Completed,
            Closed::Failed(_) => Self::Failed,
            Closed::Cancelled(_) => Self::Cancelled,
            Closed::Terminated(_) => Self::Terminated,
            Closed::TimedOut(_) => Self::TimedOut,
            Closed::ContinuedAsNew(_) => Self::ContinuedAsNew,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn figures_are_those_of_the_last_minute() {
        let meter = Meter::default();
        meter.beat(None);
        meter.called(MS, None);
        tokio::time::advance(30 * 1000 * MS).await;

        let half = meter.beat(None);
        tokio::time::advance(60 * 1000 * MS).await;
        meter.called(MS, Some(ErrorKind::Unavailable));
        let later = meter.beat(None);

        assert_eq!((half.span_ms, half.calls.count), (30_000, 1));
        // The first call is longer ago by now.
        assert_eq!((later.calls.count, later.calls_failed), (1, 1));
        assert_eq!(later.span_ms, 60_000);
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let spans = Spans::default();
        for _ in 0..98 {
            spans.add(3 * MS);
        }
        spans.add(80 * MS);
        spans.add(Duration::from_hours(1));

        let all = quantiles(&spans.read(), &Buckets::default());

        assert_eq!((all.count, all.p50_ms, all.p99_ms), (100, 5, 100));
        assert_eq!(
            quantiles(&spans.read(), &spans.read()),
            Quantiles::default()
        );
    }
}
