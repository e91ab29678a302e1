//! Where a queue lies: keys that share the slot of its name.

use coord_core::{Key, KeySpace, Name};

/// The keys of one queue.
///
/// All but the memories of ids and the dead letters live without a TTL: a message waits for its
/// consumer however long that is away. They vanish with what is in them, but the stream, whose
/// consumer group has to outlive it: one empty key a queue.
#[derive(Debug)]
pub(super) struct Keys {
    /// The stream of what may be handed out now, and of what was and is not settled.
    pub(super) ready: Key,
    /// A sorted set of what was retried, by the time at which it is due.
    pub(super) delayed: Key,
    /// How many messages wait behind the heads of their groups.
    pub(super) waiting: Key,
    /// A stream of what failed for good; it lives as long as its life says.
    pub(super) dead: Key,
}

impl Keys {
    pub(super) fn new(space: &KeySpace, queue: &Name) -> Self {
        let ready = space.key("queue", &[queue]);
        Self {
            delayed: ready.part("delayed"),
            waiting: ready.part("waiting"),
            dead: ready.part("dead"),
            ready,
        }
    }

    /// What remembers that a message of this id was enqueued; it lives for the window.
    pub(super) fn memory(&self, id: &Name) -> Key {
        self.ready.part_for("seen", id)
    }

    /// The list of a group: an empty place for its head, which is in the stream or delayed, then
    /// those that wait.
    pub(super) fn group(&self, group: &Name) -> Key {
        self.ready.part_for("group", group)
    }
}

/// The lists of the groups that one call touches, each once, as a script numbers its keys.
pub(super) struct Lists<'a> {
    keys: &'a Keys,
    /// How many keys come before them.
    before: usize,
    known: Vec<(&'a Name, Key)>,
}

impl<'a> Lists<'a> {
    pub(super) fn new(keys: &'a Keys, before: usize) -> Self {
        Self {
            keys,
            before,
            known: Vec::new(),
        }
    }

    /// The index in `KEYS` of the group's list, or 0 without a group.
    pub(super) fn index(&mut self, group: Option<&'a Name>) -> usize {
        let Some(group) = group else {
            return 0;
        };
        let place = self.known.iter().position(|(name, _)| *name == group);
        let place = place.unwrap_or_else(|| {
            self.known.push((group, self.keys.group(group)));
            self.known.len() - 1
        });
        self.before + place + 1
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.known.iter().map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a valid name")
    }

    fn keys() -> Keys {
        Keys::new(
            &KeySpace::new("shop").expect("a valid prefix"),
            &name("mails {eu}"),
        )
    }

    #[test]
    fn all_keys_of_a_queue_share_a_slot() {
        let keys = keys();
        let others = [
            keys.delayed.clone(),
            keys.waiting.clone(),
            keys.dead.clone(),
            keys.memory(&name("{a}")),
            keys.group(&name("{b}")),
        ];

        for key in others {
            assert_eq!(key.hash_tag(), keys.ready.hash_tag(), "{key}");
        }
    }

    #[test]
    fn a_group_has_one_list_a_call_and_no_group_has_none() {
        let (keys, one, other) = (keys(), name("one"), name("other"));
        let mut lists = Lists::new(&keys, 4);

        let indices = [Some(&one), None, Some(&other), Some(&one)].map(|group| lists.index(group));

        assert_eq!(indices, [5, 0, 6, 5]);
        assert_eq!(lists.keys().count(), 2);
    }
}
