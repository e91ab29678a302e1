//! Receiving: messages in order, and what was missed in its place.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Name, Result};
use coord_redis::{Following, Heard, Redis};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::frame::Frame;
use crate::position::Position;
use crate::received::{Gap, Message, Received};
use crate::replay::{Read, Replay};
use crate::signals::{Cause, Doubt, Signal, Way};
use crate::tally::Tally;
use crate::topic::{KIND, Place, Topic};
use crate::track::{Hole, Span, Track};

/// A subscription to one topic, or to all whose names begin alike.
///
/// Dropping it unsubscribes; the process leaves the topic with the last of its subscriptions.
#[derive(Debug)]
pub struct Subscription<T> {
    redis: Redis,
    following: Following,
    source: Source,
    /// What this subscriber's own publisher sends is left out.
    left_out: Option<u64>,
    /// Who publishes beside this subscriber.
    origin: u64,
    /// To be given out before all else.
    ready: VecDeque<Received<T>>,
    replay: Option<Replay>,
    /// The message that showed what was missed before it.
    held: Option<(Arc<[u8]>, Frame)>,
    tally: Tally,
}

#[derive(Debug)]
enum Source {
    Topic {
        name: Name,
        place: Place,
        replays: bool,
        track: Track,
    },
    Pattern,
}

impl<T: DeserializeOwned> Subscription<T> {
    pub(crate) async fn begin(
        redis: &Redis,
        topic: &Topic<T>,
        from: Option<Position>,
        origin: u64,
    ) -> Result<Self> {
        let place = topic.place(redis);
        let check = coord_redis::Command::new("GET").key(&place.position);
        let following = redis.follow(&place.channel, check.idempotent()).await?;
        let found = Position::stored(following.found())?;
        let (track, hole) = match from {
            None => (Track::fresh(found), None),
            Some(known) => Track::resumed(known, found),
        };
        let source = Source::Topic {
            name: topic.name().clone(),
            place,
            replays: topic.kept().is_some(),
            track,
        };
        let mut subscription = Self::new(redis, following, source, origin);
        if let Some(hole) = hole {
            subscription.missed(hole, Duration::ZERO);
        }
        Ok(subscription)
    }

    pub(crate) fn matching(redis: &Redis, following: Following, origin: u64) -> Self {
        Self::new(redis, following, Source::Pattern, origin)
    }

    fn new(redis: &Redis, following: Following, source: Source, origin: u64) -> Self {
        Self {
            redis: redis.clone(),
            tally: Tally::new(following.channel()),
            following,
            source,
            left_out: None,
            origin,
            ready: VecDeque::new(),
            replay: None,
            held: None,
        }
    }

    /// Leaves out what the [`Broadcast`](crate::Broadcast) that made this subscription, or a clone
    /// of it, publishes.
    #[must_use]
    pub fn without_echo(mut self) -> Self {
        self.left_out = Some(self.origin);
        self
    }

    /// Whether messages come now, for who shows that to operators: false from an interruption until
    /// the server has confirmed the subscription again. It ends with the client.
    pub fn receiving(&self) -> watch::Receiver<bool> {
        self.following.receiving()
    }

