//! Undoing what was done when a later part fails.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Context;
use crate::model::Failure;

type Undoing = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;
type Undo = Box<dyn FnOnce(Context) -> Undoing + Send>;

/// What is to be undone when a later part of a workflow fails, or when the workflow is cancelled.
///
/// ```
/// # use coord_engine::flow::{Activity, Context};
/// # use coord_engine::model::Failure;
/// const BOOK_CAR: Activity<u32, u64> = Activity::new("trip.book_car");
/// const CANCEL_CAR: Activity<u64, ()> = Activity::new("trip.cancel_car");
/// const BOOK_HOTEL: Activity<u32, u64> = Activity::new("trip.book_hotel");
///
/// async fn trip(ctx: Context, days: u32) -> Result<u64, Failure> {
///     let saga = ctx.saga();
///     let booked = async {
///         let car = ctx.activity(BOOK_CAR, &days).await?;
///         saga.undo(move |ctx| async move { ctx.activity(CANCEL_CAR, &car).await });
///         ctx.activity(BOOK_HOTEL, &days).await
///     };
///     saga.settle(booked.await).await
/// }
/// ```
///
/// An activity whose result never came may have happened all the same. Where that matters, say how
/// to undo it before it is asked for, and let the undoing find out whether there is anything to
/// undo.
#[must_use = "nothing is undone unless it is settled"]
pub struct Saga {
    context: Context,
    undos: Mutex<Vec<Undo>>,
}

impl Saga {
    pub(super) const fn new(context: Context) -> Self {
        Self {
            context,
            undos: Mutex::new(Vec::new()),
        }
    }

    /// Says how to undo what was just done, or is about to be.
    pub fn undo<R>(&self, how: impl FnOnce(Context) -> R + Send + 'static)
    where
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.locked()
            .push(Box::new(|context| Box::pin(how(context))));
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Undo>> {
        self.undos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes `result` on, and before a failure undoes everything, the last thing first. A request to
    /// end that comes meanwhile interrupts nothing of that.
    ///
    /// To [continue as new](Context::continue_as_new) is no failure: nothing is undone then, and what
    /// the next run may have to undo goes along in its input.
    ///
    /// # Errors
    /// The failure of `result`. When something could not be undone, the rest is undone all the same,
    /// and the failure is one of the sort [`Failure::NOT_UNDONE`] that `result`'s has led to: then
    /// people have to look after it.
    ///
    /// # Cancel safety
    /// Dropped, what was not undone yet stays.
    pub async fn settle<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        let Err(failure) = result else { return result };
        if failure.kind == Failure::CONTINUES {
            return Err(failure);
        }
        let undos = std::mem::take(&mut *self.locked());
        let mut broken = Vec::new();
        for undo in undos.into_iter().rev() {
            if let Err(failure) = undo(self.context.shielded()).await {
                broken.push(failure.to_string());
            }
        }
        if broken.is_empty() {
            return Err(failure);
        }
        let message = format!("not undone: {}", broken.join("; "));
        Err(Failure::new(message)
            .of_kind(Failure::NOT_UNDONE)
            .caused_by(failure))
    }
}
