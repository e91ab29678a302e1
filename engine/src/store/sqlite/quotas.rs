//! Claims that keep within quotas: one after the other, as all that write.

use coord_core::Result;
use sqlx::sqlite::SqliteConnection;

use super::super::quotas::Entered;
use super::super::{Claim, Claimed};
use super::error::at;
use super::sql::clock;

const WHAT: &str = "claiming tasks";

const PAID: &str = "
    SELECT paid_until FROM engine_quotas WHERE namespace = ?1 AND queue = ?2 AND task_type = ?3";

const ACTIVE: &str = concat!(
    "SELECT count(*) FROM workflow_tasks
     WHERE status = 'leased' AND namespace = ?1 AND (?2 = '' OR queue = ?2) AND task_type = ?3
       AND lease_expires_at > ",
    clock!()
);

const PAY: &str = "
    INSERT INTO engine_quotas (namespace, queue, task_type, paid_until) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (namespace, queue, task_type) DO UPDATE SET paid_until = excluded.paid_until";

/// What the quotas of `claim` have to count.
pub(super) async fn enter(
    connection: &mut SqliteConnection,
    claim: &Claim,
) -> Result<Vec<Entered>> {
    let mut entered = Vec::new();
    for quota in &claim.quotas {
        let (queue, kind) = (quota.of.queue(claim), quota.kind.as_str());
        let paid = sqlx::query_scalar(PAID).bind(claim.namespace.as_str());
        let paid = paid.bind(queue).bind(kind).fetch_optional(&mut *connection);
        let paid: Option<i64> = paid.await.map_err(at(WHAT))?;
        let active = sqlx::query_scalar(ACTIVE).bind(claim.namespace.as_str());
        let active = active.bind(queue).bind(kind).fetch_one(&mut *connection);
        let active: i64 = active.await.map_err(at(WHAT))?;
        entered.push(Entered {
            quota: *quota,
            active: u64::try_from(active).unwrap_or(0),
            paid_until: paid.unwrap_or(0),
        });
    }
    Ok(entered)
}

/// Counts what was claimed.
pub(super) async fn pay(
    connection: &mut SqliteConnection,
    claim: &Claim,
    (entered, claimed): (&[Entered], &Claimed),
) -> Result<()> {
    for it in entered {
        let paid = it.paid(claimed);
        if paid != it.paid_until {
            let pay = sqlx::query(PAY).bind(claim.namespace.as_str());
            let pay = pay
                .bind(it.quota.of.queue(claim))
                .bind(it.quota.kind.as_str());
            let pay = pay.bind(paid).execute(&mut *connection).await;
            pay.map_err(at(WHAT))?;
        }
    }
    Ok(())
}
