// rejected: the name of a duration ends in _ms

use std::time::Duration;

enum Signal {
    Seen { elapsed: Duration },
}
coord_core::declare! { "redis.lock.";
    Seen { elapsed } => "redis.lock.seen", "Something took a while.",
        Duration, Debug, Unmonitored("redis.lock.timeout is what callers feel");
}

fn main() {
    Signal::Seen {
        elapsed: Duration::from_millis(3),
    }
    .emit();
}
