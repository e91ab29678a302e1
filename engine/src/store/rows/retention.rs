//! What is past its retention.

use std::time::Duration;

use coord_core::Result;

use super::super::retention::{Retire, Tenant, portion};
use super::{read, unsigned};
use crate::model::Timestamp;

/// A run that may go.
#[derive(Clone, Debug, sqlx::FromRow, serde::Serialize)]
pub(in super::super) struct DueRow {
    pub(in super::super) namespace: String,
    pub(in super::super) workflow_id: String,
    pub(in super::super) run_id: String,
    pub(in super::super) history_length: i64,
}

impl DueRow {
    /// Those of `due` that go at once, in the order of their instances.
    pub(in super::super) fn portion(due: Vec<Self>, retire: &Retire) -> Result<Vec<Self>> {
        let sized = due.into_iter().map(|row| {
            let length = unsigned(row.history_length)?;
            Ok((row, length))
        });
        let mut going = portion(sized.collect::<Result<_>>()?, retire);
        going.sort_by(|one, other| {
            let key = |row: &Self| (row.workflow_id.clone(), row.run_id.clone());
            key(one).cmp(&key(other))
        });
        Ok(going)
    }

    /// The ids of their runs, in ascending order.
    pub(in super::super) fn runs(rows: &[Self]) -> Vec<String> {
        let mut runs: Vec<_> = rows.iter().map(|row| row.run_id.clone()).collect();
        runs.sort();
        runs
    }
}

/// A row of the tenants, with what `workflow_namespaces` says of each.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct TenantRow {
    pub(in super::super) namespace: String,
    pub(in super::super) retention_us: Option<i64>,
    pub(in super::super) oldest_closed: Option<i64>,
}

impl TenantRow {
    pub(in super::super) fn tenants(rows: Vec<Self>) -> Result<Vec<Tenant>> {
        let tenants = rows.into_iter().map(|row| {
            let span = row.retention_us.map(unsigned).transpose()?;
            Ok(Tenant {
                namespace: read(row.namespace, "namespace")?,
                retention: span.map(Duration::from_micros),
                oldest_closed: row.oldest_closed.map(Timestamp::from_micros),
            })
        });
        tenants.collect()
    }
}
