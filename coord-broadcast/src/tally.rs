//! How many messages a subscriber was given: told together, since to tell of each would cost more
//! than to hand it out.

use coord_core::Channel;

use crate::signals::{Signal, Way};

/// The most messages that are told together.
const BATCH: u64 = 1024;

/// What was given out and not told of yet. It is told before the subscriber waits, and at its end.
#[derive(Debug)]
pub(crate) struct Tally {
    channel: Channel,
    live: u64,
    replayed: u64,
}

impl Tally {
    pub(crate) fn new(channel: &Channel) -> Self {
        Self {
            channel: channel.clone(),
            live: 0,
            replayed: 0,
        }
    }

    pub(crate) fn count(&mut self, way: Way) {
        let given = match way {
            Way::Live => &mut self.live,
            Way::Replayed => &mut self.replayed,
        };
        *given += 1;
        if *given >= BATCH {
            self.tell();
        }
    }

    pub(crate) fn tell(&mut self) {
        let given = [
            (Way::Live, &mut self.live),
            (Way::Replayed, &mut self.replayed),
        ];
        for (way, given) in given {
            let messages = std::mem::take(given);
            if messages > 0 {
                let channel = self.channel.clone();
                Signal::Received {
                    way,
                    messages,
                    channel,
                }
                .emit();
            }
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.tell();
    }
}
