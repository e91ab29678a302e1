//! What a subscriber has missed, judged from positions alone.

use std::time::Duration;

use crate::position::Position;
use crate::signals::{Cause, Doubt};

/// How far a subscriber is in its topic.
#[derive(Debug)]
pub(crate) struct Track {
    /// The last message it was given or told of; nothing while none was ever published.
    last: Option<Position>,
    start: Start,
    /// For how long it was interrupted, until it is known what it missed by that.
    interrupted: Option<Duration>,
    /// How much it was too slow for, until it is known how many messages that were.
    lagged: Option<u64>,
}

/// What the first messages may be, which were published while it subscribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At or below `last`, which was read after them.
    Fresh,
    /// The same; and it has them already.
    Covered,
    /// It has begun.
    Past,
}

/// Messages of one epoch, from one sequence to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) epoch: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Span {
    fn new(epoch: u64, from: u64, to: u64) -> Option<Self> {
        (from <= to).then_some(Self { epoch, from, to })
    }
}

/// What was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hole {
    /// All of these.
    Known { span: Span, cause: Cause },
    /// An unknown number, and these.
    Unknown { span: Option<Span>, doubt: Doubt },
    /// This many, of those that were published while it subscribed.
    Lagged(u64),
}

/// What a message means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// What was missed before it.
    pub(crate) hole: Option<Hole>,
    /// For how long the subscription was interrupted before it.
    pub(crate) lasted: Duration,
    /// Whether the subscriber is to have it.
    pub(crate) wanted: bool,
}

impl Track {
    /// A subscriber that begins with what is published from now on; `found` was the last position
    /// at a moment after its subscription was confirmed.
    pub(crate) fn fresh(found: Option<Position>) -> Self {
        Self {
            last: found,
            start: Start::Fresh,
            interrupted: None,
            lagged: None,
        }
    }

    /// A subscriber that has everything up to `known`, and what it has missed since.
    pub(crate) fn resumed(known: Position, found: Option<Position>) -> (Self, Option<Hole>) {
        let mut track = Self::fresh(Some(known));
        let hole = track.compare(found, Cause::Interrupted);
        track.start = Start::Covered;
        (track, hole)
    }

    /// The subscription was interrupted for so long, and is confirmed again.
    pub(crate) fn interrupted(&mut self, lasted: Duration) {
        self.start = Start::Past;
        *self.interrupted.get_or_insert_default() += lasted;
    }

    /// So many events were dropped.
    pub(crate) fn lagged(&mut self, count: u64) {
        *self.lagged.get_or_insert_default() += count;
    }

    /// A message has come.
    pub(crate) fn message(&mut self, at: Position) -> Judged {
        let behind = self
            .last
            .is_some_and(|last| last.epoch == at.epoch && at.sequence <= last.sequence);
        if behind && self.start == Start::Covered {
            return Judged {
                hole: None,
                lasted: Duration::ZERO,
                wanted: false,
            };
        }
        let hole = match (self.last, self.lagged) {
            _ if behind && self.start == Start::Fresh => self.lagged.map(Hole::Lagged),
            (Some(last), _) if behind => {
                debug_assert_eq!(last.epoch, at.epoch);
                let (span, doubt) = (None, Doubt::WentBack);
                Some(Hole::Unknown { span, doubt })
            }
            (Some(last), None)
                if last.epoch != at.epoch && at.sequence == 1 && self.interrupted.is_none() =>
            {
                // Nothing was missed: the first message of an epoch follows the last one of
                // another, as when the topic was idle for its whole life.
                None
            }
            _ => self.beyond(at.epoch, at.sequence - 1, self.cause()),
        };
        self.last = Some(at);
        self.start = Start::Past;
        self.lagged = None;
        Judged {
            hole,
            lasted: self.interrupted.take().unwrap_or_default(),
            wanted: true,
        }
    }

    /// The position was read after an interruption, and no message is on its way that was
    /// published before. Gives what was missed and for how long the interruption lasted.
    pub(crate) fn checked(&mut self, found: Option<Position>) -> Option<(Hole, Duration)> {
        // Without one, a message that came meanwhile has settled it.
        let lasted = self.interrupted?;
        let hole = self.compare(found, self.cause());
        self.interrupted = None;
        hole.map(|hole| (hole, lasted))
    }

    /// Goes on at `found`; gives what is between the last message and that.
    fn compare(&mut self, found: Option<Position>, cause: Cause) -> Option<Hole> {
        let unknown = |doubt| Some(Hole::Unknown { span: None, doubt });
        let hole = match (self.last, found) {
            (None, None) => None,
            (Some(_), None) => unknown(Doubt::NewEpoch),
            (Some(last), Some(found))
                if last.epoch == found.epoch && found.sequence < last.sequence =>
            {
                unknown(Doubt::WentBack)
            }
            (_, Some(found)) => self.beyond(found.epoch, found.sequence, cause),
        };
        self.last = found;
        hole
    }

    /// What is missing after the last message up to and with `to` of `epoch`.
    fn beyond(&self, epoch: u64, to: u64, cause: Cause) -> Option<Hole> {
        match self.last {
            Some(last) if last.epoch != epoch => Some(Hole::Unknown {
                span: Span::new(epoch, 1, to),
                doubt: Doubt::NewEpoch,
            }),
            last => {
                let from = last.map_or(1, |last| last.sequence + 1);
                let span = Span::new(epoch, from, to)?;
                Some(Hole::Known { span, cause })
            }
        }
    }

    fn cause(&self) -> Cause {
        match (self.interrupted, self.lagged) {
            (Some(_), _) => Cause::Interrupted,
            (None, Some(_)) => Cause::Lagged,
            (None, None) => Cause::Undelivered,
        }
    }
}
