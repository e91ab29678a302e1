//! What an observer sees of a process.

use std::collections::BTreeSet;
use std::time::Duration;

use coord_core::signals::{Observer, register};

use super::{CRATES, Cause, SIGNALS, Signal, keys};

#[test]
fn the_observer_sees_emits_and_not_what_is_exported_at_zero() {
    let observer = Observer::new(CRATES, |_| {});
    metrics::with_local_recorder(&observer, || {
        register(SIGNALS);
        assert_eq!(observer.keys(), BTreeSet::new());

        Signal::Lost {
            cause: Cause::Expired,
        }
        .emit();
        Signal::Dropped {
            count: 0,
            cause: Cause::Taken,
        }
        .emit();
        Signal::Dropped {
            count: 3,
            cause: Cause::Taken,
        }
        .emit();
        Signal::Dropped {
            count: 4,
            cause: Cause::Expired,
        }
        .emit();
        Signal::Held {
            locks: 0,
            cause: Cause::Taken,
        }
        .emit();
        Signal::Wait {
            elapsed_ms: Duration::ZERO,
            cause: Cause::Taken,
        }
        .emit();
        Signal::Scan {
            elapsed_ms: Duration::ZERO,
        }
        .emit();
        Signal::Stall {
            elapsed_ms: Duration::ZERO,
        }
        .emit();
        Signal::Quiet {}.emit();
        metrics::counter!("stray").increment(1);
    });

    let mut expected = keys();
    expected.insert("stray".to_owned());
    assert_eq!(observer.keys(), expected);
    assert_eq!(observer.count("test.lock.lost", &[]), 1);
    assert_eq!(observer.count("test.channel_dropped", &[]), 7);
    assert_eq!(
        observer.count("test.channel_dropped", &[("cause", "taken")]),
        3
    );
    assert_eq!(
        observer.count("test.channel_dropped", &[("cause", "stolen")]),
        0
    );
    assert_eq!(observer.count("test.lock.held", &[]), 1);
}
