//! Ports for servers and proxies.
//!
//! They lie below the range from which the system takes the ports of outgoing connections. A port
//! from that range could go to somebody's client while its server is down, and a client that
//! dials a dead loopback port in it may even be connected to itself.

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
};

use crate::child::between_forks;

const FIRST: u16 = 11_000;
const COUNT: u16 = 10_000;

/// A cluster node's bus listens this far above its port; the sum stays below 32768.
pub(crate) const BUS_OFFSET: u16 = 10_000;

/// Processes start at different places, so that two of them rarely probe the same port.
static NEXT: LazyLock<AtomicU16> =
    LazyLock::new(|| AtomicU16::new(RandomState::new().hash_one(FIRST) as u16));

/// A port that nobody listened on just now, and that this process has not handed out for a while.
///
/// Whoever binds it may still lose a race and has to ask again.
pub(crate) fn free() -> u16 {
    candidates()
        .find(|&port| is_free(port))
        .expect("one of ten thousand ports is free")
}

/// Like [`free`], with the cluster bus port above it free as well.
pub(crate) fn free_with_bus() -> u16 {
    candidates()
        .find(|&port| is_free(port) && is_free(port + BUS_OFFSET))
        .expect("one of ten thousand port pairs is free")
}

/// The loopback address with `port`.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn candidates() -> impl Iterator<Item = u16> {
    (0..COUNT).map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT)
}

fn is_free(port: u16) -> bool {
    between_forks(|| TcpListener::bind(loopback(port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_somebody_listens_on_is_not_handed_out() {
        let port = free();
        let _taken = TcpListener::bind(loopback(port)).unwrap();

        assert!(!is_free(port));
        assert_ne!(free(), port);
    }
}
