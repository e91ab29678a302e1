//! Tenants by name. Each call is a single statement.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::rows::NamespaceRow;
use super::super::{
    NamespaceChange, NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace,
};
use super::error::{at, at_commit};
use super::sql::clock;
use crate::model::{Namespace, micros};

const CREATE: &str = concat!(
    "INSERT INTO workflow_namespaces (namespace, description, retention_us, created_at)
     SELECT ?, ?, ?, ",
    clock!(),
    " FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM workflow_namespaces WHERE namespace = ?)"
);

const CHANGE: &str = "
    UPDATE workflow_namespaces
    SET description = coalesce(?, description), retention_us = coalesce(?, retention_us)
    WHERE namespace = ?";

const ONE: &str = "
    SELECT namespace, description, retention_us, created_at
    FROM workflow_namespaces WHERE namespace = ?";

const LIST: &str = "
    SELECT namespace, description, retention_us, created_at
    FROM workflow_namespaces WHERE namespace > ? ORDER BY namespace LIMIT ?";

pub(super) async fn create(pool: &MySqlPool, new: &NewNamespace) -> Result<bool> {
    let created = sqlx::query(CREATE)
        .bind(new.namespace.as_str())
        .bind(new.description.as_deref())
        .bind(micros(new.retention))
        .bind(new.namespace.as_str())
        .execute(pool)
        .await
        .map_err(at_commit("registering a namespace"))?;
    Ok(created.rows_affected() > 0)
}

pub(super) async fn change(pool: &MySqlPool, change: &NamespaceChange) -> Result<bool> {
    let changed = sqlx::query(CHANGE)
        .bind(change.description.as_deref())
        .bind(change.retention.map(micros))
        .bind(change.namespace.as_str())
        .execute(pool)
        .await
        .map_err(at_commit("changing a namespace"))?;
    // Rows that were found count, also when they were so before: the driver asks for that.
    Ok(changed.rows_affected() > 0)
}

pub(super) async fn describe(
    pool: &MySqlPool,
    namespace: &Namespace,
) -> Result<Option<NamespaceRecord>> {
    let row = sqlx::query_as(ONE).bind(namespace.as_str());
    let row: sqlx::Result<Option<NamespaceRow>> = row.fetch_optional(pool).await;
    let row = row.map_err(at("describing a namespace"))?;
    row.map(NamespaceRow::record).transpose()
}

pub(super) async fn list(pool: &MySqlPool, listing: &NamespaceListing) -> Result<NamespacePage> {
    let rows = sqlx::query_as(LIST)
        .bind(listing.place())
        .bind(i64::from(listing.limit) + 1)
        .fetch_all(pool)
        .await;
    NamespaceRow::page(rows.map_err(at("listing namespaces"))?, listing)
}
