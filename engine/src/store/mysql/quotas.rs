//! Claims that keep within quotas: one after the other, behind the rows of their quotas.

use coord_core::Result;

use super::super::quotas::Entered;
use super::super::{Claim, Claimed};
use super::batch::Transaction;
use super::error::at;
use super::sql::clock;

const WHAT: &str = "claiming tasks";

/// Makes the row if there is none, and locks it.
const ENTER: &str = "
    INSERT INTO engine_quotas (namespace, queue, task_type, paid_until) VALUES (?, ?, ?, 0)
    ON DUPLICATE KEY UPDATE paid_until = engine_quotas.paid_until";

const PAID: &str = "
    SELECT paid_until FROM engine_quotas
    WHERE namespace = ? AND queue = ? AND task_type = ? FOR UPDATE";

const ACTIVE: &str = concat!(
    "SELECT count(*) FROM workflow_tasks FORCE INDEX (workflow_tasks_leased)
     WHERE status = 'leased' AND namespace = ? AND (? = '' OR queue = ?) AND task_type = ?
       AND lease_expires_at > ",
    clock!()
);

const PAY: &str = "
    UPDATE engine_quotas SET paid_until = ? WHERE namespace = ? AND queue = ? AND task_type = ?";

/// Locks the quotas of `claim`, and reads what they have to count.
pub(super) async fn enter(
    transaction: &mut Transaction<'_>,
    claim: &Claim,
) -> Result<Vec<Entered>> {
    let namespace = claim.namespace.as_str();
    let mut entered = Vec::new();
    for quota in &claim.quotas {
        let (queue, kind) = (quota.of.queue(claim), quota.kind.as_str());
        let enter = sqlx::query(ENTER).bind(namespace).bind(queue).bind(kind);
        let enter = enter.execute(&mut *transaction.inner).await;
        enter.map_err(at(WHAT))?;
        let paid = sqlx::query_scalar(PAID).bind(namespace).bind(queue);
        let paid = paid.bind(kind).fetch_one(&mut *transaction.inner).await;
        entered.push(Entered {
            quota: *quota,
            active: 0,
            paid_until: paid.map_err(at(WHAT))?,
        });
    }
    for it in &mut entered {
        let (queue, kind) = (it.quota.of.queue(claim), it.quota.kind.as_str());
        let active = sqlx::query_scalar(ACTIVE).bind(namespace).bind(queue);
        let active = active.bind(queue).bind(kind);
        let active: i64 = active
            .fetch_one(&mut *transaction.inner)
            .await
            .map_err(at(WHAT))?;
        it.active = u64::try_from(active).unwrap_or(0);
    }
    Ok(entered)
}

/// Counts what was claimed.
pub(super) async fn pay(
    transaction: &mut Transaction<'_>,
    claim: &Claim,
    (entered, claimed): (&[Entered], &Claimed),
) -> Result<()> {
    for it in entered {
        let paid = it.paid(claimed);
        if paid != it.paid_until {
            let pay = sqlx::query(PAY).bind(paid).bind(claim.namespace.as_str());
            let pay = pay
                .bind(it.quota.of.queue(claim))
                .bind(it.quota.kind.as_str());
            let pay = pay.execute(&mut *transaction.inner).await;
            pay.map_err(at(WHAT))?;
        }
    }
    Ok(())
}
