//! Who waits for which load: in a process, one caller leads and the others join.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coord_core::Name;
use tokio::sync::watch;

use crate::error::LoadError;

/// What became of a load, for all who wait for it.
pub(crate) type Outcome<T> = Result<Option<Arc<T>>, LoadError>;

/// The end of a flight.
pub(crate) struct Landed<T> {
    pub(crate) outcome: Outcome<T>,
    /// Whether somebody loaded it, rather than found it.
    pub(crate) was_loaded: bool,
}

impl<T> Clone for Landed<T> {
    fn clone(&self) -> Self {
        Self {
            outcome: self.outcome.clone(),
            was_loaded: self.was_loaded,
        }
    }
}

type Sender<T> = watch::Sender<Option<Landed<T>>>;

/// Waits for a flight.
pub(crate) struct Seat<T>(watch::Receiver<Option<Landed<T>>>);

impl<T> Seat<T> {
    /// What became of it. A flight that ends without a word has panicked.
    pub(crate) async fn landed(mut self) -> Landed<T> {
        match self.0.wait_for(Option::is_some).await {
            Ok(landed) => landed.clone().expect("it was waited for"),
            Err(_) => Landed {
                outcome: Err(LoadError::Panicked),
                was_loaded: true,
            },
        }
    }
}

/// The flights that may be joined, by the name of their entry.
pub(crate) struct Flights<T>(Arc<Mutex<Table<T>>>);

struct Table<T> {
    next: u64,
    flights: HashMap<Name, Flight<T>>,
}

struct Flight<T> {
    /// Tells it from a later one of the same name.
    id: u64,
    seats: watch::Receiver<Option<Landed<T>>>,
}

/// What a caller is.
pub(crate) enum Entered<T> {
    Leads(Lead<T>),
    Joins(Seat<T>),
}

impl<T> Flights<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Table {
            next: 0,
            flights: HashMap::new(),
        })))
    }

    /// Joins the flight of `name`, or begins one.
    pub(crate) fn enter(&self, name: &Name) -> Entered<T> {
        let mut table = table(&self.0);
        if let Some(flight) = table.flights.get(name) {
            return Entered::Joins(Seat(flight.seats.clone()));
        }
        let (sender, seats) = watch::channel(None);
        let id = table.next;
        table.next += 1;
        table.flights.insert(name.clone(), Flight { id, seats });
        Entered::Leads(Lead {
            table: Arc::clone(&self.0),
            name: name.clone(),
            id,
            sender,
        })
    }

    /// Lets nobody join the flight of `name` any more: its entry has changed since it began. Those
    /// who have joined still get what it loads.
    pub(crate) fn detach(&self, name: &Name) {
        table(&self.0).flights.remove(name);
    }

    /// Lets nobody join any flight whose name starts with `start`.
    pub(crate) fn detach_starting(&self, start: &str) {
        table(&self.0)
            .flights
            .retain(|name, _| !name.as_str().starts_with(start));
    }
}

/// The right and the duty to end a flight. Dropping it ends it without an outcome.
pub(crate) struct Lead<T> {
    table: Arc<Mutex<Table<T>>>,
    name: Name,
    id: u64,
    sender: Sender<T>,
}

impl<T> Lead<T> {
    /// A seat for the leader itself.
    pub(crate) fn seat(&self) -> Seat<T> {
        Seat(self.sender.subscribe())
    }

    /// Ends the flight. Whoever comes from now on begins another one.
    pub(crate) fn land(self, outcome: Outcome<T>, was_loaded: bool) {
        self.leave();
        self.sender.send_replace(Some(Landed {
            outcome,
            was_loaded,
        }));
    }

    fn leave(&self) {
        let mut table = table(&self.table);
        let is_ours = |flight: &Flight<T>| flight.id == self.id;
        if table.flights.get(&self.name).is_some_and(is_ours) {
            table.flights.remove(&self.name);
        }
    }
}

impl<T> Drop for Lead<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

fn table<T>(table: &Mutex<Table<T>>) -> MutexGuard<'_, Table<T>> {
    // Every change is one insertion or removal.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("valid")
    }

    fn lead(flights: &Flights<u8>, of: &str) -> Lead<u8> {
        match flights.enter(&name(of)) {
            Entered::Leads(lead) => lead,
            Entered::Joins(_) => panic!("somebody leads {of}"),
        }
    }

    fn join(flights: &Flights<u8>, of: &str) -> Seat<u8> {
        match flights.enter(&name(of)) {
            Entered::Joins(seat) => seat,
            Entered::Leads(_) => panic!("nobody leads {of}"),
        }
    }

    #[tokio::test]
    async fn all_who_join_get_what_the_leader_landed_with() {
        let flights = Flights::new();
        let leader = lead(&flights, "a");
        let seats = [join(&flights, "a"), join(&flights, "a")];
        lead(&flights, "b").land(Ok(None), true);

        leader.land(Ok(Some(Arc::new(7))), true);

        for seat in seats {
            assert_eq!(
                seat.landed().await.outcome.expect("landed"),
                Some(Arc::new(7))
            );
        }
        drop(lead(&flights, "a"));
    }

    #[tokio::test]
    async fn a_detached_flight_keeps_its_passengers_and_gets_no_new_ones() {
        let flights = Flights::new();
        let (old, seat) = (lead(&flights, "a"), join(&flights, "a"));

        flights.detach(&name("a"));
        let new = lead(&flights, "a");
        old.land(Ok(Some(Arc::new(1))), true);

        assert_eq!(
            seat.landed().await.outcome.expect("landed"),
            Some(Arc::new(1))
        );
        let seat = join(&flights, "a");
        new.land(Ok(Some(Arc::new(2))), true);
        assert_eq!(
            seat.landed().await.outcome.expect("landed"),
            Some(Arc::new(2))
        );
    }

    #[tokio::test]
    async fn a_leader_that_is_gone_without_a_word_leaves_an_error() {
        let flights = Flights::new();
        let (leader, seat) = (lead(&flights, "a"), join(&flights, "a"));

        drop(leader);

        assert!(matches!(
            seat.landed().await.outcome,
            Err(LoadError::Panicked)
        ));
        drop(lead(&flights, "a"));
    }
}
