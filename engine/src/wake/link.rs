//! The link to other processes through one backend: what is to be sent, what is heard, and whether
//! it works.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backend::{Backend, Ears, Kind};
use super::hub::Hub;
use super::{CALM_PROBE, Channel};
use crate::committer::locked;
use crate::signals::Signal;

/// How long hints gather after a message before the next one leaves. The first one leaves at once.
const GATHER: Duration = Duration::from_millis(5);
/// How long a message may take to leave. A backend that hangs for longer would keep all that follow.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it is tried whether messages come back.
const TRY: Duration = CALM_PROBE;
/// More channels than this in one message are all channels.
const MOST: usize = 4096;
/// The longest message: `PostgreSQL` takes less than 8000 bytes.
const LONGEST: usize = 7000;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// What stands for all channels.
const ALL: &str = "*";
/// What begins the line that has to come back.
const TRIAL: char = '?';

/// A link at work. Dropped, it ends.
pub(super) struct Link {
    state: Arc<State>,
    _work: JoinSet<()>,
}

/// What sender and listener share.
pub(super) struct State {
    hub: Arc<Hub>,
    kind: Kind,
    /// Tells messages of this process from those of others.
    origin: String,
    outbox: Mutex<Outbox>,
    /// Up to which filling all has left.
    left: watch::Sender<u64>,
    filled: Notify,
    /// Whether hints pass, and since when.
    standing: Mutex<(Standing, Instant)>,
    /// Why they did not when they last did not.
    cause: Mutex<String>,
    /// A listener has begun, and it is to be tried whether it hears.
    begun: Notify,
    /// The listener hears nothing, and is to begin again.
    deaf: Notify,
}

/// Whether hints pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Nothing has come back yet, and nothing has failed.
    Beginning,
    Healthy,
    Lost,
}

#[derive(Default)]
struct Outbox {
    channels: BTreeSet<Channel>,
    /// How often something was put in.
    filled: u64,
    /// What is to come back, and since when it is awaited.
    trial: Option<(u64, Instant)>,
    is_trial_unsent: bool,
}

impl Link {
    pub(super) fn begin(backend: Arc<dyn Backend>, hub: Arc<Hub>) -> Self {
        let state = Arc::new(State {
            hub,
            kind: backend.kind(),
            origin: format!("{:016x}", rand::random::<u64>()),
            outbox: Mutex::default(),
            left: watch::Sender::new(0),
            filled: Notify::new(),
            standing: Mutex::new((Standing::Beginning, Instant::now())),
            cause: Mutex::default(),
            begun: Notify::new(),
            deaf: Notify::new(),
        });
        let mut work = JoinSet::new();
        work.spawn(send(Arc::clone(&backend), Arc::clone(&state)));
        work.spawn(listen(backend, Arc::clone(&state)));
        work.spawn(try_again(Arc::clone(&state)));
        Self { state, _work: work }
    }

    pub(super) fn send(&self, channels: &[Channel]) {
        if channels.is_empty() {
            return;
        }
        let mut outbox = locked(&self.state.outbox);
        if outbox.channels.len() <= MOST {
            outbox.channels.extend(channels.iter().cloned());
        }
        outbox.filled += 1;
        drop(outbox);
        self.state.filled.notify_one();
    }

    /// Waits until all that was to be sent has left, or could not.
    pub(super) async fn flush(&self) {
        let filled = locked(&self.state.outbox).filled;
        let mut left = self.state.left.subscribe();
        // Its sender is the state that this link has.
        _ = left.wait_for(|left| *left >= filled).await;
    }

    pub(super) fn kind(&self) -> Kind {
        self.state.kind
    }

    pub(super) fn is_healthy(&self) -> bool {
        locked(&self.state.standing).0 == Standing::Healthy
    }

    /// What does not carry hints `now`, for how long, and why.
    pub(super) fn lost_for(&self, now: Instant) -> Option<(Kind, Duration, String)> {
        let lost = self.state.lost_for(now)?;
        Some((self.state.kind, lost, locked(&self.state.cause).clone()))
    }
}

async fn send(backend: Arc<dyn Backend>, state: Arc<State>) {
    loop {
        state.filled.notified().await;
        let filled = locked(&state.outbox).filled;
        for message in state.messages() {
            // What is not sent is lost: it was a hint, and whoever missed it looks by itself.
            let sent = tokio::time::timeout(PATIENCE, backend.send(&message)).await;
            let late = |_| Err(Error::timeout("sending hints: they do not leave"));
            if let Err(error) = sent.unwrap_or_else(late) {
                state.lost(&error);
            }
        }
        state.left.send_replace(filled);
        tokio::time::sleep(GATHER).await;
    }
}

