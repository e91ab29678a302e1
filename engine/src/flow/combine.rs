//! Waiting for several operations, in an order that the history decides.
//!
//! Outcomes reach a workflow one at a time, so combinators of other crates work as well; these are
//! here so that none is needed.

mod crowd;

use std::pin::Pin;
use std::task::{Context as Polled, Poll};

use crowd::Crowd;

/// Which of two was first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Either<A, B> {
    /// The first one.
    Left(A),
    /// The second one.
    Right(B),
}

/// Both of two.
///
/// # Cancel safety
/// Dropping it drops both, and with them what they wait for.
pub async fn join<A: Future, B: Future>(first: A, second: B) -> (A::Output, B::Output) {
    let (mut first, mut second) = (Held::new(first), Held::new(second));
    std::future::poll_fn(move |cx| {
        let (one, other) = (first.poll(cx), second.poll(cx));
        if one && other {
            return Poll::Ready((first.take(), second.take()));
        }
        Poll::Pending
    })
    .await
}

/// All of many, in their order.
///
/// Each outcome costs the same, however many are waited for: only the future that it concerns is
/// polled again.
///
/// # Cancel safety
/// Dropping it drops them all, and with them what they wait for.
pub fn join_all<F: Future>(
    futures: impl IntoIterator<Item = F>,
) -> impl Future<Output = Vec<F::Output>> {
    // Now, and not at the first poll: the operations get their numbers where this is called.
    let mut held: Vec<_> = futures.into_iter().map(Held::new).collect();
    let (crowd, mut left) = (Crowd::of(held.len()), held.len());
    std::future::poll_fn(move |cx| {
        for place in crowd.woken(cx) {
            if held[place].is_pending() && held[place].poll(&mut crowd.look(place)) {
                left -= 1;
            }
        }
        if left == 0 {
            return Poll::Ready(held.iter_mut().map(Held::take).collect());
        }
        Poll::Pending
    })
}

/// The first of two that ends; the other is dropped, and with it what it waits for. When both have
/// ended, the first one counts.
///
/// # Cancel safety
/// Dropping it drops both.
pub async fn select<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(output));
        }
        second.as_mut().poll(cx).map(Either::Right)
    })
    .await
}

/// The first of many that ends, and its place among them; the others are dropped, and with them what
/// they wait for. When several have ended, the first of them counts. Of none it waits for ever.
///
/// # Cancel safety
/// Dropping it drops them all.
pub fn select_all<F: Future>(
    futures: impl IntoIterator<Item = F>,
) -> impl Future<Output = (usize, F::Output)> {
    let mut held: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let crowd = Crowd::of(held.len());
    std::future::poll_fn(move |cx| {
        for place in crowd.woken(cx) {
            if let Poll::Ready(output) = held[place].as_mut().poll(&mut crowd.look(place)) {
                return Poll::Ready((place, output));
            }
        }
        Poll::Pending
    })
}

/// A future, then its output.
enum Held<F: Future> {
    Pending(Pin<Box<F>>),
    Done(Option<F::Output>),
}

// The future is boxed, and its output is moved.
impl<F: Future> Unpin for Held<F> {}

impl<F: Future> Held<F> {
    fn new(future: F) -> Self {
        Self::Pending(Box::pin(future))
    }

    fn poll(&mut self, cx: &mut Polled<'_>) -> bool {
        if let Self::Pending(future) = self
            && let Poll::Ready(output) = future.as_mut().poll(cx)
        {
            *self = Self::Done(Some(output));
        }
        matches!(self, Self::Done(_))
    }

    const fn is_pending(&self) -> bool {
        matches!(self, Self::Pending(_))
    }

    fn take(&mut self) -> F::Output {
        match self {
            Self::Done(output) => output.take().expect("it is taken once"),
            Self::Pending(_) => unreachable!("it is taken when all are done"),
        }
    }
}
