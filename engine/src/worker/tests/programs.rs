//! Any program, with any results in any order, and a process that dies at any commit.

use std::task::Waker;

use coord_core::trace::Span;
use proptest::prelude::*;

use super::*;
use crate::flow::{Function, Means};
use crate::model::{
    AttemptId, Event, Ids, Message, OpKind, Payload, Priority, Record, RunId, Timestamp, TypeName,
    events,
};
use crate::transition::{Identity, RunState};
use crate::worker::live::{Live, Stand};

/// What a program does one after the other in one of its branches.
#[derive(Clone, Copy, Debug)]
enum Part {
    Activity,
    Sleep(u64),
    Signal,
    Step,
    SideEffect,
    Version,
    /// Waits until so much is done, for a while.
    Condition(u32),
}

/// What happens to it while it waits.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The result of one of the open activities, or a late one of any operation.
    Result(usize),
    Signal,
    /// A message that was there before comes again.
    Again(usize),
    Passed(u64),
    Cancel,
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        3 => Just(Part::Activity),
        2 => (0..30_u64).prop_map(Part::Sleep),
        2 => Just(Part::Signal),
        4 => Just(Part::Step),
        1 => Just(Part::SideEffect),
        1 => Just(Part::Version),
        2 => (0..8_u32).prop_map(Part::Condition),
    ];
    proptest::collection::vec(part, 0..5)
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        6 => (0..20_usize).prop_map(Happening::Result),
        3 => Just(Happening::Signal),
        2 => any::<usize>().prop_map(Happening::Again),
        3 => (0..30_u64).prop_map(Happening::Passed),
        1 => Just(Happening::Cancel),
    ];
    proptest::collection::vec(happening, 0..25)
}

