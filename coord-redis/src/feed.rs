//! One connection that carries subscriptions and nothing else, and its supervisor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use coord_core::signals::Detail;
use coord_core::{Channel, Error};
use redis::{PushInfo, PushKind, RedisError, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::command::slot_of;
use crate::config::Config;
use crate::dial::{Dialed, Target, dial};
use crate::error::{Failure, failure, not_connected};
use crate::lane::Lane;
use crate::link::{RECONNECT, silence};
use crate::signals::{Interruption, Loss, Purpose, Signal};
use crate::subscriber::Event;

mod topic;
mod wire;

pub(crate) use topic::{Join, Joined, Kind, Topic};

use topic::Next;
use wire::Wire;

/// What is asked of a feed.
pub(crate) enum Order {
    Join {
        channel: Channel,
        join: Join,
    },
    Leave(Channel),
    /// Takes a channel over that another node has given up.
    Adopt {
        channel: Channel,
        topic: Topic,
    },
    /// Gives up every channel that the test no longer assigns to this node.
    Recheck(Box<dyn Fn(&Channel) -> bool + Send>),
    Close,
}

/// Carries the subscriptions of one node.
pub(crate) struct Feed {
    config: Arc<Config>,
    target: Target,
    sharded: bool,
    lane: Lane,
    topics: HashMap<Channel, Topic>,
}

/// Why a feed stopped using its connection.
enum End {
    Lost(Loss),
    Idle,
    Closed,
}

impl Feed {
    /// Checks run on `lane`.
    pub(crate) fn new(config: Arc<Config>, target: Target, sharded: bool, lane: Lane) -> Self {
        Self {
            config,
            target,
            sharded,
            lane,
            topics: HashMap::new(),
        }
    }

    /// Connects while there is something to receive, for ever. `give_up` takes the channels that
    /// have moved to another node.
    pub(crate) async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        give_up: mpsc::UnboundedSender<(Channel, Topic)>,
    ) {
        let mut attempt = 0;
        loop {
            while self.topics.is_empty() {
                let Some(order) = orders.recv().await else {
                    return;
                };
                if !self.note(order, &give_up) {
                    return;
                }
            }
            let (push, pushes) = mpsc::unbounded_channel();
            match dial(&self.config, &self.target, Purpose::Subscriber, Some(push)).await {
                Ok(mut dialed) => {
                    let up_since = Instant::now();
                    match self.serve(&mut dialed, pushes, &mut orders, &give_up).await {
                        End::Closed => return,
                        End::Idle => continue,
                        End::Lost(cause) => {
                            let address = Detail::new(&dialed.address);
                            Signal::ConnectionLost {
                                purpose: Purpose::Subscriber,
                                cause,
                                address,
                            }
                            .emit();
                        }
                    }
                    attempt = if up_since.elapsed() > RECONNECT.cap() {
                        0
                    } else {
                        attempt + 1
                    };
                }
                Err(error) => {
                    let (purpose, error) = (Purpose::Subscriber, Detail::error(&error));
                    Signal::ConnectionFailed { purpose, error }.emit();
                    attempt += 1;
                }
            }
            let pause = tokio::time::sleep(RECONNECT.jittered(attempt));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    order = orders.recv() => {
                        let Some(order) = order else { return };
                        if !self.note(order, &give_up) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Notes an order while there is no connection; `false` closes the feed.
    fn note(&mut self, order: Order, give_up: &mpsc::UnboundedSender<(Channel, Topic)>) -> bool {
        match order {
            Order::Join { channel, join } => match self.topics.get_mut(&channel) {
                Some(topic) => _ = topic.join(join),
                None => _ = self.topics.insert(channel, Topic::new(join)),
            },
            Order::Adopt { channel, topic } => self.adopt(channel, topic),
            Order::Leave(channel) => _ = self.leave(&channel),
            Order::Recheck(ours) => {
                for channel in self.misplaced(&ours) {
                    self.give_up(&channel, Instant::now(), give_up);
                }
            }
            Order::Close => return false,
        }
        true
    }

    fn adopt(&mut self, channel: Channel, topic: Topic) {
        match self.topics.get_mut(&channel) {
            // Somebody joined it here meanwhile: their confirmation will do for all.
            Some(present) => present.absorb(topic),
            None => _ = self.topics.insert(channel, topic),
        }
    }

    /// Takes the topic out if that was the last subscriber.
    fn leave(&mut self, channel: &Channel) -> Option<Topic> {
        match self.topics.get(channel) {
            Some(topic) if !topic.is_wanted() => self.topics.remove(channel),
            _ => None,
        }
    }

    fn misplaced(&self, ours: &(dyn Fn(&Channel) -> bool + Send)) -> Vec<Channel> {
        self.topics
            .keys()
            .filter(|channel| !ours(channel))
            .cloned()
            .collect()
    }

    fn give_up(
        &mut self,
        channel: &Channel,
        heard: Instant,
        give_up: &mpsc::UnboundedSender<(Channel, Topic)>,
    ) {
        if let Some(mut topic) = self.topics.remove(channel) {
            topic.interrupted(channel, Interruption::Moved, heard);
            _ = give_up.send((channel.clone(), topic));
        }
    }

    /// Receives until the connection is lost or nobody subscribes any more.
    async fn serve(
        &mut self,
        dialed: &mut Dialed,
        mut pushes: mpsc::UnboundedReceiver<PushInfo>,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        give_up: &mpsc::UnboundedSender<(Channel, Topic)>,
    ) -> End {
        let (rejected, mut rejections) = mpsc::unbounded_channel();
        let (found, mut findings) = mpsc::unbounded_channel();
        let wire = Wire {
            connection: dialed.connection.clone(),
            sharded: self.sharded,
            rejected,
            found,
            lane: self.lane.clone(),
            deadline: self.config.deadline,
        };
        for (channel, topic) in &self.topics {
            wire.subscribe(topic.kind, channel.clone());
        }
        let heard = Arc::new(Mutex::new(Instant::now()));
        let silence = silence(dialed.connection.clone(), self.config.ping_interval, || {
            set(&heard);
        });
        tokio::pin!(silence);
        let end = loop {
            tokio::select! {
                Some(push) = pushes.recv() => {
                    set(&heard);
                    self.received(push, &wire, give_up);
                }
                Some((channel, round, reply)) = findings.recv() => {
                    // What came before the answer is delivered before it.
                    while let Ok(push) = pushes.try_recv() {
                        self.received(push, &wire, give_up);
                    }
                    if let Some(topic) = self.topics.get_mut(&channel) {
                        let next = topic.looked(round, &reply);
                        self.go_on(&channel, next, &wire);
                    }
                }
                order = orders.recv() => match order {
                    Some(Order::Join { channel, join }) => self.join(channel, join, &wire),
                    Some(Order::Adopt { channel, topic }) => {
                        let kind = topic.kind;
                        self.adopt(channel.clone(), topic);
                        wire.subscribe(kind, channel);
                    }
                    Some(Order::Leave(channel)) => {
                        if let Some(topic) = self.leave(&channel) {
                            wire.unsubscribe(topic.kind, channel);
                        }
                        if self.topics.is_empty() {
                            break End::Idle;
                        }
                    }
                    Some(Order::Recheck(ours)) => {
                        for channel in self.misplaced(&ours) {
                            self.give_up(&channel, Instant::now(), give_up);
                            wire.unsubscribe(Kind::Channel, channel);
                        }
                    }
                    Some(Order::Close) | None => break End::Closed,
                },
                Some((channel, error)) = rejections.recv() => {
                    if !self.was_rejected(&channel, &error, give_up) {
                        break End::Lost(Loss::Closed);
                    }
                }
                () = dialed.driver.ended() => break End::Lost(Loss::Closed),
                () = &mut silence => break End::Lost(Loss::Silent),
            }
        };
        // What came before the end is delivered before the gap.
        while let Ok(push) = pushes.try_recv() {
            self.received(push, &wire, give_up);
        }
        let heard = *heard.lock().unwrap_or_else(PoisonError::into_inner);
        // What nobody has any more is missed by nobody.
        self.topics.retain(|_, topic| topic.is_wanted());
        for (channel, topic) in &mut self.topics {
            if let End::Closed = end {
                topic.end(heard);
            } else {
                topic.interrupted(channel, Interruption::Connection, heard);
            }
        }
        end
    }

    fn join(&mut self, channel: Channel, join: Join, wire: &Wire) {
        if let Some(topic) = self.topics.get_mut(&channel) {
            let next = topic.join(join);
            self.go_on(&channel, next, wire);
        } else {
            wire.subscribe(join.kind, channel.clone());
            self.topics.insert(channel, Topic::new(join));
        }
    }

    fn go_on(&mut self, channel: &Channel, next: Next, wire: &Wire) {
        match next {
            Next::Nothing => {}
            Next::Check(round) => {
                let check = self
                    .topics
                    .get(channel)
                    .and_then(|topic| topic.check.clone());
                if let Some(check) = check {
                    wire.check(channel.clone(), round, check);
                }
            }
            Next::Leave => {
                if let Some(topic) = self.leave(channel) {
                    wire.unsubscribe(topic.kind, channel.clone());
                }
            }
        }
    }

    fn received(
        &mut self,
        push: PushInfo,
        wire: &Wire,
        give_up: &mpsc::UnboundedSender<(Channel, Topic)>,
    ) {
        let mut data = push.data.into_iter();
        let Some(name) = data.next().and_then(text) else {
            return;
        };
        let Some((channel, topic)) = self.topics.get_key_value(name.as_str()) else {
            return;
        };
        match push.kind {
            PushKind::Message | PushKind::SMessage => {
                if let Some(Value::BulkString(message)) = data.next() {
                    let message = message.into();
                    topic.send(&Event::Message {
                        channel: None,
                        message,
                    });
                }
            }
            PushKind::PMessage => {
                let matched = data.next().and_then(text);
                if let (Some(matched), Some(Value::BulkString(message))) = (matched, data.next()) {
                    let (channel, message) = (Some(matched.into()), message.into());
                    topic.send(&Event::Message { channel, message });
                }
            }
            PushKind::Subscribe | PushKind::SSubscribe | PushKind::PSubscribe => {
                let channel = channel.clone();
                if let Some(topic) = self.topics.get_mut(&channel) {
                    let next = topic.confirmed(&channel);
                    self.go_on(&channel, next, wire);
                }
            }
            // The server took it away unasked.
            PushKind::Unsubscribe | PushKind::SUnsubscribe | PushKind::PUnsubscribe
                if topic.is_receiving() =>
            {
                let channel = channel.clone();
                self.give_up(&channel, Instant::now(), give_up);
            }
            _ => {}
        }
    }

    /// Whether the connection is still of use after this rejection.
    fn was_rejected(
        &mut self,
        channel: &Channel,
        error: &RedisError,
        give_up: &mpsc::UnboundedSender<(Channel, Topic)>,
    ) -> bool {
        match failure(error, false) {
            Failure::Elsewhere { slot, address, .. } => {
                // It may be the answer to another request, in whose place a push has come.
                if slot == slot_of(channel.hash_tag())
                    && let Some(cluster) = self.lane.cluster()
                {
                    cluster.moved(Some(slot), &address);
                }
                self.give_up(channel, Instant::now(), give_up);
                true
            }
            Failure::Final(_) | Failure::Refused(crate::signals::Refusal::NotPermitted) => {
                let what = format!("subscribing to {channel}");
                if let Some(topic) = self.topics.remove(channel) {
                    topic.reject(|| {
                        let error = not_connected(&what, error.clone());
                        Error::invalid(what.clone()).with_source(error)
                    });
                }
                true
            }
            _ => false,
        }
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn set(heard: &Mutex<Instant>) {
    *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
}
