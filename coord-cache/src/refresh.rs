//! Loading an entry anew while it is still served.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::{Key, Name};
use tokio::runtime::Handle;

use crate::cache::Shared;
use crate::envelope::{self, Head};
use crate::load::{self, Load};
use crate::scripts;

/// After a refresh that failed, the next one in any process comes no sooner than this.
const REST_MS: u64 = 1_000;

/// A mark outlives the load that it stands for by the time of its last calls.
const MARGIN: Duration = Duration::from_secs(2);

/// The entries that this process loads anew just now.
#[derive(Default)]
pub(crate) struct Refreshing(Mutex<HashSet<Name>>);

/// One of them.
struct Turn<T> {
    shared: Arc<Shared<T>>,
    name: Name,
}

impl<T> Turn<T> {
    fn take(shared: &Arc<Shared<T>>, name: Name) -> Option<Self> {
        let mut names = shared
            .refreshing
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        names.insert(name.clone()).then(|| Self {
            shared: Arc::clone(shared),
            name,
        })
    }
}

impl<T> Drop for Turn<T> {
    fn drop(&mut self) {
        let names = &self.shared.refreshing.0;
        let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
        names.remove(&self.name);
    }
}

/// Loads the entry that has the head `head` anew in the background, unless somebody does already,
/// in this process or in another one.
pub(crate) fn start<T: Send + Sync + 'static>(
    shared: &Arc<Shared<T>>,
    runtime: &Handle,
    (name, head): (Name, Head),
    load: Load<T>,
) {
    if let Some(turn) = Turn::take(shared, name) {
        shared.launch(runtime, async move { refresh(&turn, &head, load).await });
    }
}

async fn refresh<T: Send + Sync + 'static>(turn: &Turn<T>, head: &Head, load: Load<T>) {
    let entries = &turn.shared.entries;
    let key: Key = entries.key(&turn.name);
    // The value key is occupied, so that who loads is marked beside it.
    let mark = envelope::placeholder(entries.options.schema, rand::random());
    let life = entries.options.load_timeout + MARGIN;
    let set = scripts::set_mark(&key, &mark, life.as_millis() as u64);
    match entries.redis.run(&set).await {
        Ok(reply) if reply.clone().optional().is_some() => {}
        // Somebody else loads it, or Redis is away: then a later reader has it loaded.
        Ok(_) | Err(_) => return,
    }
    if let Ok((value, took)) = load::load(entries, &key, load).await {
        load::store(entries, &key, (head, &mark), (value.as_ref(), took)).await;
    } else {
        let rest = scripts::shorten_mark(&key, REST_MS);
        // Otherwise the mark ends by its own TTL.
        _ = entries.redis.run(&rest).await;
    }
}
