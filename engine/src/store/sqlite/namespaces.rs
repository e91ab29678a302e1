//! Tenants by name. Each call is a single statement.

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::super::rows::NamespaceRow;
use super::super::{
    NamespaceChange, NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace,
};
use super::error::{at, at_commit};
use super::sql::clock;
use crate::model::{Namespace, micros};

const CREATE: &str = concat!(
    "INSERT INTO workflow_namespaces (namespace, description, retention_us, created_at)
     SELECT ?1, ?2, ?3, ",
    clock!(),
    " WHERE true ON CONFLICT (namespace) DO NOTHING"
);

const CHANGE: &str = "
    UPDATE workflow_namespaces
    SET description = coalesce(?2, description), retention_us = coalesce(?3, retention_us)
    WHERE namespace = ?1";

const ONE: &str = "
    SELECT namespace, description, retention_us, created_at
    FROM workflow_namespaces WHERE namespace = ?1";

const LIST: &str = "
    SELECT namespace, description, retention_us, created_at
    FROM workflow_namespaces WHERE namespace > ?1 ORDER BY namespace LIMIT ?2";

pub(super) async fn create(pool: &SqlitePool, new: &NewNamespace) -> Result<bool> {
    let created = sqlx::query(CREATE)
        .bind(new.namespace.as_str())
        .bind(new.description.as_deref())
        .bind(micros(new.retention))
        .execute(pool)
        .await
        .map_err(at_commit("registering a namespace"))?;
    Ok(created.rows_affected() > 0)
}

pub(super) async fn change(pool: &SqlitePool, change: &NamespaceChange) -> Result<bool> {
    let changed = sqlx::query(CHANGE)
        .bind(change.namespace.as_str())
        .bind(change.description.as_deref())
        .bind(change.retention.map(micros))
        .execute(pool)
        .await
        .map_err(at_commit("changing a namespace"))?;
    Ok(changed.rows_affected() > 0)
}

pub(super) async fn describe(
    pool: &SqlitePool,
    namespace: &Namespace,
) -> Result<Option<NamespaceRecord>> {
    let row = sqlx::query_as(ONE).bind(namespace.as_str());
    let row: sqlx::Result<Option<NamespaceRow>> = row.fetch_optional(pool).await;
    let row = row.map_err(at("describing a namespace"))?;
    row.map(NamespaceRow::record).transpose()
}

pub(super) async fn list(pool: &SqlitePool, listing: &NamespaceListing) -> Result<NamespacePage> {
    let rows = sqlx::query_as(LIST)
        .bind(listing.place())
        .bind(i64::from(listing.limit) + 1)
        .fetch_all(pool)
        .await;
    NamespaceRow::page(rows.map_err(at("listing namespaces"))?, listing)
}
