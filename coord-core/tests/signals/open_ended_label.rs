// rejected: `String` cannot be a field of a signal

enum Signal {
    Seen { tenant: String },
}
coord_core::declare! { "redis.lock.";
    Seen { tenant } => "redis.lock.seen", "Somebody did something.",
        Counter, Debug, Unmonitored("redis.lock.timeout is what callers feel");
}

fn main() {
    Signal::Seen {
        tenant: "acme".to_owned(),
    }
    .emit();
}
