//! All subscriptions of the process on one supervised connection (one a master of a cluster).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use coord_core::{Channel, Error, Result};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::cluster::Cluster;
use crate::command::{Command, Reply, slot_of};
use crate::config::{Address, Config};
use crate::dial::Target;
use crate::feed::{Feed, Join, Joined, Kind, Order, Topic};
use crate::lane::Lane;
use crate::signals::Signal;

/// Messages kept for a subscriber that is behind; beyond that it is told how many it missed.
/// Every channel pays for its buffer (some 15 kB), and a waiter for a lock has one of its own.
pub(crate) const BUFFERED: usize = 256;

/// Before a channel without a known owner is placed again.
const PLACE_AGAIN: Duration = Duration::from_millis(100);

/// What a subscription receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A message that was published to the channel.
    Message(Arc<[u8]>),
    /// The subscription was interrupted for so long; what was published meanwhile is missed.
    Gap(Duration),
    /// The subscriber was too slow; so many notices were dropped.
    Lagged(u64),
}

/// What the connection tells all subscribers of a channel.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Message {
        /// Where several channels are meant: which one it was.
        channel: Option<Arc<str>>,
        message: Arc<[u8]>,
    },
    Gap(Duration),
    /// What the check after a gap found, behind everything that was published before it looked.
    Checked(Reply),
}

/// One subscriber of one channel. Subscribers of a process share the server's subscription, and
/// a slow one holds up nobody else.
pub struct Subscription {
    // First, so that the last subscriber is gone when the order to leave is carried out.
    events: broadcast::Receiver<Event>,
    receiving: watch::Receiver<bool>,
    membership: Arc<Membership>,
}

/// What ends when the last of some subscriptions that were made from one is dropped.
struct Membership {
    channel: Channel,
    orders: mpsc::UnboundedSender<Order>,
}

impl Subscription {
    /// The next notice; `None` once the client is shut down.
    ///
    /// # Cancel safety
    /// Safe: no notice is lost.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            return Some(match self.event().await? {
                Ok(Event::Message { message, .. }) => Notice::Message(message),
                Ok(Event::Gap(length)) => Notice::Gap(length),
                // Another subscriber of this channel asked for that.
                Ok(Event::Checked(_)) => continue,
                Err(missed) => {
                    let channel = self.channel().clone();
                    Signal::SubscriptionLagged { missed, channel }.emit();
                    Notice::Lagged(missed)
                }
            });
        }
    }

    /// The next event, or how many were dropped since the subscriber was too slow.
    pub(crate) async fn event(&mut self) -> Option<Result<Event, u64>> {
        match self.events.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Err(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// The channel.
    pub fn channel(&self) -> &Channel {
        &self.membership.channel
    }

    /// Whether messages come now: false from an interruption until the server has confirmed the
    /// subscription again, when it is also told how long that was. It ends with the client.
    pub(crate) fn receiving(&self) -> watch::Receiver<bool> {
        self.receiving.clone()
    }

    /// Another subscription of the same channel, which the server need not be asked for. It
    /// receives what comes from now on; an interruption that is not over yet is told to it, too.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            events: self.events.resubscribe(),
            receiving: self.receiving.clone(),
            membership: Arc::clone(&self.membership),
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Subscription")
            .field("channel", self.channel())
            .finish_non_exhaustive()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // After a shutdown there is nobody to tell.
        _ = self.orders.send(Order::Leave(self.channel.clone()));
    }
}

/// The handle to the task that owns all subscriptions.
pub(crate) struct Subscriber {
    orders: mpsc::UnboundedSender<Order>,
}

