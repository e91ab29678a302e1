//! What a workflow may ask for.

mod facts;

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::{ActivityCall, ChildCall, Operation, SignalCall, SleepCall};
use super::condition::ConditionCall;
use super::names::{Activity, Query, Signal, Update, Workflow};
use super::saga::Saga;
use super::script::Script;
use super::step::StepCall;
use super::update::Updates;
use crate::model::{Failure, OpKind, Payload, TypeName};

/// The only way out of a workflow: everything that it asks for, waits for or takes from outside.
///
/// Every operation gets its number when its future is made, in the order of the calls; the futures
/// may then be polled in any order.
///
/// A request to cancel ends every operation that is open at that point with a [`Failure`] of the
/// sort [`Failure::CANCELLED`], a local step under way at its next await. Operations made afterwards
/// go on as always, so that a workflow can clean up; when it then returns that failure, the run is
/// cancelled. What must not be ended along with the rest is asked for through [`shielded`](Self::shielded).
#[derive(Clone)]
pub struct Context {
    script: Script,
    /// Whether a request to end leaves its operations alone.
    is_shielded: bool,
}

impl Context {
    pub(super) const fn new(script: Script) -> Self {
        Self {
            script,
            is_shielded: false,
        }
    }

    /// The same context for what has to go on when the workflow is asked to end: that ends none of
    /// its operations, and no local step of it. The undoings of a [`Saga`] get such a one.
    ///
    /// ```
    /// # use coord_engine::{flow::{Activity, Context}, model::Failure};
    /// const CHARGE: Activity<u32, ()> = Activity::new("shop.charge");
    /// const BOOK: Activity<u32, ()> = Activity::new("shop.book");
    ///
    /// async fn order(ctx: Context, cents: u32) -> Result<(), Failure> {
    ///     ctx.activity(CHARGE, &cents).await?;
    ///     // What was charged is booked, whatever becomes of the order meanwhile.
    ///     ctx.shielded().activity(BOOK, &cents).await
    /// }
    /// ```
    #[must_use]
    pub fn shielded(&self) -> Self {
        Self {
            script: self.script.clone(),
            is_shielded: true,
        }
    }

    pub(crate) fn encode(&self, value: &impl Serialize) -> Result<Payload, Failure> {
        self.script.encode(value)
    }

    pub(crate) fn decode<T: DeserializeOwned>(
        &self,
        payload: Option<&Payload>,
    ) -> Result<T, Failure> {
        self.script.decode(payload)
    }

    #[track_caller]
    pub(super) fn operation(&self, kind: OpKind, name: Option<TypeName>) -> Operation {
        let operation = Operation::new(&self.script, kind, name, Location::caller());
        if self.is_shielded {
            operation.shielded()
        } else {
            operation
        }
    }

    /// Work that any worker of its queue may do, with retries.
    #[track_caller]
    pub fn activity<I: Serialize, O: DeserializeOwned>(
        &self,
        activity: Activity<I, O>,
        input: &I,
    ) -> ActivityCall<O> {
        let operation = self.operation(OpKind::Activity, Some(activity.name()));
        ActivityCall::new(operation, self.encode(input))
    }

    /// Work that this process does under the lease of the run; see [`StepCall`].
    ///
    /// # Panics
    /// When the name is none: empty, longer than 255 bytes, or with control characters.
    #[track_caller]
    pub fn step<F, W, T, E>(&self, name: &str, work: F) -> StepCall<F, W, T>
    where
        F: FnOnce() -> W,
        W: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        E: Into<Failure>,
    {
        let name = valid(name);
        let operation = self.operation(OpKind::Step, Some(name.clone()));
        StepCall::new(operation, name, work)
    }

    /// Waits for `delay`, counted from the point in the history at which it is first polled: its
    /// end is fixed then, whatever happens until then. Nothing is waited for when it is zero, and
    /// the history looks the same.
    #[track_caller]
    pub fn sleep(&self, delay: Duration) -> SleepCall {
        SleepCall::new(self.operation(OpKind::Timer, None), delay)
    }

