//! Depth and lag of a queue, for its operators.

use std::time::Duration;

use tokio::sync::watch;

use crate::queue::{Depth, Queue};
use crate::signals::{Place, Signal};

/// Reports `queue` until the sender of `stopped` is dropped.
pub(super) async fn report<Q: Queue>(queue: Q, every: Duration, mut stopped: watch::Receiver<()>) {
    loop {
        // Whoever cannot be asked is reported by the receiving, which also fails.
        if let Ok(depth) = queue.depth().await {
            emit(&queue, &depth);
        }
        tokio::select! {
            _ = stopped.changed() => return,
            () = tokio::time::sleep(every) => {}
        }
    }
}

fn emit(queue: &impl Queue, depth: &Depth) {
    let places = [
        (Place::Ready, depth.ready),
        (Place::Waiting, depth.waiting),
        (Place::Delayed, depth.delayed),
        (Place::InFlight, depth.in_flight),
        (Place::Dead, depth.dead),
    ];
    for (place, messages) in places {
        let queue = queue.name().clone();
        Signal::QueueDepth {
            place,
            messages,
            queue,
        }
        .emit();
    }
    if depth.lag.is_none() && depth.ready > 0 {
        // A backend that cannot tell; zero would say that all is well.
        return;
    }
    Signal::QueueLag {
        lag_ms: depth.lag.unwrap_or_default(),
        queue: queue.name().clone(),
    }
    .emit();
}