async fn branch(ctx: Context, parts: Vec<Part>, done: Arc<AtomicU32>) {
    for part in parts {
        let ended = match part {
            Part::Activity => ctx.activity(DOUBLE, &1).await.map(drop),
            Part::Sleep(ms) => ctx.sleep(Duration::from_millis(ms)).await,
            Part::Signal => ctx.signal(APPROVED).recv().await.map(drop),
            Part::Step => ctx.step("step", async || Ok::<_, Failure>(())).await,
            Part::SideEffect => ctx.side_effect("effect", || 1).map(drop),
            Part::Version => {
                ctx.version("change", 0..=1);
                Ok(())
            }
            Part::Condition(enough) => {
                let wait = ctx.wait_until("enough", || done.load(Ordering::Relaxed) >= enough);
                wait.within(Duration::from_millis(20)).await
            }
        };
        if ended.is_ok() {
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn function(program: Vec<Vec<Part>>) -> Box<Function> {
    Box::new(move |ctx, _| {
        let program = program.clone();
        Box::pin(async move {
            let done = Arc::new(AtomicU32::new(0));
            let branches = program
                .into_iter()
                .map(|parts| branch(ctx.clone(), parts, Arc::clone(&done)));
            join_all(branches).await;
            ctx.encode(&done.load(Ordering::Relaxed))
        })
    })
}

fn text<T: TryFrom<String, Error = coord_core::Error>>(text: impl Into<String>) -> T {
    T::try_from(text.into()).expect("a valid id")
}

fn identity() -> Identity {
    Identity {
        namespace: namespace(),
        workflow: id("work"),
        run: text::<RunId>("run"),
    }
}

/// A run, its database and its time.
struct World {
    function: Box<Function>,
    live: Live,
    committed: Vec<Event>,
    messages: Vec<Message>,
    now: Timestamp,
    drained: u64,
    requests: u32,
}

impl World {
    fn new(program: Vec<Vec<Part>>) -> Self {
        let now = Timestamp::from_micros(1_000_000);
        let started = Event {
            seq: 1,
            at: now,
            step: None,
            kind: EventKind::Started(events::Started {
                name: text::<TypeName>("work"),
                workflow: id("work"),
                number: 1,
                queue: queue(),
                priority: Priority::default(),
                fairness: None,
                build: None,
                seed: 7,
                parent: None,
                continued_from: None,
                occurrence: None,
                execution_deadline_at: None,
                memo: serde_json::Map::new(),
                attributes: crate::model::Attributes::new(),
                trace: None,
            }),
            payload: None,
        };
        let function = function(program);
        let committed = vec![started];
        Self {
            live: replay(&committed, &*function, (0, now)),
            function,
            committed,
            messages: Vec::new(),
            now,
            drained: 0,
            requests: 0,
        }
    }

    /// Runs on until it waits or has ended; its process dies after every commit.
    fn run_on(&mut self) -> bool {
        loop {
            let stand = self.live.run_on(Waker::noop(), self.now);
            let stand = stand.expect("it follows its history");
            let records = self.live.draft.cut_events().expect("json");
            let events = records.into_iter().map(Event::from_record);
            self.committed
                .extend(events.map(|event| event.expect("an event")));
            self.drained = self.live.draft.drained();
            let at = (self.drained, self.now);
            self.live = replay(&self.committed, &*self.function, at);
            self.give();
            match stand {
                Stand::Ended => return true,
                Stand::Waits => return false,
                Stand::WantsCommit | Stand::Works => {}
            }
        }
    }

    /// What the inbox holds beyond what was taken.
    fn give(&mut self) {
        let places = self.messages.iter().zip(1_u64..);
        let waiting = places.filter(|(_, place)| *place > self.drained);
        let record = |(message, place): (&Message, u64)| Record {
            seq: place,
            ..message.record().expect("json")
        };
        self.live.take(waiting.map(record).collect());
    }

    fn send(&mut self, message: Message) {
        self.messages.push(message);
        self.give();
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Result(which) => {
                let open = self.live.draft.state().open();
                let activities: Vec<_> = open
                    .filter(|(_, op)| op.kind == OpKind::Activity)
                    .map(|(step, _)| step)
                    .collect();
                let late = which as u64;
                let step = activities.get(which % activities.len().max(1)).copied();
                let step = if which % 5 == 0 { Some(late) } else { step };
                self.complete(step.unwrap_or(late));
            }
            Happening::Signal => {
                self.requests += 1;
                let signal = events::SignalReceived {
                    name: APPROVED.name(),
                    request: text::<RequestId>(format!("r{}", self.requests)),
                    trace: None,
                };
                let value = Payload::json(&"ann").expect("json");
                self.send(self.message(None, EventKind::SignalReceived(signal), Some(value)));
            }
            Happening::Again(which) => {
                let again = self.messages.get(which % self.messages.len().max(1));
                if let Some(message) = again.cloned() {
                    self.send(message);
                }
            }
            Happening::Passed(ms) => self.now = self.now.plus(Duration::from_millis(ms)),
            Happening::Cancel => {
                let request = events::CancelRequested {
                    reason: "enough".to_owned(),
                };
                self.send(self.message(None, EventKind::CancelRequested(request), None));
            }
        }
    }

    fn complete(&mut self, step: u64) {
        let completed = events::ActivityCompleted {
            attempt: text::<AttemptId>("a"),
            number: 1,
        };
        let value = Payload::json(&2).expect("json");
        let kind = EventKind::ActivityCompleted(completed);
        self.send(self.message(Some(step), kind, Some(value)));
    }

    fn message(&self, step: Option<u64>, kind: EventKind, payload: Option<Payload>) -> Message {
        Message {
            at: self.now,
            step,
            kind,
            payload,
        }
    }
}

fn replay(committed: &[Event], function: &Function, (drained, now): (u64, Timestamp)) -> Live {
    let at = (drained, now, Span::none());
    let means: Means = (Arc::new(Ids::random()), Arc::default());
    Live::replay(identity(), means, committed, function, at).expect("it follows its history")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 3000 }))]
    #[test]
    fn a_program_ends_once_whatever_comes_and_wherever_its_process_dies(
        program in proptest::collection::vec(parts(), 1..4),
        happenings in happenings(),
    ) {
        let mut world = World::new(program);
        let mut has_ended = world.run_on();
        for happening in happenings {
            world.happen(happening);
            has_ended = has_ended || world.run_on();
        }
        // Then everything that it can wait for comes.
        for step in 1..40_u64 {
            if has_ended {
                break;
            }
            world.happen(Happening::Signal);
            world.happen(Happening::Passed(50));
            world.complete(step);
            has_ended = world.run_on();
        }
        prop_assert!(has_ended, "{:?}", world.committed);

        let ends = world.committed.iter().filter(|event| {
            matches!(event.kind, EventKind::Completed(_))
        });
        prop_assert_eq!(ends.count(), 1);
        RunState::fold(&world.committed).expect("a history");
        let last = world.committed.last().map(|event| event.kind.name().to_owned());
        prop_assert_eq!(last.as_deref(), Some("Completed"));
    }
}
