//! One supervised connection: reconnected by failure, not by the next command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::config::{Address, Config};
use crate::dial::{Dialed, Target, dial};
use crate::signals::{Loss, Purpose, Signal};

/// Unlimited attempts, at most this far apart: a server that is back is found within half a second,
/// so that an outage shorter than a lease's TTL does not cost the lease for want of a connection.
pub(crate) const RECONNECT: Backoff =
    Backoff::new(Duration::from_millis(50), Duration::from_millis(500));

/// A connection that lived this long was healthy, so its successor is dialed without delay.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);

/// The connection that is up now.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    /// Unique in the process, from 1.
    pub(crate) number: u64,
    pub(crate) address: Arc<Address>,
    open: Arc<AtomicBool>,
}

impl Live {
    /// Whether what is sent now can leave at all.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}

enum State {
    Down(Option<Arc<Error>>),
    Up(Live),
}

struct Report {
    number: u64,
    loss: Loss,
}

/// A supervised connection to one target. Clones share it; it closes with the last of them.
#[derive(Clone)]
pub(crate) struct Link {
    state: watch::Receiver<State>,
    reports: mpsc::UnboundedSender<Report>,
    supervisor: Arc<Supervisor>,
}

struct Supervisor {
    task: JoinHandle<()>,
    /// Where it connects to, for people.
    place: String,
    /// Set before the task ends, so that no later call reaches a connection that is still open.
    closed: AtomicBool,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// Starts the supervisor on `runtime`; the first attempt to connect starts at once.
    pub(crate) fn start(
        config: Arc<Config>,
        target: Target,
        purpose: Purpose,
        runtime: &Handle,
    ) -> Self {
        let (publish, state) = watch::channel(State::Down(None));
        let (reports, reported) = mpsc::unbounded_channel();
        let place = match &target {
            Target::Master => config.topology.to_string(),
            Target::Node(address) => address.to_string(),
        };
        let supervisor = runtime.spawn(supervise(config, target, purpose, publish, reported));
        Self {
            state,
            reports,
            supervisor: Arc::new(Supervisor {
                task: supervisor,
                place,
                closed: AtomicBool::new(false),
            }),
        }
    }

    /// The connection, if it is up now.
    pub(crate) fn live(&self) -> Option<Live> {
        match &*self.state.borrow() {
            State::Up(live) if live.is_open() && !self.is_closed() => Some(live.clone()),
            State::Up(_) | State::Down(_) => None,
        }
    }

    /// Waits for the connection to be up; nothing when the link is closed.
    pub(crate) async fn up(&self) -> Option<Live> {
        let mut state = self.state.clone();
        while !self.is_closed() {
            if let State::Up(live) = &*state.borrow_and_update()
                && live.is_open()
            {
                return Some(live.clone());
            }
            state.changed().await.ok()?;
        }
        None
    }

    fn is_closed(&self) -> bool {
        self.supervisor.closed.load(Ordering::Acquire)
    }

    /// Waits for the connection to be up.
    ///
    /// # Errors
    /// `Unavailable` when it is not by `deadline`, with the last attempt's error as the cause;
    /// `Invalid` when that says that no attempt can ever succeed.
    pub(crate) async fn ready(&self, what: &str, deadline: Instant) -> Result<Live> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        match tokio::time::timeout_at(deadline, self.up()).await {
            Ok(Some(live)) => Ok(live),
            Ok(None) => Err(Error::unavailable(format!(
                "{what}: the client is shut down"
            ))),
            Err(_) => Err(self.not_connected(what)),
        }
    }

    /// Ends connection `number`, unless it has been replaced already.
    pub(crate) fn report(&self, number: u64, loss: Loss) {
        _ = self.reports.send(Report { number, loss });
    }

    /// Closes the connection and stops reconnecting.
    pub(crate) fn close(&self) {
        self.supervisor.closed.store(true, Ordering::Release);
        self.supervisor.task.abort();
    }

    /// Why it is down.
    pub(crate) fn not_connected(&self, what: &str) -> Error {
        let place = &self.supervisor.place;
        let message = format!("{what}: not connected to redis at {place} within the deadline");
        match &*self.state.borrow() {
            State::Down(Some(error)) if error.kind() == ErrorKind::Invalid => {
                Error::invalid(message).with_source(Arc::clone(error))
            }
            State::Down(Some(error)) => Error::unavailable(message).with_source(Arc::clone(error)),
            _ => Error::unavailable(message),
        }
    }
}

async fn supervise(
    config: Arc<Config>,
    target: Target,
    purpose: Purpose,
    state: watch::Sender<State>,
    mut reports: mpsc::UnboundedReceiver<Report>,
) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut attempt = 0;
    let mut down_since = None;
    loop {
        match dial(&config, &target, purpose, None).await {
            Ok(mut dialed) => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let live = Live {
                    connection: dialed.connection.clone(),
                    number,
                    address: Arc::new(dialed.address.clone()),
                    open: Arc::clone(&dialed.open),
                };
                if let Some(since) = down_since.take() {
                    let outage_ms = Instant::now().duration_since(since);
                    let address = Detail::new(&dialed.address);
                    Signal::ConnectionRestored {
                        purpose,
                        outage_ms,
                        address,
                    }
                    .emit();
                }
                state.send_replace(State::Up(live));
                let up_since = Instant::now();
                let cause = tend(&config, &mut dialed, number, &mut reports).await;
                state.send_replace(State::Down(None));
                down_since = Some(Instant::now());
                let address = Detail::new(&dialed.address);
                Signal::ConnectionLost {
                    purpose,
                    cause,
                    address,
                }
                .emit();
                attempt = if up_since.elapsed() > HEALTHY_AFTER {
                    0
                } else {
                    attempt + 1
                };
            }
            Err(error) => {
                Signal::ConnectionFailed {
                    purpose,
                    error: Detail::error(&error),
                }
                .emit();
                state.send_replace(State::Down(Some(Arc::new(error))));
                down_since.get_or_insert_with(Instant::now);
                attempt += 1;
            }
        }
        tokio::time::sleep(RECONNECT.jittered(attempt)).await;
    }
}

/// Keeps an open connection until it is lost, and says why it was.
async fn tend(
    config: &Config,
    dialed: &mut Dialed,
    number: u64,
    reports: &mut mpsc::UnboundedReceiver<Report>,
) -> Loss {
    let connection = dialed.connection.clone();
    tokio::select! {
        () = dialed.driver.ended() => Loss::Closed,
        () = silence(connection, config.ping_interval, || {}) => Loss::Silent,
        loss = reported(reports, number) => loss,
    }
}

/// Ends when a health check goes unanswered. Any answer is a sign of life, also a refusal.
pub(crate) async fn silence(
    mut connection: MultiplexedConnection,
    interval: Duration,
    answered: impl Fn(),
) {
    let ping = redis::cmd("PING");
    // A tenth less than an interval, so that within two of them the peer is found silent and another
    // connection is there.
    let patience = interval.mul_f64(0.9);
    loop {
        tokio::time::sleep(interval).await;
        match tokio::time::timeout(patience, connection.send_packed_command(&ping)).await {
            Ok(Err(error)) if error.code().is_none() => return,
            Ok(_) => answered(),
            Err(_) => return,
        }
    }
}

async fn reported(reports: &mut mpsc::UnboundedReceiver<Report>, number: u64) -> Loss {
    loop {
        match reports.recv().await {
            Some(report) if report.number == number => return report.loss,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
