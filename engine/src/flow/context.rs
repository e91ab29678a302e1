//! What a workflow may ask for.

use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::call::{ActivityCall, ChildCall, Operation, SignalCall, SleepCall};
use super::condition::ConditionCall;
use super::names::{Activity, Query, Signal, Update, Workflow};
use super::saga::Saga;
use super::script::Script;
use super::step::StepCall;
use super::update::Updates;
use crate::model::{
    Attributes, Failure, Occurrence, OpKind, Payload, RunId, Timestamp, TypeName, WorkflowId,
};
use crate::transition::Command;

/// The only way out of a workflow: everything that it asks for, waits for or takes from outside.
///
/// Every operation gets its number when its future is made, in the order of the calls; the futures
/// may then be polled in any order.
///
/// A request to cancel ends every operation that is open at that point with a [`Failure`] of the
/// sort [`Failure::CANCELLED`], a local step under way at its next await. Operations made afterwards
/// go on as always, so that a workflow can clean up; when it then returns that failure, the run is
/// cancelled.
#[derive(Clone)]
pub struct Context {
    script: Script,
}

impl Context {
    pub(super) fn new(script: Script) -> Self {
        Self { script }
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
        Operation::new(&self.script, kind, name, Location::caller())
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

    /// A value from outside, taken once: when the code runs again it is the same.
    ///
    /// For what is quick and cannot fail; work is a [`step`](Self::step).
    ///
    /// # Errors
    /// The failure to encode the value, or to read it as a `T`.
    ///
    /// # Panics
    /// When the name is none: empty, longer than 255 bytes, or with control characters.
    pub fn side_effect<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        value: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let name = valid(name);
        let (step, known, refused) = {
            let mut pages = self.script.lock();
            let step = pages.take_step();
            pages.issue(step, OpKind::SideEffect, Some(&name));
            let known = pages.noted.get(&step).cloned();
            (step, known, pages.refused.get(&step).cloned())
        };
        if let Some(refused) = refused {
            return Err(refused);
        }
        if let Some(known) = known {
            return self.decode(Some(&known));
        }
        let value = value();
        let encoded = self.encode(&value);
        let command = match encoded.clone() {
            Ok(value) => Command::SideEffect { step, name, value },
            Err(failure) => Command::Refuse {
                step,
                operation: OpKind::SideEffect,
                name: Some(name),
                failure,
            },
        };
        self.script.lock().commands.push(command);
        encoded.map(|_| value)
    }

    /// What the run is found by, as of now.
    pub fn search_attributes(&self) -> Attributes {
        self.script.lock().attributes.clone()
    }

    /// From here on the run is found by `attributes`, and by nothing else: to change one, set it in
    /// [`search_attributes`](Self::search_attributes). A run that goes on as another keeps them.
    ///
    /// ```
    /// # use coord_engine::{flow::Context, model::Failure};
    /// async fn order(ctx: Context, _: ()) -> Result<(), Failure> {
    ///     ctx.set_search_attributes(ctx.search_attributes().with("stage", "packed")?);
    ///     Ok(())
    /// }
    /// ```
    pub fn set_search_attributes(&self, attributes: Attributes) {
        let mut pages = self.script.lock();
        pages.attributes.clone_from(&attributes);
        let step = pages.take_step();
        if pages.issue(step, OpKind::Attributes, None) == Some(false) {
            let command = Command::SetAttributes { step, attributes };
            pages.commands.push(command);
        }
    }

    /// What describes the run to people, as of now.
    pub fn memo(&self) -> Map<String, Value> {
        self.script.lock().memo.clone()
    }

    /// From here on `memo` describes the run to people, and nothing else does. A run that goes on as
    /// another keeps it.
    pub fn set_memo(&self, memo: Map<String, Value>) {
        let mut pages = self.script.lock();
        pages.memo.clone_from(&memo);
        let step = pages.take_step();
        if pages.issue(step, OpKind::Memo, None) == Some(false) {
            pages.commands.push(Command::SetMemo { step, memo });
        }
    }

