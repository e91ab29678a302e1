//! What the code takes from outside, notes of itself, and is told.

use std::ops::RangeInclusive;
use std::panic::Location;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Context, valid};
use crate::model::{Attributes, Failure, Occurrence, OpKind, RunId, Timestamp, WorkflowId};
use crate::transition::Command;

impl Context {
    /// A value from outside, taken once: when the code runs again it is the same.
    ///
    /// For what is quick and cannot fail; work is a [`step`](Self::step).
    ///
    /// # Errors
    /// The failure to encode the value, or to read it as a `T`.
    ///
    /// # Panics
    /// When the name is none: empty, longer than 255 bytes, or with control characters.
    #[track_caller]
    pub fn side_effect<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        value: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let name = valid(name);
        let (step, known, refused) = {
            let mut pages = self.script.lock();
            let step = pages.take_step(Location::caller());
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
    ///     ctx.set_search_attributes(ctx.search_attributes().with("stage", "packed")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// A failure of the sort [`Failure::LIMIT_EXCEEDED`] when they are larger than the engine's
    /// [`Limits`](crate::Limits) allow: then they stay as they were.
    #[track_caller]
    pub fn set_search_attributes(&self, attributes: Attributes) -> Result<(), Failure> {
        let (step, is_new) = self.set(OpKind::Attributes, Location::caller())?;
        if is_new {
            let fits = self.script.values().check_attributes(&attributes);
            self.refuse_unless(fits, step, OpKind::Attributes)?;
        }
        let mut pages = self.script.lock();
        pages.attributes.clone_from(&attributes);
        if is_new {
            let command = Command::SetAttributes { step, attributes };
            pages.commands.push(command);
        }
        Ok(())
    }

    /// What describes the run to people, as of now.
    pub fn memo(&self) -> Map<String, Value> {
        self.script.lock().memo.clone()
    }

    /// From here on `memo` describes the run to people, and nothing else does. A run that goes on as
    /// another keeps it.
    ///
    /// # Errors
    /// As [`set_search_attributes`](Self::set_search_attributes).
    #[track_caller]
    pub fn set_memo(&self, memo: Map<String, Value>) -> Result<(), Failure> {
        let (step, is_new) = self.set(OpKind::Memo, Location::caller())?;
        if is_new {
            let fits = self.script.values().check_memo(&memo);
            self.refuse_unless(fits, step, OpKind::Memo)?;
        }
        let mut pages = self.script.lock();
        pages.memo.clone_from(&memo);
        if is_new {
            pages.commands.push(Command::SetMemo { step, memo });
        }
        Ok(())
    }

    /// The next operation, of `kind`, and whether the history does not have it yet.
    fn set(&self, kind: OpKind, place: &'static Location<'static>) -> Result<(u64, bool), Failure> {
        let mut pages = self.script.lock();
        let step = pages.take_step(place);
        let is_new = pages.issue(step, kind, None) == Some(false);
        match pages.refused.get(&step) {
            Some(refused) => Err(refused.clone()),
            None => Ok((step, is_new)),
        }
    }

    /// That a value does not fit is a fact of the history, so that the code goes the same way again
    /// when it would fit.
    fn refuse_unless(
        &self,
        fits: Result<(), Failure>,
        step: u64,
        operation: OpKind,
    ) -> Result<(), Failure> {
        let Err(failure) = fits else { return Ok(()) };
        self.script.lock().commands.push(Command::Refuse {
            step,
            operation,
            name: None,
            failure: failure.clone(),
        });
        Err(failure)
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
    #[track_caller]
    pub fn version(&self, change: &str, knows: RangeInclusive<u32>) -> u32 {
        let change = valid(change);
        let mut pages = self.script.lock();
        let step = pages.peek_step();
        let newest = *knows.end();
        let version = match pages.versions.get(&change).copied() {
            Some((noted, version)) => {
                if noted == step {
                    pages.take_step(Location::caller());
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
                pages.take_step(Location::caller());
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
