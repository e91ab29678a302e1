//! Claims that keep within quotas: one after the other, behind the rows of their quotas.

use coord_core::Result;

use super::super::quotas::Entered;
use super::super::{Claim, Claimed};
use super::claim::{self, CLAIMING};
use super::error::{at, at_commit};
use super::handed;
use super::shares;
use super::{Postgres, WRITE};
use crate::model::Timestamp;

const ENTER: &str = "
    INSERT INTO engine_quotas AS q (namespace, queue, task_type, paid_until) VALUES ($1, $2, $3, 0)
    ON CONFLICT (namespace, queue, task_type) DO UPDATE SET paid_until = q.paid_until
    RETURNING paid_until";

const ACTIVE: &str = "
    SELECT count(*) FROM workflow_tasks
    WHERE status = 'leased' AND namespace = $1 AND ($2 = '' OR queue = $2) AND task_type = $3
      AND lease_expires_at > $4";

const PAY: &str = "
    UPDATE engine_quotas SET paid_until = $4
    WHERE namespace = $1 AND queue = $2 AND task_type = $3";

pub(super) async fn claim(store: &Postgres, claim: &Claim) -> Result<Claimed> {
    const WHAT: &str = CLAIMING;
    if claim.quotas.is_empty() {
        return claim::claim(store, claim).await;
    }
    let namespace = claim.namespace.as_str();
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let mut entered = Vec::new();
    for quota in &claim.quotas {
        let (queue, kind) = (quota.of.queue(claim), quota.kind.as_str());
        let paid = store.statements.rows(ENTER).bind(namespace);
        let paid = paid.bind(queue).bind(kind);
        let paid = paid.fetch_one(&mut *transaction.inner).await;
        let (paid_until,): (i64,) = paid.map_err(at(WHAT))?;
        entered.push(Entered {
            quota: *quota,
            active: 0,
            paid_until,
        });
    }
    // After the locks: what others have claimed until then is there to be counted.
    let now = claim::now(&mut transaction).await?;
    for it in &mut entered {
        let (queue, kind) = (it.quota.of.queue(claim), it.quota.kind.as_str());
        let active = store.statements.rows(ACTIVE).bind(namespace);
        let active = active.bind(queue).bind(kind).bind(now);
        let active = active.fetch_one(&mut *transaction.inner).await;
        let (active,): (i64,) = active.map_err(at(WHAT))?;
        it.active = u64::try_from(active).unwrap_or(0);
    }
    let bounded = claim.within(&entered, now);
    let (claimed, charges) = if bounded.claim.wanted.is_empty() {
        let claimed = Claimed {
            now: Timestamp::from_micros(now),
            tasks: Vec::new(),
            next_due: None,
            held_back: Vec::new(),
        };
        (claimed, Vec::new())
    } else {
        handed::take(store, &mut transaction.inner, &bounded.claim).await?
    };
    for it in &entered {
        let paid = it.paid(&claimed);
        if paid != it.paid_until {
            let (queue, kind) = (it.quota.of.queue(claim), it.quota.kind.as_str());
            let pay = store.statements.done(PAY).bind(namespace);
            let pay = pay.bind(queue).bind(kind).bind(paid);
            let pay = pay.execute(&mut *transaction.inner).await;
            pay.map_err(at(WHAT))?;
        }
    }
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    shares::charge(store, claim, &charges).await;
    Ok(claimed.within(bounded))
}
