//! Tenants by name.

use std::time::Duration;

use coord_core::Result;

use super::super::namespaces::{NamespaceListing, NamespacePage, NamespaceRecord};
use super::{read, unsigned};
use crate::model::{Namespace, Timestamp};

/// A row of `workflow_namespaces`.
#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct NamespaceRow {
    pub(in super::super) namespace: String,
    pub(in super::super) description: Option<String>,
    pub(in super::super) retention_us: i64,
    pub(in super::super) created_at: i64,
}

impl NamespaceRow {
    pub(in super::super) fn record(self) -> Result<NamespaceRecord> {
        Ok(NamespaceRecord {
            namespace: read(self.namespace, "namespace")?,
            description: self.description,
            retention: Duration::from_micros(unsigned(self.retention_us)?),
            created_at: (self.created_at > 0).then(|| Timestamp::from_micros(self.created_at)),
        })
    }

    pub(in super::super) fn page(
        rows: Vec<Self>,
        listing: &NamespaceListing,
    ) -> Result<NamespacePage> {
        let records = rows.into_iter().map(Self::record);
        Ok(listing.page(records.collect::<Result<_>>()?))
    }
}

impl NamespaceListing {
    /// The name before the first namespace that is wanted.
    pub(in super::super) fn place(&self) -> &str {
        self.after.as_ref().map_or("", Namespace::as_str)
    }
}
