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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(epoch: u64, sequence: u64) -> Position {
        Position { epoch, sequence }
    }

    fn known(epoch: u64, from: u64, to: u64, cause: Cause) -> Hole {
        let span = Span { epoch, from, to };
        Hole::Known { span, cause }
    }

    #[test]
    fn messages_that_were_published_during_the_subscription_are_no_gap() {
        let mut track = Track::fresh(Some(at(1, 7)));

        for sequence in 6..=9 {
            let judged = track.message(at(1, sequence));
            assert!(judged.hole.is_none() && judged.wanted, "{sequence}");
        }
    }

    #[test]
    fn one_who_resumes_has_those_already() {
        let (mut track, hole) = Track::resumed(at(1, 4), Some(at(1, 7)));

        assert_eq!(hole, Some(known(1, 5, 7, Cause::Interrupted)));
        assert!(!track.message(at(1, 6)).wanted);
        assert!(!track.message(at(1, 7)).wanted);
        let judged = track.message(at(1, 8));
        assert!(judged.hole.is_none() && judged.wanted);
    }

    #[test]
    fn after_an_interruption_a_position_that_was_read_first_and_one_read_last_say_the_same() {
        for message_first in [true, false] {
            let mut track = Track::fresh(Some(at(1, 3)));
            track.interrupted(MS);

            let hole = if message_first {
                let judged = track.message(at(1, 6));
                assert_eq!(track.checked(Some(at(1, 6))), None);
                judged.hole
            } else {
                let hole = track.checked(Some(at(1, 5))).map(|(hole, _)| hole);
                assert_eq!(track.message(at(1, 6)).hole, None);
                hole
            };

            assert_eq!(hole, Some(known(1, 4, 5, Cause::Interrupted)));
        }
    }

    #[test]
    fn what_the_server_forgot_is_of_unknown_size_for_whoever_was_away_only() {
        let forgotten = |span| Hole::Unknown {
            span,
            doubt: Doubt::NewEpoch,
        };
        let mut there = Track::fresh(Some(at(1, 3)));
        assert_eq!(there.message(at(2, 1)).hole, None);

        let mut away = Track::fresh(Some(at(1, 3)));
        away.interrupted(MS);
        assert_eq!(away.message(at(2, 1)).hole, Some(forgotten(None)));

        let mut away = Track::fresh(Some(at(1, 3)));
        away.interrupted(MS);
        assert_eq!(away.checked(None), Some((forgotten(None), MS)));
        assert_eq!(away.message(at(2, 1)).hole, None);

        let mut late = Track::fresh(Some(at(1, 3)));
        let span = Span::new(2, 1, 4);
        assert_eq!(late.message(at(2, 5)).hole, Some(forgotten(span)));
    }

    #[derive(Debug, Clone)]
    enum Event {
        Heard,
        /// So many were published meanwhile; one more is heard before the position is read.
        Away(u64, bool),
        Lagged(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => Just(Event::Heard),
            2 => (0..5_u64, any::<bool>()).prop_map(|(count, heard)| Event::Away(count, heard)),
            1 => (1..5_u64).prop_map(Event::Lagged),
        ]
    }

    proptest! {
        /// Every sequence is heard, or told as missed, once and in order.
        #[test]
        fn every_message_is_accounted_for(start in 0..3_u64, events in prop::collection::vec(event(), 0..40)) {
            let found = (start > 0).then(|| at(1, start));
            let mut track = Track::fresh(found);
            // What was published, and up to where the subscriber knows.
            let (mut sent, mut reached) = (start, start);
            let account = |hole: Option<Hole>, reached: &mut u64| match hole {
                None => Ok(()),
                Some(Hole::Known { span, .. }) => {
                    prop_assert_eq!(span.from, *reached + 1);
                    *reached = span.to;
                    Ok(())
                }
                other => Err(TestCaseError::fail(format!("{other:?}"))),
            };
            for event in events {
                let (missed, is_heard) = match event {
                    Event::Heard => (0, true),
                    Event::Away(missed, is_heard) => {
                        track.interrupted(MS);
                        (missed, is_heard)
                    }
                    Event::Lagged(missed) => {
                        track.lagged(missed);
                        (missed, true)
                    }
                };
                sent += missed;
                if is_heard {
                    sent += 1;
                    let judged = track.message(at(1, sent));
                    prop_assert!(judged.wanted);
                    account(judged.hole, &mut reached)?;
                    prop_assert_eq!(reached + 1, sent);
                    reached = sent;
                }
                let found = (sent > 0).then(|| at(1, sent));
                account(track.checked(found).map(|(hole, _)| hole), &mut reached)?;
                prop_assert_eq!(reached, sent);
            }
        }
    }
}
