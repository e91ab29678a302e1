//! One claim, and what became of it.

use coord_core::{ClaimToken, Error, ErrorKind, FencingToken, Key, Result, Ttl};
use coord_redis::{Command, Receipt, Reply, Script};
use tokio::time::Instant;

use crate::hold::Grant;
use crate::lease::{self, Lease, RemoveResult};
use crate::schedule::valid_until;
use crate::signals::{Loss, Operation, Outcome, Signal, reported};
use crate::{Holder, Leases};

/// Claims a lease that is free, or renews it if the same claim has it already.
static CLAIM: Script = crate::lease_script!("lease.claim", include_str!("lua/claim.lua"));

/// What a claim found.
#[derive(Debug)]
#[must_use = "a lease that is dropped is released"]
pub enum Claim {
    /// The lease is ours until it is released, dropped or lost.
    Claimed(Lease),
    /// Another claim holds it.
    Held(Holder),
}

impl Claim {
    /// The lease, if it was claimed.
    pub fn claimed(self) -> Option<Lease> {
        match self {
            Self::Claimed(lease) => Some(lease),
            Self::Held(_) => None,
        }
    }

    /// Who holds it, if it was not.
    pub fn held(self) -> Option<Holder> {
        match self {
            Self::Claimed(_) => None,
            Self::Held(holder) => Some(holder),
        }
    }
}

/// A claim that can be made again when its outcome is unknown: [`Leases::prepare`] gives one.
///
/// Every attempt carries the same token, so one that finds its own earlier success has the lease,
/// with the same fence. Dropping it undoes, in the background, what an unanswered attempt may
/// have claimed.
#[derive(Debug)]
pub struct Pending {
    leases: Leases,
    key: Key,
    record: Key,
    owner: String,
    ttl: Ttl,
    token: ClaimToken,
    receipt: Receipt,
    /// Whether an attempt may have claimed the lease, or still may.
    unknown: bool,
}

impl Pending {
    pub(crate) fn new(leases: Leases, key: Key, owner: String, ttl: Ttl) -> Self {
        Self {
            leases,
            record: crate::format::record(&key),
            key,
            owner,
            ttl,
            token: ClaimToken::random(),
            receipt: Receipt::default(),
            unknown: false,
        }
    }

    /// Claims the lease, or says who holds it. After a success the next call is a new claim.
    ///
    /// # Errors
    /// As [`Leases::claim`]; only that what a `Timeout` may have claimed stays until the next
    /// call finds it or this is dropped.
    ///
    /// # Cancel safety
    /// Safe: call it again, or drop this.
    pub async fn claim(&mut self) -> Result<Claim> {
        let sent_at = Instant::now();
        let unknown = std::mem::replace(&mut self.unknown, true);
        let answer = self.leases.redis().run(&self.command()).await;
        let claim = match answer {
            Ok(reply) => self.answered(reply, sent_at),
            Err(error) => {
                self.unknown = match error.kind() {
                    ErrorKind::Unavailable => unknown,
                    ErrorKind::Timeout => true,
                    _ => self.receipt.is_split(),
                };
                Err(error)
            }
        };
        reported(Operation::Claim, claim)
    }

    fn command(&self) -> Command {
        CLAIM
            .call(&[&self.key, &self.record])
            .arg(self.token.as_str())
            .arg(self.ttl.as_millis())
            .arg(&self.owner)
            .idempotent()
            .receipt(&self.receipt)
    }

    fn answered(&mut self, reply: Reply, sent_at: Instant) -> Result<Claim> {
        let elapsed_ms = sent_at.elapsed();
        let [claimed, answer] = reply.array()?;
        if claimed.int()? == 0 {
            let holder = Holder::from_reply(answer)?;
            self.unknown = self.receipt.is_split();
            let outcome = Outcome::Held;
            Signal::Claim {
                outcome,
                elapsed_ms,
            }
            .emit();
            return Ok(Claim::Held(holder));
        }
        let fence = answer.text()?.parse()?;
        if valid_until(sent_at, self.ttl) <= Instant::now() {
            let key = &self.key;
            return Err(Error::timeout(format!(
                "claiming {key}: the answer came when the lease could have ended already"
            )));
        }
        let lease = self.lease(fence, sent_at);
        let outcome = Outcome::Claimed;
        Signal::Claim {
            outcome,
            elapsed_ms,
        }
        .emit();
        Ok(Claim::Claimed(lease))
    }

    /// Hands the claim over to a lease; what comes next is another claim.
    fn lease(&mut self, fence: FencingToken, sent_at: Instant) -> Lease {
        self.unknown = false;
        let grant = Grant {
            key: self.key.clone(),
            record: self.record.clone(),
            token: std::mem::replace(&mut self.token, ClaimToken::random()),
            fence,
            life: self.ttl,
            ttl: self.ttl,
            sent_at,
            on_loss: lost,
        };
        let receipt = std::mem::take(&mut self.receipt);
        Lease::new(
            self.leases.redis().clone(),
            self.leases.hold(grant),
            receipt,
        )
    }
}

fn lost(lease: &Key, fence: FencingToken, cause: Loss) {
    let lease = lease.clone();
    Signal::Lost {
        cause,
        lease,
        fence,
    }
    .emit();
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.unknown || self.receipt.is_empty() {
            return;
        }
        let redis = self.leases.redis().clone();
        let undo = lease::remove(&self.key, &self.record, lease::By::Token(&self.token));
        let receipt = self.receipt.clone();
        let until = Instant::now() + self.ttl.as_duration() + redis.deadline();
        self.leases.redis().spawn(async move {
            // What is left when it fails is reported there, and ends by its TTL.
            _ = redis
                .settle(&undo, &receipt, RemoveResult::removed, until)
                .await;
        });
    }
}