    /// Which way to take through code that has changed: the newest that the code `knows` for a run
    /// that comes here for the first time, and 0 for one that came by before `change` existed. A run
    /// keeps its way; one whose way the code no longer knows is set aside like any other that its
    /// code does not follow.
    ///
    /// ```
    /// # use coord_engine::{flow::Context, model::Failure};
    /// # async fn old(_: &Context) -> Result<u32, Failure> { Ok(1) }
    /// # async fn new(_: &Context) -> Result<u32, Failure> { Ok(2) }
    /// async fn order(ctx: Context, _: ()) -> Result<u32, Failure> {
    ///     match ctx.version("charge before shipping", 0..=1) {
    ///         0 => old(&ctx).await,
    ///         _ => new(&ctx).await,
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    /// When the name is none: empty, longer than 255 bytes, or with control characters.
    pub fn version(&self, change: &str, knows: RangeInclusive<u32>) -> u32 {
        let change = valid(change);
        let mut pages = self.script.lock();
        let step = pages.peek_step();
        let newest = *knows.end();
        let version = match pages.versions.get(&change).copied() {
            Some((noted, version)) => {
                if noted == step {
                    pages.take_step();
                    pages.issue(step, OpKind::Version, Some(&change));
                }
                version
            }
            None if pages.ahead => {
                // Once and for all, also where it comes by again later.
                pages.versions.insert(change.clone(), (0, 0));
                0
            }
            None => {
                pages.take_step();
                pages.issue(step, OpKind::Version, Some(&change));
                pages.versions.insert(change.clone(), (step, newest));
                pages.commands.push(Command::Version {
                    step,
                    change: change.clone(),
                    version: newest,
                });
                newest
            }
        };
        if !knows.contains(&version) {
            let (oldest, marker) = (knows.start(), OpKind::Version.as_str());
            let expected = format!("{marker} `{change}` {version}");
            pages.diverge(step, expected, format!("{oldest} to {newest} of it"));
        }
        version
    }

    /// The instant of the event that brought the code here: the same whenever the code runs.
    pub fn now(&self) -> Timestamp {
        self.script.lock().now
    }

    /// A random number that is the same whenever the code runs. Not for secrets.
    pub fn random(&self) -> u64 {
        self.script.lock().random()
    }

    /// A random id in the form of a UUID of version 4, the same whenever the code runs.
    pub fn uuid(&self) -> String {
        let (high, low) = (self.random(), self.random());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            (low >> 48) & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }

    /// Why the run was asked to end, if it was.
    pub fn cancel_reason(&self) -> Option<String> {
        self.script.lock().cancel.clone()
    }

    /// Ends this run and goes on as a new one of the same workflow with `input`, so that a history
    /// does not grow for ever. To be returned: `return Err(ctx.continue_as_new(&next))`.
    ///
    /// Signals that nobody has received yet reach the new run, in their order. Children that are
    /// open stay with the old one, and end by their policy.
    pub fn continue_as_new(&self, input: &impl Serialize) -> Failure {
        match self.encode(input) {
            Ok(payload) => {
                self.script.lock().continue_with = Some(payload);
                Failure::new("the workflow continues as new")
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
    /// with it, and changes nothing.
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

    /// The id by which callers know this workflow.
    pub fn workflow_id(&self) -> WorkflowId {
        self.script.lock().identity.workflow.clone()
    }

    /// Which occurrence of which schedule started this workflow, if one did. Its instant is the
    /// one that the schedule has, however late it fired: the day that a daily report is about.
    pub fn occurrence(&self) -> Option<Occurrence> {
        self.script.lock().occurrence.clone()
    }

    /// The id of this run.
    pub fn run_id(&self) -> RunId {
        self.script.lock().identity.run.clone()
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
