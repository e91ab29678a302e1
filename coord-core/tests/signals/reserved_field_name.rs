// rejected: the name of the field is reserved

use coord_core::Name;

enum Signal {
    Seen { key: Name },
}
coord_core::declare! { "redis.lock.";
    Seen { key } => "redis.lock.seen", "Somebody did something.",
        Counter, Debug, Unmonitored("redis.lock.timeout is what callers feel");
}

fn main() {
    Signal::Seen {
        key: Name::new("orders").expect("a name"),
    }
    .emit();
}