async fn listen(backend: Arc<dyn Backend>, state: Arc<State>) {
    let ears = Ears(Arc::clone(&state));
    let mut failures = 0;
    loop {
        let began = Instant::now();
        let ended = tokio::select! {
            ended = backend.listen(&ears) => ended,
            () = state.deaf.notified() => Ok(()),
        };
        let gone = || Error::unavailable("hearing hints: the connection has ended");
        let error = ended.err().unwrap_or_else(gone);
        state.lost(&error);
        // Who sends finds only that nobody listens.
        state.is_because_of(&error);
        if began.elapsed() > TRY {
            failures = 0;
        }
        tokio::time::sleep(BACKOFF.jittered(failures)).await;
        failures += 1;
    }
}

/// Tries again and again whether a message comes back.
async fn try_again(state: Arc<State>) {
    loop {
        _ = tokio::time::timeout(TRY, state.begun.notified()).await;
        if state.is_overdue() {
            let what = "hearing hints: what was sent did not come back";
            state.lost(&Error::timeout(what));
            state.deaf.notify_one();
        }
        state.begin_trial();
        state.tell_age();
    }
}

impl State {
    pub(super) fn begun(&self) {
        self.hub.ring_all();
        self.begun.notify_one();
    }

    pub(super) fn heard(&self, message: &str) -> bool {
        let mut lines = message.split('\n');
        if lines.next() == Some(self.origin.as_str()) {
            for trial in lines.filter_map(|line| line.strip_prefix(TRIAL)) {
                self.came_back(trial);
            }
            return false;
        }
        let (now, mut is_news) = (Instant::now(), false);
        for line in lines.filter(|line| !line.starts_with(TRIAL)) {
            is_news = true;
            if line == ALL {
                self.hub.ring_all();
            } else {
                self.hub.ring(&Channel(line.into()), now);
            }
        }
        is_news
    }

    /// What is to be sent, in as few messages as it takes.
    fn messages(&self) -> Vec<String> {
        let mut outbox = locked(&self.outbox);
        let channels = std::mem::take(&mut outbox.channels);
        let trial = std::mem::take(&mut outbox.is_trial_unsent);
        let trial = outbox.trial.filter(|_| trial);
        drop(outbox);
        let trial = trial.map(|(number, _)| format!("{TRIAL}{number}"));
        let is_all = channels.len() > MOST;
        let channels: &mut dyn Iterator<Item = String> = if is_all {
            &mut std::iter::once(ALL.to_owned())
        } else {
            &mut channels.into_iter().map(|channel| channel.0.to_string())
        };
        let mut messages: Vec<String> = Vec::new();
        for line in trial.into_iter().chain(channels) {
            match messages.last_mut() {
                Some(last) if last.len() + 1 + line.len() <= LONGEST => {
                    last.push('\n');
                    last.push_str(&line);
                }
                _ => messages.push(format!("{}\n{line}", self.origin)),
            }
        }
        messages
    }

    fn begin_trial(&self) {
        let mut outbox = locked(&self.outbox);
        outbox.trial = Some((rand::random(), Instant::now()));
        outbox.is_trial_unsent = true;
        drop(outbox);
        self.filled.notify_one();
    }

    fn is_overdue(&self) -> bool {
        let outbox = locked(&self.outbox);
        let trial = outbox.trial.as_ref();
        trial.is_some_and(|(_, since)| since.elapsed() >= TRY)
    }

    fn came_back(&self, trial: &str) {
        let mut outbox = locked(&self.outbox);
        let is_ours = |(number, _): &mut (u64, Instant)| number.to_string() == trial;
        let Some((_, since)) = outbox.trial.take_if(is_ours) else {
            return;
        };
        drop(outbox);
        let (backend, elapsed_ms) = (self.kind, since.elapsed());
        Signal::WakeTried {
            backend,
            elapsed_ms,
        }
        .emit();
        if self.becomes(Standing::Healthy) {
            Signal::WakeRestored { backend }.emit();
            self.tell_age();
        }
    }

    /// Whether this is news.
    fn becomes(&self, standing: Standing) -> bool {
        let mut known = locked(&self.standing);
        let is_news = known.0 != standing;
        if is_news {
            *known = (standing, Instant::now());
        }
        is_news
    }

    fn lost_for(&self, now: Instant) -> Option<Duration> {
        let (standing, since) = *locked(&self.standing);
        (standing == Standing::Lost).then(|| now.saturating_duration_since(since))
    }

    /// Says for how long hints have not passed.
    fn tell_age(&self) {
        let lost = self.lost_for(Instant::now()).unwrap_or_default();
        Signal::WakeLostAge {
            backend: self.kind,
            age_s: lost.as_secs(),
        }
        .emit();
    }

    fn is_because_of(&self, error: &Error) {
        error.message().clone_into(&mut *locked(&self.cause));
    }

    /// Hints do not pass. Who relied on them looks now, and more often from now on.
    fn lost(&self, error: &Error) {
        if self.becomes(Standing::Lost) {
            self.is_because_of(error);
            Signal::WakeLost {
                backend: self.kind,
                error: Detail::error(error),
            }
            .emit();
            self.hub.ring_all();
        }
    }
}
