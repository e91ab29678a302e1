//! One connection that carries subscriptions and nothing else, and its supervisor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use coord_core::signals::Detail;
use coord_core::{Channel, Error, Result};
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, RedisError, Value};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::Instant;

use crate::config::Config;
use crate::dial::{Dialed, Target, dial};
use crate::error::{Failure, failure, not_connected};
use crate::link::{RECONNECT, silence};
use crate::signals::{Interruption, Loss, Purpose, Signal};
use crate::subscriber::{BUFFERED, Event};

/// Confirms a subscription, or says why it cannot be.
pub(crate) type Confirm = oneshot::Sender<Result<broadcast::Receiver<Event>>>;

/// What is asked of a feed.
pub(crate) enum Order {
    Join {
        channel: Channel,
        confirm: Confirm,
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

/// One channel with its subscribers.
pub(crate) struct Topic {
    events: broadcast::Sender<Event>,
    unconfirmed: Vec<Confirm>,
    /// The server has confirmed it on the connection that is open.
    receiving: bool,
    /// When it was last known to receive, if it does not now but once did.
    silent_since: Option<Instant>,
}

impl Topic {
    pub(crate) fn new(confirm: Confirm) -> Self {
        Self {
            events: broadcast::Sender::new(BUFFERED),
            unconfirmed: vec![confirm],
            receiving: false,
            silent_since: None,
        }
    }

    /// Whether somebody still receives or waits to.
    pub(crate) fn is_wanted(&self) -> bool {
        self.events.receiver_count() > 0
            || self.unconfirmed.iter().any(|confirm| !confirm.is_closed())
    }

    fn confirmed(&mut self, channel: &Channel) {
        self.receiving = true;
        if let Some(since) = self.silent_since.take() {
            let gap_ms = since.elapsed();
            // Without a receiver there is nobody to tell.
            _ = self.events.send(Event::Gap(gap_ms));
            Signal::SubscriptionResubscribed {
                gap_ms,
                channel: channel.clone(),
            }
            .emit();
        }
        for confirm in self.unconfirmed.drain(..) {
            _ = confirm.send(Ok(self.events.subscribe()));
        }
    }

    fn interrupted(&mut self, channel: &Channel, cause: Interruption, heard: Instant) {
        if self.receiving {
            self.receiving = false;
            self.silent_since = Some(heard);
            Signal::SubscriptionDropped {
                cause,
                channel: channel.clone(),
            }
            .emit();
        }
    }
}

/// Carries the subscriptions of one node.
pub(crate) struct Feed {
    config: Arc<Config>,
    target: Target,
    sharded: bool,
    topics: HashMap<Channel, Topic>,
}

/// Why a feed stopped using its connection.
enum End {
    Lost(Loss),
    Idle,
    Closed,
}

/// The answer to a request to subscribe, where it is an error.
type Rejection = (Channel, RedisError);

impl Feed {
    pub(crate) fn new(config: Arc<Config>, target: Target, sharded: bool) -> Self {
        Self {
            config,
            target,
            sharded,
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
            Order::Join { channel, confirm } => _ = self.join(channel, confirm),
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

    /// Whether the channel has to be subscribed to at the server.
    fn join(&mut self, channel: Channel, confirm: Confirm) -> bool {
        match self.topics.get_mut(&channel) {
            Some(topic) if topic.receiving => {
                _ = confirm.send(Ok(topic.events.subscribe()));
                false
            }
            Some(topic) => {
                topic.unconfirmed.push(confirm);
                false
            }
            None => {
                self.topics.insert(channel, Topic::new(confirm));
                true
            }
        }
    }

    fn adopt(&mut self, channel: Channel, topic: Topic) {
        match self.topics.get_mut(&channel) {
            // Somebody joined it here meanwhile: their confirmation will do for all.
            Some(present) => {
                present.unconfirmed.extend(topic.unconfirmed);
                if topic.events.receiver_count() > 0 {
                    present.events = topic.events;
                    present.silent_since = topic.silent_since;
                }
            }
            None => _ = self.topics.insert(channel, topic),
        }
    }

    /// Whether that was the last subscriber.
    fn leave(&mut self, channel: &Channel) -> bool {
        match self.topics.get(channel) {
            Some(topic) if !topic.is_wanted() => self.topics.remove(channel).is_some(),
            _ => false,
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
        let wire = Wire {
            connection: dialed.connection.clone(),
            sharded: self.sharded,
            rejected,
        };
        for channel in self.topics.keys() {
            wire.subscribe(channel.clone());
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
                    if let Some(channel) = self.received(push) {
                        self.give_up(&channel, Instant::now(), give_up);
                    }
                }
                order = orders.recv() => match order {
                    Some(Order::Join { channel, confirm }) => {
                        if self.join(channel.clone(), confirm) {
                            wire.subscribe(channel);
                        }
                    }
                    Some(Order::Adopt { channel, topic }) => {
                        self.adopt(channel.clone(), topic);
                        wire.subscribe(channel);
                    }
                    Some(Order::Leave(channel)) => {
                        if self.leave(&channel) {
                            wire.unsubscribe(channel);
                        }
                        if self.topics.is_empty() {
                            break End::Idle;
                        }
                    }
                    Some(Order::Recheck(ours)) => {
                        for channel in self.misplaced(&ours) {
                            self.give_up(&channel, Instant::now(), give_up);
                            wire.unsubscribe(channel);
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
            self.received(push);
        }
        let heard = *heard.lock().unwrap_or_else(PoisonError::into_inner);
        for (channel, topic) in &mut self.topics {
            topic.interrupted(channel, Interruption::Connection, heard);
        }
        self.topics.retain(|_, topic| topic.is_wanted());
        end
    }

    /// Handles a push. Gives a channel that the server took away unasked.
    fn received(&mut self, push: PushInfo) -> Option<Channel> {
        let mut data = push.data.into_iter();
        let name = match data.next() {
            Some(Value::BulkString(name)) => name,
            Some(Value::SimpleString(name)) => name.into_bytes(),
            _ => return None,
        };
        let name = std::str::from_utf8(&name).ok()?;
        let channel = self.topics.get_key_value(name)?.0.clone();
        let topic = self.topics.get_mut(name)?;
        match push.kind {
            PushKind::Message | PushKind::SMessage => {
                if let Some(Value::BulkString(message)) = data.next() {
                    // Without a receiver there is nobody to tell.
                    _ = topic.events.send(Event::Message(message.into()));
                }
                None
            }
            PushKind::Subscribe | PushKind::SSubscribe => {
                topic.confirmed(&channel);
                None
            }
            PushKind::Unsubscribe | PushKind::SUnsubscribe if topic.receiving => Some(channel),
            _ => None,
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
            Failure::Elsewhere { .. } => {
                self.give_up(channel, Instant::now(), give_up);
                true
            }
            Failure::Final(_) | Failure::Refused(crate::signals::Refusal::NotPermitted) => {
                let what = format!("subscribing to {channel}");
                if let Some(topic) = self.topics.remove(channel) {
                    for confirm in topic.unconfirmed {
                        let error = not_connected(&what, error.clone());
                        _ = confirm.send(Err(Error::invalid(what.clone()).with_source(error)));
                    }
                }
                true
            }
            _ => false,
        }
    }
}

/// The sending half: requests go out in order, and their errors come back.
struct Wire {
    connection: MultiplexedConnection,
    sharded: bool,
    rejected: mpsc::UnboundedSender<Rejection>,
}

impl Wire {
    fn subscribe(&self, channel: Channel) {
        self.request(
            if self.sharded {
                "SSUBSCRIBE"
            } else {
                "SUBSCRIBE"
            },
            channel,
        );
    }

    fn unsubscribe(&self, channel: Channel) {
        self.request(
            if self.sharded {
                "SUNSUBSCRIBE"
            } else {
                "UNSUBSCRIBE"
            },
            channel,
        );
    }

    /// A confirmation arrives as a push; the reply is of interest only as an error, since another
    /// push may have taken its place.
    #[expect(
        clippy::disallowed_methods,
        reason = "it ends with its connection, which the feed owns"
    )]
    fn request(&self, verb: &'static str, channel: Channel) {
        let (mut connection, rejected) = (self.connection.clone(), self.rejected.clone());
        tokio::spawn(async move {
            let mut cmd = redis::cmd(verb);
            cmd.arg(channel.as_str());
            let answer = connection.send_packed_command(&cmd).await;
            if let Err(error) = answer.and_then(Value::extract_error) {
                _ = rejected.send((channel, error));
            }
        });
    }
}

fn set(heard: &Mutex<Instant>) {
    *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
}
