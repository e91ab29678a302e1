//! Tenants by name. Each call is a single statement.

use coord_core::Result;

use super::super::rows::NamespaceRow;
use super::super::{
    NamespaceChange, NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace,
};
use super::Postgres;
use super::error::{at, at_commit};
use super::single::Single;
use super::sql::clock;
use crate::model::{Namespace, micros};

const CREATE: &str = concat!(
    "INSERT INTO workflow_namespaces (namespace, description, retention_us, created_at)
     SELECT $1, $2, $3, ",
    clock!(),
    " ON CONFLICT (namespace) DO NOTHING RETURNING created_at"
);

const CHANGE: &str = "
    UPDATE workflow_namespaces
    SET description = coalesce($2, description), retention_us = coalesce($3, retention_us)
    WHERE namespace = $1";

const ONE: &str = "
    SELECT namespace, description, retention_us, created_at
    FROM workflow_namespaces WHERE namespace = $1";

const LIST: &str = "
    SELECT namespace, description, retention_us, created_at
    FROM workflow_namespaces WHERE namespace > $1 ORDER BY namespace LIMIT $2";

pub(super) async fn create(store: &Postgres, new: &NewNamespace) -> Result<bool> {
    const WHAT: &str = "registering a namespace";
    let mut connection = Single::begin(store, WHAT).await?;
    let created: Option<(i64,)> = store
        .statements
        .rows(CREATE)
        .bind(new.namespace.as_str())
        .bind(new.description.as_deref())
        .bind(micros(new.retention))
        .fetch_optional(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    Ok(created.is_some())
}

pub(super) async fn change(store: &Postgres, change: &NamespaceChange) -> Result<bool> {
    const WHAT: &str = "changing a namespace";
    let mut connection = Single::begin(store, WHAT).await?;
    let changed = store
        .statements
        .done(CHANGE)
        .bind(change.namespace.as_str())
        .bind(change.description.as_deref())
        .bind(change.retention.map(micros))
        .execute(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    Ok(changed.rows_affected() > 0)
}

pub(super) async fn describe(
    store: &Postgres,
    namespace: &Namespace,
) -> Result<Option<NamespaceRecord>> {
    const WHAT: &str = "describing a namespace";
    let mut connection = Single::begin(store, WHAT).await?;
    let row = store.statements.rows(ONE).bind(namespace.as_str());
    let row: Option<NamespaceRow> = row
        .fetch_optional(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    row.map(NamespaceRow::record).transpose()
}

pub(super) async fn list(store: &Postgres, listing: &NamespaceListing) -> Result<NamespacePage> {
    const WHAT: &str = "listing namespaces";
    let mut connection = Single::begin(store, WHAT).await?;
    let rows: Vec<NamespaceRow> = store
        .statements
        .rows(LIST)
        .bind(listing.place())
        .bind(i64::from(listing.limit) + 1)
        .fetch_all(&mut *connection)
        .await
        .map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    NamespaceRow::page(rows, listing)
}
