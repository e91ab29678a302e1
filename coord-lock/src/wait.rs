//! Waiting for a lock: try, subscribe, try again, then sleep until there is news. Where the client
//! still has the subscription of an earlier wait, the first try is enough.

use std::time::Duration;

use coord_core::{Backoff, Error, ErrorKind, Result};
use coord_lease::Holder;
use coord_redis::{Notice, Subscription};
use tokio::time::Instant;

use crate::Order;
use crate::claim::{Attempt, Claim, Granted, Heard, OFFER, REFRESH};

/// Those who wait for the same end do not all ask in the same instant.
const SPREAD: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_millis(200));

/// What the client that a release names has ahead of the others: more than a round trip, so that
/// mostly it alone asks; little enough that one which is dead costs the others next to nothing.
const HEAD_START: Duration = Duration::from_millis(5);

/// Those who come after it do not all ask in the same instant either.
const STAGGER: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(10));

/// Between two attempts that Redis did not take.
const RETRY: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));

/// Waits until `claim` is granted, at most until `deadline`.
///
/// A message that is lost costs no more than the time the lock lasts: the sleep ends when the
/// lock would. One attempt comes after the subscription, so a release in between is seen.
pub(crate) async fn until_granted(claim: &mut Claim, deadline: Instant) -> Result<Granted> {
    let mut subscription = claim.news().kept(&claim.channel());
    let granted = asking(claim, &mut subscription, deadline).await;
    if let Some(subscription) = subscription {
        claim.news().keep(subscription, claim.redis());
    }
    granted
}

async fn asking(
    claim: &mut Claim,
    subscription: &mut Option<Subscription>,
    deadline: Instant,
) -> Result<Granted> {
    let (mut holder, mut waited) = (None, false);
    let mut failures = 0;
    loop {
        let waits = subscription.is_some() || claim.order() == Order::Fifo;
        let limit = limit(claim, deadline);
        let rested = match claim.attempt(waits, limit).await {
            Ok(Attempt::Granted(granted)) => {
                if !waited {
                    // Whoever did not wait does not prolong what others did.
                    *subscription = None;
                }
                return Ok(granted);
            }
            Ok(Attempt::Held(by)) => {
                (failures, waited) = (0, true);
                let remaining = by.remaining;
                holder = Some(by);
                match &mut *subscription {
                    Some(subscription) => rest(claim, subscription, remaining, deadline).await,
                    none => subscribe(claim, deadline).await.map(|made| {
                        *none = made;
                        None
                    }),
                }
            }
            Err(error) => Err(error),
        };
        let over = match rested {
            Ok(Some(granted)) => return Ok(granted),
            Ok(None) => Instant::now() >= deadline,
            Err(error) => {
                let delay = RETRY.jittered(failures);
                failures += 1;
                if !may_pass(&error) {
                    return Err(error);
                }
                let over = Instant::now() + delay >= deadline;
                // The end of the wait cut the last request short: that says nothing about Redis.
                let cut_short = over && limit < claim.redis().deadline();
                if !cut_short {
                    holder = None;
                }
                if over && holder.is_none() {
                    return Err(error);
                }
                tokio::time::sleep_until(deadline.min(Instant::now() + delay)).await;
                over
            }
        };
        if let (true, Some(holder)) = (over, &holder) {
            return Err(contended(claim, holder));
        }
    }
}

/// Nothing when `deadline` came first.
async fn subscribe(claim: &Claim, deadline: Instant) -> Result<Option<Subscription>> {
    let channel = claim.channel();
    let subscribing = claim.redis().subscribe(&channel);
    match tokio::time::timeout_at(deadline, subscribing).await {
        Ok(subscription) => subscription.map(Some),
        Err(_) => Ok(None),
    }
}

/// Sleeps until the lock is granted, or it is worth while to ask again, or until `deadline`.
async fn rest(
    claim: &Claim,
    subscription: &mut Subscription,
    remaining: Duration,
    deadline: Instant,
) -> Result<Option<Granted>> {
    let in_a_while = |time: Duration| Instant::now() + time + SPREAD.jittered(0);
    let mut end = deadline.min(in_a_while(remaining));
    if claim.order() == Order::Fifo {
        end = end.min(Instant::now() + REFRESH);
    }
    let mut wake = end;
    loop {
        let notice = tokio::select! {
            notice = subscription.next() => notice,
            () = tokio::time::sleep_until(wake) => return Ok(None),
        };
        match notice {
            Some(Notice::Message(message)) => match claim.heard(&message, Instant::now()) {
                Heard::Ask => return Ok(None),
                Heard::Granted(granted) => return Ok(Some(granted)),
                // It is free again by then if the other one does not confirm.
                Heard::Offered => wake = wake.min(in_a_while(OFFER)),
                // Another release in the meantime names another client, which comes first again.
                Heard::After => {
                    wake = end.min(Instant::now() + HEAD_START + STAGGER.jittered(0));
                }
            },
            Some(Notice::Gap(_) | Notice::Lagged(_)) => return Ok(None),
            None => {
                return Err(Error::unavailable(format!(
                    "waiting for the lock {}: the client is shut down",
                    claim.keys().lock
                )));
            }
        }
    }
}

/// What one request may take of the whole wait.
fn limit(claim: &Claim, deadline: Instant) -> Duration {
    let left = deadline.saturating_duration_since(Instant::now());
    left.min(claim.redis().deadline())
}

fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

fn contended(claim: &Claim, holder: &Holder) -> Error {
    let lock = &claim.keys().lock;
    let message = match holder.owner() {
        Some(owner) => format!(
            "the lock {lock}: held by {} on {}, process {}, for the whole wait",
            owner.name(),
            owner.host(),
            owner.pid()
        ),
        None => format!("the lock {lock}: held by others for the whole wait"),
    };
    Error::contended(message)
}
