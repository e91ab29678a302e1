// rejected: a gauge shows exactly one integer

enum Signal {
    Seen {},
}
coord_core::declare! { "redis.lock.";
    Seen {} => "redis.lock.seen", "How many there are.",
        Gauge, Debug, Unmonitored("redis.lock.timeout is what callers feel");
}

fn main() {
    Signal::Seen {}.emit();
}