    /// Waits until `condition` holds of the state that the code shares with it. `name` is what
    /// messages call it.
    ///
    /// The condition is looked at after everything that happens to the workflow, so something else
    /// must go on meanwhile: a signal received in a [`join`](super::join()) or
    /// [`select`](super::select()) with it. It changes nothing, and asks nothing of the context.
    ///
    /// ```
    /// # use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// # use std::time::Duration;
    /// # use coord_engine::{flow::{Context, Either, Signal, select}, model::Failure};
    /// const DELIVERED: Signal<u32> = Signal::new("delivered");
    ///
    /// async fn order(ctx: Context, wanted: u32) -> Result<(), Failure> {
    ///     let stock = Arc::new(AtomicU32::new(0));
    ///     let deliveries = async {
    ///         loop {
    ///             let count = ctx.signal(DELIVERED).recv().await?;
    ///             stock.fetch_add(count, Ordering::Relaxed);
    ///         }
    ///     };
    ///     let enough = ctx.wait_until("enough in stock", || stock.load(Ordering::Relaxed) >= wanted);
    ///     match select(enough.within(Duration::from_secs(3600)), deliveries).await {
    ///         Either::Left(waited) | Either::Right(waited) => waited,
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    /// When the name is none: empty, longer than 255 bytes, or with control characters.
    #[track_caller]
    pub fn wait_until<F: Fn() -> bool>(&self, name: &str, condition: F) -> ConditionCall<F> {
        let operation = self.operation(OpKind::Condition, Some(valid(name)));
        ConditionCall::new(operation, condition)
    }

    /// What is to be undone when a later part fails; see [`Saga`].
    pub fn saga(&self) -> Saga {
        Saga::new(self.clone())
    }

    /// The signals of a name.
    pub fn signal<T: DeserializeOwned>(&self, signal: Signal<T>) -> Signals<T> {
        Signals {
            context: self.clone(),
            name: signal.name(),
            value: PhantomData,
        }
    }

    /// The updates of a name: signals that are answered.
    pub fn updates<I: DeserializeOwned, O: Serialize>(
        &self,
        update: Update<I, O>,
    ) -> Updates<I, O> {
        Updates::new(self.clone(), update.name())
    }

    /// Another workflow, whose end this one may wait for.
    #[track_caller]
    pub fn child<I: Serialize, O: DeserializeOwned>(
        &self,
        workflow: Workflow<I, O>,
        input: &I,
    ) -> ChildCall<O> {
        let operation = self.operation(OpKind::Child, Some(workflow.name()));
        ChildCall::new(operation, self.encode(input))
    }

    /// Ends this run and goes on as a new one of the same workflow with `input`, so that a history
    /// does not grow for ever. To be returned as it is: `return Err(ctx.continue_as_new(&next))`. A
    /// workflow that returns anything else ends as that says.
    ///
    /// Signals that nobody has received yet reach the new run, in their order. Children that are
    /// open stay with the old one, and end by their policy.
    pub fn continue_as_new(&self, input: &impl Serialize) -> Failure {
        match self.encode(input) {
            Ok(payload) => {
                self.script.lock().continue_with = Some(payload);
                Failure::new("the workflow continues as new").of_kind(Failure::CONTINUES)
            }
            Err(failure) => failure,
        }
    }

    /// Whether the history has become so long that this run should
    /// [continue as new](Self::continue_as_new) when it suits it. The [limits](crate::Limits) say
    /// when; that it has is an event of the history, which the code sees once it waits for something.
    pub fn should_continue_as_new(&self) -> bool {
        self.script.lock().suggested.is_some()
    }

    /// Answers `query` from here on with what `answer` says. It sees the state that the code shares
    /// with it, changes nothing, and asks nothing of the context: it may be computed at any time, on
    /// a thread of its own.
    pub fn answers<I, O>(&self, query: Query<I, O>, answer: impl Fn(I) -> O + Send + 'static)
    where
        I: DeserializeOwned,
        O: Serialize,
    {
        let values = Arc::clone(self.script.values());
        let answer = move |input: Option<&_>| Ok(values.encode(&answer(values.decode(input)?))?);
        self.script
            .lock()
            .answers
            .insert(query.name(), Box::new(answer));
    }
}

fn valid(name: &str) -> TypeName {
    match TypeName::new(name) {
        Ok(name) => name,
        Err(error) => panic!("{error}: {name:?}"),
    }
}

/// The signals of one name, in the order in which they were sent.
pub struct Signals<T> {
    context: Context,
    name: TypeName,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Signals<T> {
    /// The next one. Each reaches one wait; one that comes before any wait is kept.
    #[track_caller]
    pub fn recv(&self) -> SignalCall<T> {
        SignalCall::new(
            self.context
                .operation(OpKind::Signal, Some(self.name.clone())),
        )
    }
}
