// rejected: two variants have the same label value

use std::time::Duration;

use coord_core::Name;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Loss {
    Expired,
    Taken,
}
coord_core::labels! { Loss { Expired => "expired", Taken => "expired" } }

enum Signal {
    Lost { cause: Loss, lock: Name },
    Wait { elapsed_ms: Duration },
}
coord_core::declare! { "redis.lock.";
    Lost { cause, lock } => "redis.lock.lost", "A held lock expired or was taken.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("lock-lost"));
    Wait { elapsed_ms } => "redis.lock.wait", "Time from the first attempt to the grant.",
        Duration, Debug, Unmonitored("redis.lock.timeout is what callers feel");
}

fn main() {
    let lock = Name::new("orders").expect("a name");
    Signal::Lost {
        cause: Loss::Expired,
        lock: lock.clone(),
    }
    .emit();
    Signal::Lost {
        cause: Loss::Taken,
        lock,
    }
    .emit();
    Signal::Wait {
        elapsed_ms: Duration::from_millis(3),
    }
    .emit();
}
