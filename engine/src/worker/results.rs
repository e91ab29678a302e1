//! Results of activities that go along with one another.
//!
//! The first result of a run goes on with it. Those that come while its turn is being committed
//! would find the run away; they wait for that commit, as they would for a place in the next one
//! anyway. Then one of them goes on with the run for all: one transaction, without a message for
//! each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::committer::locked;
use crate::model::{Message, RunId};
use crate::store::Held;

/// As many go into one turn at most.
const MOST: usize = 128;

/// The runs with which a result goes on right now.
#[derive(Default)]
pub(super) struct Results(Mutex<HashMap<RunId, Vec<Behind>>>);

/// A result that waits to be taken along.
pub(super) struct Behind {
    pub(super) message: Message,
    pub(super) held: Held,
    told: oneshot::Sender<Told>,
}

/// What a result hears that came behind another one. One that hears nothing is on its own.
pub(super) enum Told {
    /// It was committed.
    Committed,
    /// It goes on with the run, and takes these along.
    Leads(Going, Vec<Behind>),
}

impl Behind {
    pub(super) fn confirm(self) {
        // Who has lost his lease no longer listens.
        _ = self.told.send(Told::Committed);
    }
}

/// Where a result has come.
pub(super) enum Place {
    /// Nobody else goes on with the run.
    First(Going),
    /// Another one does.
    Behind(oneshot::Receiver<Told>),
}

impl Results {
    pub(super) fn enter(
        self: &Arc<Self>,
        run: &RunId,
        (message, held): (&Message, &Held),
    ) -> Place {
        match locked(&self.0).entry(run.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Vec::new());
                Place::First(Going {
                    results: Arc::clone(self),
                    run: run.clone(),
                    is_over: false,
                })
            }
            Entry::Occupied(mut going) => {
                let (told, hears) = oneshot::channel();
                let (message, held) = (message.clone(), held.clone());
                going.get_mut().push(Behind {
                    message,
                    held,
                    told,
                });
                Place::Behind(hears)
            }
        }
    }
}

/// The right to go on with a run for all that come meanwhile. Dropped, these are on their own.
pub(super) struct Going {
    results: Arc<Results>,
    run: RunId,
    is_over: bool,
}

impl Going {
    /// Hands it over to one of those that came meanwhile, with the others of them.
    pub(super) fn hand_over(mut self) {
        loop {
            let mut behind = self.next();
            if behind.is_empty() {
                return;
            }
            let first = behind.remove(0);
            match first.told.send(Told::Leads(self, behind)) {
                Err(Told::Leads(going, behind)) => {
                    // It no longer listens; the next one does, perhaps.
                    going.put_back(behind);
                    self = going;
                }
                _ => return,
            }
        }
    }

    /// Those that came meanwhile, as many as go together. When there are none, it is over.
    fn next(&mut self) -> Vec<Behind> {
        let mut all = locked(&self.results.0);
        let Some(behind) = all.get_mut(&self.run) else {
            return Vec::new();
        };
        let rest = behind.split_off(behind.len().min(MOST));
        let next = std::mem::replace(behind, rest);
        if next.is_empty() {
            all.remove(&self.run);
            self.is_over = true;
        }
        next
    }

    fn put_back(&self, mut behind: Vec<Behind>) {
        if let Some(later) = locked(&self.results.0).get_mut(&self.run) {
            behind.append(later);
            *later = behind;
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if !self.is_over {
            let left = locked(&self.results.0).remove(&self.run);
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EventKind, Ids, OwnerId, TaskId, Timestamp, events};
    use crate::store::Holder;

    fn result(number: u64, run: &RunId) -> (Message, Held) {
        let message = Message {
            at: Timestamp::from_micros(0),
            step: Some(number),
            kind: EventKind::Completed(events::Nothing {}),
            payload: None,
        };
        let held = Held {
            task: TaskId::of(run, number),
            epoch: 1,
            holder: Holder::Owner(OwnerId::new("a").expect("an owner")),
        };
        (message, held)
    }

    fn enter(results: &Arc<Results>, run: &RunId, number: u64) -> Place {
        let (message, held) = result(number, run);
        results.enter(run, (&message, &held))
    }

    fn first(place: Place) -> Going {
        match place {
            Place::First(going) => going,
            Place::Behind(_) => panic!("nobody else goes on"),
        }
    }

    fn behind(place: Place) -> oneshot::Receiver<Told> {
        match place {
            Place::Behind(hears) => hears,
            Place::First(_) => panic!("another one goes on"),
        }
    }

    fn leads(told: Result<Told, oneshot::error::TryRecvError>) -> (Going, Vec<Behind>) {
        match told {
            Ok(Told::Leads(going, behind)) => (going, behind),
            _ => panic!("it leads"),
        }
    }

    #[test]
    fn one_of_those_who_came_meanwhile_goes_on_for_all_who_still_listen() {
        let (results, run) = (Arc::<Results>::default(), Ids::random().run());
        let going = first(enter(&results, &run, 1));
        let gone = behind(enter(&results, &run, 2));
        let mut next = behind(enter(&results, &run, 3));
        let mut last = behind(enter(&results, &run, 4));
        drop(gone);

        going.hand_over();

        let (going, mut along) = leads(next.try_recv());
        let steps = along.iter().map(|other| other.message.step);
        assert_eq!(steps.collect::<Vec<_>>(), [Some(4)]);
        along.remove(0).confirm();
        assert!(matches!(last.try_recv(), Ok(Told::Committed)));
        let mut late = behind(enter(&results, &run, 5));
        going.hand_over();
        let (going, along) = leads(late.try_recv());
        assert!(along.is_empty());
        going.hand_over();
        first(enter(&results, &run, 6));
    }

    #[test]
    fn who_is_left_by_the_one_that_goes_on_is_on_his_own() {
        let (results, run) = (Arc::<Results>::default(), Ids::random().run());
        let going = first(enter(&results, &run, 1));
        let mut left = behind(enter(&results, &run, 2));

        drop(going);

        let told = left.try_recv();
        assert!(matches!(told, Err(oneshot::error::TryRecvError::Closed)));
        first(enter(&results, &run, 3));
    }

    #[test]
    fn no_more_go_along_than_one_turn_should_have() {
        let (results, run) = (Arc::<Results>::default(), Ids::random().run());
        let going = first(enter(&results, &run, 0));
        let many = MOST as u64 + 5;
        let mut waiting: Vec<_> = (1..=many)
            .map(|number| behind(enter(&results, &run, number)))
            .collect();

        going.hand_over();

        let (going, along) = leads(waiting[0].try_recv());
        assert_eq!(along.len(), MOST - 1);
        going.hand_over();
        let (_, along) = leads(waiting[MOST].try_recv());
        assert_eq!(along.len(), 4);
    }
}
