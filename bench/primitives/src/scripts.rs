//! The very scripts of the crates, for the bare client.

use coord_core::KeySpace;
use coord_lease::{Owner, format};
use redis::aio::MultiplexedConnection;

use crate::Result;

/// The stored form of a lease, which the crates put above each script.
macro_rules! lease_form {
    () => {
        include_str!("../../../coord-lease/src/lua/format.lua")
    };
}

pub(crate) const RENEW: &str = concat!(
    lease_form!(),
    include_str!("../../../coord-lease/src/lua/renew.lua")
);
pub(crate) const ACQUIRE: &str = concat!(
    include_str!("../../../coord-lease/src/lua/grant_free.lua"),
    lease_form!(),
    include_str!("../../../coord-lock/src/lua/acquire.lua")
);
pub(crate) const RELEASE: &str = concat!(
    include_str!("../../../coord-lock/src/lua/release_unawaited.lua"),
    lease_form!(),
    include_str!("../../../coord-lock/src/lua/queue.lua"),
    include_str!("../../../coord-lock/src/lua/release.lua")
);

/// Loads a script; gives its digest.
pub(crate) async fn load(connection: &mut MultiplexedConnection, source: &str) -> Result<String> {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(source);
    Ok(load.query_async(connection).await?)
}

/// The keys of one lock as coord-lock makes them, and its channel.
#[derive(Debug, Clone)]
pub(crate) struct LockKeys {
    pub(crate) lock: String,
    pub(crate) record: String,
    pub(crate) queue: String,
    pub(crate) places: String,
    pub(crate) channel: String,
}

impl LockKeys {
    pub(crate) fn new(prefix: &str, name: &str) -> Result<Self> {
        let lock = KeySpace::new(prefix)?.key("lock", &[&name.try_into()?]);
        Ok(Self {
            record: format::record(&lock).as_str().to_owned(),
            queue: lock.part("queue").as_str().to_owned(),
            places: lock.part("places").as_str().to_owned(),
            channel: lock.channel(0).as_str().to_owned(),
            lock: lock.as_str().to_owned(),
        })
    }
}

/// What an owner stores of itself.
pub(crate) fn owner() -> Result<String> {
    Ok(Owner::new("unnamed".try_into()?).encode())
}