    /// The next message, or what was missed before it; `None` once the client is shut down.
    ///
    /// Messages of a topic come in the order of their sequence, each at most once. What was missed
    /// is told, or replayed where the topic has a log, before the first message after it, and also
    /// when none follows. An interruption in which nothing was published is not told.
    ///
    /// A message that is none of ours, or of another version, is skipped with the signal
    /// `redis.broadcast.skipped`.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn next(&mut self) -> Option<Received<T>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.replay.is_some() {
                self.read_on().await;
            } else if let Some((message, frame)) = self.held.take() {
                if let Some(received) = self.opened(message, frame, None, Way::Live) {
                    return Some(received);
                }
            } else {
                match self.hear().await? {
                    Heard::Message { channel, message } => {
                        if let Some(received) = self.heard(channel.as_deref(), message) {
                            return Some(received);
                        }
                    }
                    Heard::Interrupted(lasted) => self.interrupted(lasted),
                    Heard::Checked(reply) => {
                        if let Source::Topic { track, .. } = &mut self.source
                            // What is no position is as good as none.
                            && let Some((hole, lasted)) =
                                track.checked(Position::stored(&reply).unwrap_or_default())
                        {
                            self.missed(hole, lasted);
                        }
                    }
                    Heard::Lagged(count) => match &mut self.source {
                        Source::Topic { track, .. } => track.lagged(count),
                        Source::Pattern => self.missed(Hole::Lagged(count), Duration::ZERO),
                    },
                }
            }
        }
    }

    fn interrupted(&mut self, lasted: Duration) {
        match &mut self.source {
            Source::Topic { track, .. } => track.interrupted(lasted),
            // There may have been messages of topics that nobody here has heard of.
            Source::Pattern => {
                let (span, doubt) = (None, Doubt::Pattern);
                self.missed(Hole::Unknown { span, doubt }, lasted);
            }
        }
    }

    /// The next thing heard. Before it waits, it tells of the messages that were given out.
    async fn hear(&mut self) -> Option<Heard> {
        let (tally, hearing) = (&mut self.tally, self.following.next());
        let mut hearing = pin!(hearing);
        poll_fn(|context| {
            let heard = hearing.as_mut().poll(context);
            if heard.is_pending() {
                tally.tell();
            }
            heard
        })
        .await
    }

    /// Judges a message; gives it out unless something comes before it.
    fn heard(&mut self, channel: Option<&str>, message: Arc<[u8]>) -> Option<Received<T>> {
        let frame = match Frame::read(&message) {
            Ok(frame) => frame,
            Err(cause) => {
                let channel = self.following.channel().clone();
                let error = Detail::new("not a frame of this version");
                Signal::Skipped {
                    cause,
                    channel,
                    error,
                }
                .emit();
                return None;
            }
        };
        if let Source::Topic { track, .. } = &mut self.source {
            let judged = track.message(frame.position);
            if let Some(hole) = judged.hole {
                self.missed(hole, judged.lasted);
                self.held = judged.wanted.then_some((message, frame));
                return None;
            }
            if !judged.wanted {
                return None;
            }
        }
        self.opened(message, frame, channel, Way::Live)
    }

    /// A message, if this subscriber is to have it.
    fn opened(
        &mut self,
        bytes: Arc<[u8]>,
        frame: Frame,
        channel: Option<&str>,
        way: Way,
    ) -> Option<Received<T>> {
        if self.left_out == Some(frame.origin) {
            return None;
        }
        let topic = match (&self.source, channel) {
            (Source::Topic { name, .. }, _) => name.clone(),
            (Source::Pattern, channel) => self.name(channel?)?,
        };
        self.tally.count(way);
        Some(Received::Message(Message {
            topic,
            position: frame.position,
            channel: self.following.channel().clone(),
            bytes,
            start: frame.body,
            body: PhantomData,
        }))
    }

    /// The topic of a channel.
    fn name(&self, channel: &str) -> Option<Name> {
        let (key, _database) = channel.rsplit_once('@')?;
        self.redis.keys().names(KIND, key)?.into_iter().next()
    }

    /// Tells of what was missed, or has it replayed.
    fn missed(&mut self, hole: Hole, lasted: Duration) {
        let channel = self.following.channel().clone();
        match hole {
            Hole::Lagged(missed) => {
                let cause = Cause::Lagged;
                Signal::Missed {
                    cause,
                    missed,
                    channel,
                }
                .emit();
                self.ready.push_back(Received::Lagged(missed));
            }
            Hole::Known { span, cause } if self.replays() => {
                self.replay = Some(Replay::new(span, cause, lasted));
            }
            Hole::Known { span, cause } => self.gone(span, cause, lasted),
            Hole::Unknown { span, doubt } => {
                let cause = doubt;
                Signal::GapUnknown { cause, channel }.emit();
                let missed = None;
                self.ready.push_back(Received::Gap(Gap { missed, lasted }));
                if let (Some(span), true) = (span, self.replays()) {
                    self.replay = Some(Replay::new(span, Cause::Interrupted, lasted));
                }
            }
        }
    }

    fn replays(&self) -> bool {
        matches!(self.source, Source::Topic { replays: true, .. })
    }

    /// Tells of messages that nobody can bring back.
    fn gone(&mut self, span: Span, cause: Cause, lasted: Duration) {
        let missed = span.to - span.from + 1;
        let channel = self.following.channel().clone();
        Signal::Missed {
            cause,
            missed,
            channel,
        }
        .emit();
        self.ready.push_back(if cause == Cause::Lagged {
            Received::Lagged(missed)
        } else {
            let missed = Some(span.from..=span.to);
            Received::Gap(Gap { missed, lasted })
        });
    }

    /// Replays some more of what was missed.
    async fn read_on(&mut self) {
        let (Some(replay), Source::Topic { place, .. }) = (&mut self.replay, &self.source) else {
            return;
        };
        let (cause, lasted) = (replay.cause(), replay.lasted());
        let channel = self.following.channel();
        let (found, is_over) = replay.read(&self.redis, &place.log, channel).await;
        if is_over {
            self.replay = None;
        }
        for read in found {
            match read {
                Read::Message(message, frame) => {
                    let received = self.opened(message, frame, None, Way::Replayed);
                    self.ready.extend(received);
                }
                Read::Gone(span) => self.gone(span, Cause::Trimmed, lasted),
                Read::Unread(span) => self.gone(span, cause, lasted),
            }
        }
    }
}
