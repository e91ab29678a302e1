//! One channel or pattern with its subscribers.

use std::sync::Arc;

use coord_core::{Channel, Error, Result};
use tokio::sync::{broadcast, oneshot, watch};
use tokio::time::Instant;

use crate::command::{Command, Reply};
use crate::signals::{Interruption, Signal};
use crate::subscriber::{BUFFERED, Event};

/// Confirms a subscription, or says why it cannot be.
type Confirm = oneshot::Sender<Result<Joined>>;

/// A confirmed subscription.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) events: broadcast::Receiver<Event>,
    /// What its check found; nothing where there is none.
    pub(crate) found: Reply,
    /// Whether it receives.
    pub(crate) receiving: watch::Receiver<bool>,
}

/// Whether a subscription is to a channel or to all that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Pattern,
}

/// What a new subscriber asks for.
pub(crate) struct Join {
    pub(crate) kind: Kind,
    /// Is run after each confirmation by the server.
    pub(crate) check: Option<Arc<Command>>,
    pub(crate) confirm: Confirm,
}

/// A subscriber that is not confirmed yet.
struct Waiting {
    confirm: Confirm,
    /// From when the server confirmed.
    events: Option<broadcast::Receiver<Event>>,
    /// The first check that is of use: an earlier one may have looked before `events` began.
    round: u64,
}

/// What there is to do at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// Run the check, as this round.
    Check(u64),
    /// Nobody wants it any more.
    Leave,
}

/// One channel or pattern with its subscribers.
pub(crate) struct Topic {
    pub(crate) kind: Kind,
    pub(crate) check: Option<Arc<Command>>,
    /// One, but for a channel that two nodes had for a moment while it moved.
    events: Vec<broadcast::Sender<Event>>,
    /// Whether the server has confirmed it on the connection that is open; beside the first, those
    /// that another node had.
    receiving: Vec<watch::Sender<bool>>,
    unconfirmed: Vec<Waiting>,
    /// When it was last known to receive, if it does not now but once did.
    silent_since: Option<Instant>,
    rounds: u64,
    /// The check that closes the last interruption.
    resuming: Option<u64>,
}

impl Topic {
    pub(crate) fn new(join: Join) -> Self {
        let mut topic = Self {
            kind: join.kind,
            check: None,
            events: vec![broadcast::Sender::new(BUFFERED)],
            receiving: vec![watch::Sender::new(false)],
            unconfirmed: Vec::new(),
            silent_since: None,
            rounds: 0,
            resuming: None,
        };
        topic.join(join);
        topic
    }

    /// Takes a subscriber on.
    pub(crate) fn join(&mut self, join: Join) -> Next {
        self.check = self.check.take().or(join.check);
        self.unconfirmed.push(Waiting {
            confirm: join.confirm,
            events: None,
            round: 0,
        });
        if self.is_receiving() {
            self.admit()
        } else {
            Next::Nothing
        }
    }

    /// Whether somebody still receives or waits to.
    pub(crate) fn is_wanted(&self) -> bool {
        let receivers: usize = self
            .events
            .iter()
            .map(broadcast::Sender::receiver_count)
            .sum();
        let ours = self.unconfirmed.iter().filter(|one| one.events.is_some());
        receivers > ours.count() || self.unconfirmed.iter().any(|one| !one.confirm.is_closed())
    }

    /// The server has confirmed it.
    pub(crate) fn confirmed(&mut self, channel: &Channel) -> Next {
        self.set_receiving(true);
        let resumed = self.silent_since.take();
        if let Some(since) = resumed {
            let gap_ms = since.elapsed();
            self.send(&Event::Gap(gap_ms));
            Signal::SubscriptionResubscribed {
                gap_ms,
                channel: channel.clone(),
            }
            .emit();
            self.resuming = self.check.as_ref().map(|_| self.rounds + 1);
        }
        self.admit()
    }