impl Subscriber {
    pub(crate) fn start(
        config: &Arc<Config>,
        lane: &Lane,
        sharded: bool,
        runtime: &Handle,
    ) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        let config = Arc::clone(config);
        let lane = lane.clone();
        match lane.cluster().cloned() {
            None => {
                let feed = Feed::new(config, Target::Master, false, lane);
                // A single server never gives a channel away.
                let (give_up, _) = mpsc::unbounded_channel();
                runtime.spawn(feed.run(received, give_up));
            }
            Some(cluster) => {
                runtime.spawn(
                    Router {
                        config,
                        cluster,
                        lane,
                        sharded,
                        feeds: HashMap::new(),
                    }
                    .run(received),
                );
            }
        }
        Self { orders }
    }

    /// Waits until the server has confirmed the subscription, and gives what `check` found then.
    pub(crate) async fn subscribe(
        &self,
        kind: Kind,
        channel: &Channel,
        check: Option<Command>,
    ) -> Result<(Subscription, Reply)> {
        let (confirm, confirmed) = oneshot::channel();
        let check = check.map(Arc::new);
        let join = Join {
            kind,
            check,
            confirm,
        };
        let order = Order::Join {
            channel: channel.clone(),
            join,
        };
        let shut_down =
            || Error::unavailable(format!("subscribing to {channel}: the client is shut down"));
        self.orders.send(order).map_err(|_| shut_down())?;
        let Joined {
            events,
            found,
            receiving,
        } = confirmed.await.map_err(|_| shut_down())??;
        let membership = Membership {
            channel: channel.clone(),
            orders: self.orders.clone(),
        };
        let subscription = Subscription {
            events,
            receiving,
            membership: Arc::new(membership),
        };
        Ok((subscription, found))
    }

    pub(crate) fn close(&self) {
        _ = self.orders.send(Order::Close);
    }
}

/// Gives each channel to the feed of the node that owns its slot, and again when it moves.
struct Router {
    config: Arc<Config>,
    cluster: Cluster,
    lane: Lane,
    sharded: bool,
    feeds: HashMap<Address, mpsc::UnboundedSender<Order>>,
}

impl Router {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let (give_up, mut moved) = mpsc::unbounded_channel();
        let mut changes = self.cluster.changes();
        let mut homeless: Vec<(Channel, Topic)> = Vec::new();
        loop {
            let again = async {
                if homeless.is_empty() {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(PLACE_AGAIN).await;
            };
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Join { channel, join }) => {
                        match self.feed(&channel, &give_up) {
                            Some(feed) => _ = feed.send(Order::Join { channel, join }),
                            None => homeless.push((channel, Topic::new(join))),
                        }
                    }
                    // Only the feed that has the channel does anything about it.
                    Some(Order::Leave(channel)) => {
                        homeless.retain(|(name, topic)| *name != channel || topic.is_wanted());
                        for feed in self.feeds.values() {
                            _ = feed.send(Order::Leave(channel.clone()));
                        }
                    }
                    Some(Order::Adopt { .. } | Order::Recheck(_)) => {}
                    Some(Order::Close) | None => return,
                },
                Some((channel, topic)) = moved.recv() => {
                    self.cluster.refresh();
                    homeless.push((channel, topic));
                }
                _ = changes.changed() => {
                    for (address, feed) in &self.feeds {
                        _ = feed.send(Order::Recheck(self.owned_by(address)));
                    }
                }
                () = again => {
                    for (channel, topic) in std::mem::take(&mut homeless) {
                        match self.feed(&channel, &give_up) {
                            Some(feed) => _ = feed.send(Order::Adopt { channel, topic }),
                            None => homeless.push((channel, topic)),
                        }
                    }
                }
            }
        }
    }

    fn owned_by(&self, address: &Address) -> Box<dyn Fn(&Channel) -> bool + Send> {
        let (cluster, address) = (self.cluster.clone(), address.clone());
        Box::new(move |channel| {
            cluster.owner(slot_of(channel.hash_tag())).as_ref() == Some(&address)
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a feed ends when its orders do, with the router"
    )]
    fn feed(
        &mut self,
        channel: &Channel,
        give_up: &mpsc::UnboundedSender<(Channel, Topic)>,
    ) -> Option<&mpsc::UnboundedSender<Order>> {
        let owner = self.cluster.owner(slot_of(channel.hash_tag()))?;
        let feed = self.feeds.entry(owner).or_insert_with_key(|owner| {
            let (orders, received) = mpsc::unbounded_channel();
            let feed = Feed::new(
                Arc::clone(&self.config),
                Target::Node(owner.clone()),
                self.sharded,
                self.lane.clone(),
            );
            tokio::spawn(feed.run(received, give_up.clone()));
            orders
        });
        Some(feed)
    }
}
