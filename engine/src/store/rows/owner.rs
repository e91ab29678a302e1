//! Processes that have tasks.

use coord_core::Result;

use super::super::{Incarnation, OwnerRecord};
use super::{TaskRow, read, some, unsigned};
use crate::model::Timestamp;

/// The columns of [`OwnerRow`].
macro_rules! owner_columns {
    () => {
        "instance_id, node_name, build_id, pid, status, heartbeat_at, expires_at"
    };
}
pub(in super::super) use owner_columns;

#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct OwnerRow {
    instance_id: String,
    node_name: String,
    build_id: Option<String>,
    pid: i64,
    status: String,
    heartbeat_at: i64,
    expires_at: i64,
}

impl OwnerRow {
    /// The ids of those who have `tasks`.
    pub(in super::super) fn of(tasks: &[TaskRow]) -> Vec<String> {
        let mut owners: Vec<_> = tasks
            .iter()
            .filter_map(|task| task.lease_owner.clone())
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    pub(in super::super) fn owner(self) -> Result<OwnerRecord> {
        Ok(OwnerRecord {
            incarnation: Incarnation {
                id: read(self.instance_id, "owner id")?,
                node: self.node_name,
                build: some(self.build_id, "build id")?,
                pid: unsigned(self.pid)?,
            },
            is_gone: !matches!(self.status.as_str(), "live" | "draining"),
            heartbeat_at: Timestamp::from_micros(self.heartbeat_at),
            expires_at: Timestamp::from_micros(self.expires_at),
        })
    }
}