    /// Lets those in who wait: at once, or after a check.
    fn admit(&mut self) -> Next {
        let Some(events) = self.events.first() else {
            return Next::Nothing;
        };
        for waiting in self
            .unconfirmed
            .iter_mut()
            .filter(|one| one.events.is_none())
        {
            waiting.events = Some(events.subscribe());
            waiting.round = self.rounds + 1;
        }
        if self.check.is_none() {
            return self.checked(0, &Ok(Reply::Nil), true);
        }
        self.rounds += 1;
        Next::Check(self.rounds)
    }

    /// The check of `round` has found something, and everything that was published before it
    /// looked has been received.
    pub(crate) fn looked(&mut self, round: u64, found: &Result<Reply>) -> Next {
        self.checked(round, found, false)
    }

    fn checked(&mut self, round: u64, found: &Result<Reply>, all: bool) -> Next {
        let reply = found.as_ref().map_or(Reply::Nil, Clone::clone);
        if self.resuming.is_some_and(|resuming| resuming <= round) {
            self.resuming = None;
            // Whatever is there that cannot be read is as good as nothing.
            self.send(&Event::Checked(reply.clone()));
        }
        let failed = || {
            let error = found.as_ref().err()?;
            Some(Error::new(error.kind(), error.message().to_owned()))
        };
        let receiving = self.receiving.first().map(watch::Sender::subscribe);
        for waiting in std::mem::take(&mut self.unconfirmed) {
            match (waiting.events, &receiving) {
                (Some(events), Some(receiving)) if all || waiting.round <= round => {
                    let joined = Joined {
                        events,
                        found: reply.clone(),
                        receiving: receiving.clone(),
                    };
                    _ = waiting.confirm.send(failed().map_or(Ok(joined), Err));
                }
                (events, _) => self.unconfirmed.push(Waiting { events, ..waiting }),
            }
        }
        if self.is_wanted() {
            Next::Nothing
        } else {
            Next::Leave
        }
    }

    pub(crate) fn interrupted(&mut self, channel: &Channel, cause: Interruption, heard: Instant) {
        if self.end(heard) {
            Signal::SubscriptionDropped {
                cause,
                channel: channel.clone(),
            }
            .emit();
        }
    }

    /// Nothing is received any more, as it was asked for or not. Whether anything was.
    pub(crate) fn end(&mut self, heard: Instant) -> bool {
        let was_receiving = self.is_receiving();
        if was_receiving {
            self.set_receiving(false);
            self.silent_since = Some(heard);
            for waiting in &mut self.unconfirmed {
                waiting.events = None;
            }
        }
        was_receiving
    }

    /// Takes over the subscribers of the same channel at another node.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.unconfirmed.extend(other.unconfirmed);
        let events = other.events.into_iter();
        self.events
            .extend(events.filter(|events| events.receiver_count() > 0));
        let receiving = other.receiving.into_iter();
        self.receiving
            .extend(receiving.filter(|receiving| receiving.receiver_count() > 0));
        self.set_receiving(self.is_receiving());
        self.silent_since = self.silent_since.or(other.silent_since);
        self.check = self.check.take().or(other.check);
    }

    /// Turns all away that wait.
    pub(crate) fn reject(self, error: impl Fn() -> Error) {
        for waiting in self.unconfirmed {
            _ = waiting.confirm.send(Err(error()));
        }
    }

    /// Whether the server has confirmed it on the connection that is open.
    pub(crate) fn is_receiving(&self) -> bool {
        let receiving = self.receiving.first();
        receiving.is_some_and(|receiving| *receiving.borrow())
    }

    /// Shows whether it receives to those who watch that.
    fn set_receiving(&self, is_receiving: bool) {
        for receiving in &self.receiving {
            receiving.send_replace(is_receiving);
        }
    }

    /// Tells all who receive. Without a receiver there is nobody to tell.
    pub(crate) fn send(&self, event: &Event) {
        for events in &self.events {
            _ = events.send(event.clone());
        }
    }
}
