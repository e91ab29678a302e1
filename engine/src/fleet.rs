//! Who this process is to the others: an incarnation that shows that it lives.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::aside::Aside;
use crate::model::{Ids, OwnerId};
use crate::signals::Signal;
use crate::store::{Heartbeat, Incarnation, Registration, Store};

/// How long an incarnation counts as alive without a heartbeat: three of them, so that one may be
/// lost and one be late. It must be longer than the term of the one who declares deaths, a heartbeat
/// and two seconds, or an outage that the leader survives would cost a healthy peer its life.
pub(crate) const TTL: Duration = Duration::from_secs(15);
/// How often it shows that it lives.
const EVERY: Duration = Duration::from_secs(5);
/// After how long without an answer it takes itself for dead: two seconds before others may.
const TRUSTED: Duration = Duration::from_secs(13);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));

/// The incarnation of this process. Dropped, it is silent, and others find it dead.
pub(crate) struct Fleet {
    owner: Arc<watch::Sender<OwnerId>>,
    _heart: Mutex<JoinSet<()>>,
}

impl Fleet {
    /// Registers this process, and goes on `aside` to show that it lives.
    pub(crate) async fn join(store: Arc<dyn Store>, aside: &Aside, ids: Arc<Ids>) -> Result<Self> {
        let id = ids.owner();
        let member = Member {
            store,
            ids: Arc::clone(&ids),
        };
        member.register(&id).await?;
        let owner = Arc::new(watch::Sender::new(id));
        let member = Member {
            store: Arc::clone(aside.store()),
            ids,
        };
        let mut heart = JoinSet::new();
        heart.spawn_on(member.live(Arc::clone(&owner)), aside.runtime());
        Ok(Self {
            owner,
            _heart: Mutex::new(heart),
        })
    }

    /// The incarnation. Another one than before means that all leases of that one are lost.
    pub(crate) fn owner(&self) -> watch::Receiver<OwnerId> {
        self.owner.subscribe()
    }
}

struct Member {
    store: Arc<dyn Store>,
    ids: Arc<Ids>,
}

impl Member {
    async fn register(&self, id: &OwnerId) -> Result<()> {
        let registration = Registration {
            incarnation: Incarnation {
                id: id.clone(),
                node: self.ids.stem().to_owned(),
                build: None,
                pid: std::process::id(),
            },
            ttl: TTL,
            alone: false,
        };
        self.store.register(&registration).await.map(drop)
    }

    /// Beats for as long as it is polled. An incarnation that was declared dead, or that could not
    /// show for too long that it lives, is followed by another one.
    async fn live(self, owner: Arc<watch::Sender<OwnerId>>) {
        let mut last = Instant::now();
        let mut failures = 0;
        loop {
            let wait = if failures == 0 {
                EVERY
            } else {
                BACKOFF.jittered(failures)
            };
            tokio::time::sleep(wait).await;
            let id = owner.borrow().clone();
            let sent = Instant::now();
            let beat = tokio::time::timeout(EVERY, self.beat(&id, false)).await;
            match beat {
                Ok(Ok(true)) => (last, failures) = (sent, 0),
                Ok(Ok(false)) => {
                    (last, failures) = (self.begin_again(&id, &owner).await, 0);
                }
                Ok(Err(error)) => {
                    Signal::StoreFailed {
                        error: Detail::error(&error),
                    }
                    .emit();
                    failures += 1;
                }
                Err(_) => {
                    let error = Detail::new("a heartbeat: no answer in time for the next one");
                    Signal::StoreFailed { error }.emit();
                    failures += 1;
                }
            }
            if last.elapsed() > TRUSTED {
                (last, failures) = (self.begin_again(&id, &owner).await, 0);
            }
        }
    }

    async fn beat(&self, id: &OwnerId, stopped: bool) -> Result<bool> {
        let heartbeat = Heartbeat {
            id: id.clone(),
            ttl: TTL,
            draining: false,
            stopped,
        };
        Ok(self.store.heartbeat(&heartbeat).await?.is_some())
    }

    /// Gives up `id` and what it has, at once here and as soon as possible in the database.
    async fn begin_again(&self, id: &OwnerId, owner: &watch::Sender<OwnerId>) -> Instant {
        // Until it is registered it claims under a name that nobody takes for dead; the lease bounds
        // that as it bounds a process that lives and is stuck.
        let next = self.ids.owner();
        owner.send_replace(next.clone());
        let mut failures = 0;
        loop {
            let sent = Instant::now();
            let ended = self.beat(id, true).await;
            let begun = match ended {
                Ok(_) => self.register(&next).await,
                Err(error) => Err(error),
            };
            match begun {
                Ok(()) => return sent,
                Err(error) => Signal::StoreFailed {
                    error: Detail::error(&error),
                }
                .emit(),
            }
            tokio::time::sleep(BACKOFF.jittered(failures)).await;
            failures += 1;
        }
    }
}
