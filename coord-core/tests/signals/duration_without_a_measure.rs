// rejected: a duration measures exactly one field of type Duration

enum Signal {
    Seen {},
}
coord_core::declare! { "redis.lock.";
    Seen {} => "redis.lock.seen", "Something took a while.",
        Duration, Debug, Unmonitored("redis.lock.timeout is what callers feel");
}

fn main() {
    Signal::Seen {}.emit();
}
