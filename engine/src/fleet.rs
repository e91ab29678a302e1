//! Who this process is to the others: an incarnation that shows that it lives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::aside::Aside;
use crate::committer::locked;
use crate::meter::Meter;
use crate::model::{BuildId, Ids, NodeName, OwnerId};
use crate::node::Node;
use crate::recovery::Recovery;
use crate::signals::Signal;
use crate::store::{Heartbeat, Incarnation, Registered, Registration, Role, Store, Term};

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));

/// The incarnation of this process. Dropped, it is silent, and others find it dead.
pub(crate) struct Fleet {
    owner: Arc<watch::Sender<OwnerId>>,
    store: Arc<dyn Store>,
    recovery: Recovery,
    /// Whether it has left. Held while a role is asked for, so that none comes after that.
    has_left: Arc<tokio::sync::Mutex<bool>>,
    heart: Mutex<JoinSet<()>>,
    is_draining: Arc<AtomicBool>,
    /// Whether others see it.
    is_member: bool,
}

impl Fleet {
    /// A process that others do not see, and that gets no role.
    pub(crate) fn visit(store: &Arc<dyn Store>, ids: &Ids, recovery: Recovery) -> Self {
        Self {
            owner: Arc::new(watch::Sender::new(ids.owner())),
            store: Arc::clone(store),
            recovery,
            has_left: Arc::new(tokio::sync::Mutex::new(true)),
            heart: Mutex::default(),
            is_draining: Arc::default(),
            is_member: false,
        }
    }

    /// Registers this process, and goes on `aside` to show that it lives. Whether it takes over from
    /// others that are known to be gone.
    pub(crate) async fn join(
        store: &Arc<dyn Store>,
        aside: &Aside,
        ids: &Arc<Ids>,
        (recovery, node): (Recovery, &Node),
        (build, meter): (Option<&BuildId>, &Arc<Meter>),
    ) -> Result<(Self, bool)> {
        let id = ids.owner();
        let is_draining = Arc::new(AtomicBool::new(false));
        let member = |store| Member {
            store: Arc::clone(store),
            ids: Arc::clone(ids),
            name: node
                .name
                .as_ref()
                .map_or_else(|| ids.stem(), NodeName::as_str)
                .to_owned(),
            recovery,
            is_draining: Arc::clone(&is_draining),
            build: build.cloned(),
            meter: Arc::clone(meter),
            work: Arc::clone(store),
        };
        let registered = member(store).register(&id, node.exclusive).await?;
        let owner = Arc::new(watch::Sender::new(id));
        let mut heart = JoinSet::new();
        heart.spawn_on(
            member(aside.store()).live(Arc::clone(&owner)),
            aside.runtime(),
        );
        let fleet = Self {
            owner,
            store: Arc::clone(store),
            recovery,
            has_left: Arc::default(),
            heart: Mutex::new(heart),
            is_draining,
            is_member: true,
        };
        Ok((fleet, registered.buried > 0))
    }

    /// Whether others see it.
    pub(crate) const fn is_member(&self) -> bool {
        self.is_member
    }

    /// Shows with its next sign of life whether it takes no more work.
    pub(crate) fn show_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
    }

    /// The incarnation. Another one than before means that all leases of that one are lost.
    pub(crate) fn owner(&self) -> watch::Receiver<OwnerId> {
        self.owner.subscribe()
    }

    /// Its term in `role`, if it has or gets one; none after it has left. Once asked for, it is
    /// asked for to the end, also when the caller is gone.
    pub(crate) async fn elect(&self, role: Role, ttl: Duration) -> Result<Option<Term>> {
        let (store, has_left) = (Arc::clone(&self.store), Arc::clone(&self.has_left));
        let owner = self.owner.borrow().clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "its caller joins it, and one that is gone does not end it half way"
        )]
        let asked = tokio::spawn(async move {
            let has_left = has_left.lock().await;
            if *has_left {
                return Ok(None);
            }
            store.elect(role, &owner, ttl).await
        });
        match asked.await {
            Ok(elected) => elected,
            Err(died) => match died.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => Ok(None),
            },
        }
    }

    /// Gives its roles up, and says that it has ended.
    pub(crate) async fn leave(&self) -> Result<()> {
        if !self.is_member {
            return Ok(());
        }
        let mut has_left = self.has_left.lock().await;
        *has_left = true;
        let mut heart = std::mem::take(&mut *locked(&self.heart));
        heart.shutdown().await;
        let id = self.owner.borrow().clone();
        for role in Role::ALL {
            // That says which term it is. One that nobody has is taken and given up.
            let term = self.store.elect(role, &id, self.recovery.term).await?;
            if let Some(term) = term {
                self.store.resign(&term).await?;
            }
        }
        let heartbeat = Heartbeat {
            id,
            ttl: self.recovery.ttl,
            draining: false,
            stopped: true,
            figures: None,
        };
        self.store.heartbeat(&heartbeat).await.map(drop)
    }
}

struct Member {
    store: Arc<dyn Store>,
    ids: Arc<Ids>,
    /// What it is called where processes are listed.
    name: String,
    recovery: Recovery,
    is_draining: Arc<AtomicBool>,
    /// What it runs, where it says.
    build: Option<BuildId>,
    meter: Arc<Meter>,
    /// The store with which it works, as far as its connections are concerned.
    work: Arc<dyn Store>,
}

impl Member {
    async fn register(&self, id: &OwnerId, exclusive: bool) -> Result<Registered> {
        let registration = Registration {
            incarnation: Incarnation {
                id: id.clone(),
                node: self.name.clone(),
                build: self.build.clone(),
                pid: std::process::id(),
            },
            ttl: self.recovery.ttl,
            alone: false,
            exclusive,
        };
        self.store.register(&registration).await
    }

    /// Beats for as long as it is polled. An incarnation that was declared dead, or that could not
    /// show for too long that it lives, is followed by another one.
    async fn live(self, owner: Arc<watch::Sender<OwnerId>>) {
        let mut last = Instant::now();
        let mut failures = 0;
        loop {
            let wait = if failures == 0 {
                self.recovery.heartbeat
            } else {
                BACKOFF.jittered(failures)
            };
            tokio::time::sleep(wait).await;
            let id = owner.borrow().clone();
            let sent = Instant::now();
            let beat = tokio::time::timeout(self.recovery.heartbeat, self.beat(&id, false)).await;
            match beat {
                Ok(Ok(true)) => (last, failures) = (sent, 0),
                Ok(Ok(false)) => {
                    let process = Detail::new(&id);
                    Signal::DeclaredDead { process }.emit();
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
            if last.elapsed() > self.recovery.trusted() {
                (last, failures) = (self.begin_again(&id, &owner).await, 0);
            }
        }
    }

    async fn beat(&self, id: &OwnerId, stopped: bool) -> Result<bool> {
        let heartbeat = Heartbeat {
            id: id.clone(),
            ttl: self.recovery.ttl,
            draining: self.is_draining.load(Ordering::Relaxed),
            stopped,
            figures: serde_json::to_string(&self.meter.beat(self.work.connections())).ok(),
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
                // Whoever came under an exclusive name since is to stay.
                Ok(_) => self.register(&next, false).await,
                Err(error) => Err(error),
            };
            match begun {
                Ok(_) => return sent,
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
