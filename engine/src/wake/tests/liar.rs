//! A backend that lies.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coord_core::Error;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::committer::locked;
use crate::store::Reply;
use crate::wake::{Backend, Ears, Kind};

/// What it does to hints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lie {
    None,
    /// It carries what it is tried with, and nothing else.
    Drops,
    /// It carries everything after a while.
    Delays(Duration),
    /// It carries everything three times.
    Doubles,
    /// It carries each hint before what it tells of is there: all the time, and never after.
    TooEarly,
    /// What nobody reads at once is gone, and nobody reads at once.
    Forgets,
    /// It takes everything and carries nothing.
    Silent,
    /// It takes nothing.
    Refuses,
    /// It never says whether it took something.
    Hangs,
}

/// One end of it.
pub(super) struct Liar {
    bus: broadcast::Sender<String>,
    lie: Arc<Mutex<Lie>>,
    sent: Arc<AtomicUsize>,
    longest: Arc<AtomicUsize>,
    under_way: Mutex<JoinSet<()>>,
}

impl Liar {
    pub(super) fn new(lie: Lie) -> Self {
        Self {
            bus: broadcast::Sender::new(10_000),
            lie: Arc::new(Mutex::new(lie)),
            sent: Arc::default(),
            longest: Arc::default(),
            under_way: Mutex::default(),
        }
    }

    /// The end of another process.
    pub(super) fn another(&self) -> Self {
        Self {
            bus: self.bus.clone(),
            lie: Arc::clone(&self.lie),
            sent: Arc::clone(&self.sent),
            longest: Arc::clone(&self.longest),
            under_way: Mutex::default(),
        }
    }

    pub(super) fn becomes(&self, lie: Lie) {
        *locked(&self.lie) = lie;
    }

    /// How many messages it was given.
    pub(super) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// How long the longest of them was.
    pub(super) fn longest(&self) -> usize {
        self.longest.load(Ordering::SeqCst)
    }
}

impl Backend for Liar {
    fn kind(&self) -> Kind {
        Kind::Other
    }

    fn send<'a>(&'a self, message: &'a str) -> Reply<'a, ()> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        self.longest.fetch_max(message.len(), Ordering::SeqCst);
        let is_trial = message.contains("\n?");
        let lie = *locked(&self.lie);
        let (times, after) = match lie {
            Lie::None => (1, Duration::ZERO),
            Lie::Delays(after) => (1, after),
            Lie::Doubles => (3, Duration::ZERO),
            Lie::Drops | Lie::TooEarly | Lie::Forgets if is_trial => (1, Duration::ZERO),
            Lie::Drops | Lie::TooEarly | Lie::Forgets | Lie::Silent | Lie::Refuses | Lie::Hangs => {
                (0, Duration::ZERO)
            }
        };
        let (bus, message) = (self.bus.clone(), message.to_owned());
        locked(&self.under_way).spawn(async move {
            tokio::time::sleep(after).await;
            for _ in 0..times {
                // Nobody may hear it.
                _ = bus.send(message.clone());
            }
        });
        Box::pin(async move {
            match lie {
                Lie::Refuses => Err(Error::unavailable("lying")),
                Lie::Hangs => std::future::pending().await,
                _ => Ok(()),
            }
        })
    }

    fn listen<'a>(&'a self, ears: &'a Ears) -> Reply<'a, ()> {
        Box::pin(async {
            let mut heard = self.bus.subscribe();
            ears.begun();
            loop {
                let early = tokio::time::sleep(Duration::from_millis(1500));
                tokio::select! {
                    Ok(message) = heard.recv() => { ears.heard(&message); }
                    () = early => match *locked(&self.lie) {
                        Lie::TooEarly => { ears.heard("somebody\nwf:default:default"); }
                        // It has missed some, and says so.
                        Lie::Forgets => ears.begun(),
                        _ => {}
                    }
                }
            }
        })
    }
}
