//! The search attributes that a namespace declares. Each call is a single statement.

use coord_core::Result;
use sqlx::sqlite::SqlitePool;

use super::super::declarations::{Declaration, Declarations, MAX_DECLARATIONS, from_rows};
use super::error::{at, at_commit};
use crate::model::Namespace;

const DECLARE: &str = "
    INSERT INTO workflow_attribute_declarations (namespace, name, kind)
    SELECT ?1, ?2, ?3
    WHERE (SELECT count(*) FROM workflow_attribute_declarations WHERE namespace = ?1) < ?4
    ON CONFLICT (namespace, name) DO NOTHING";

const WITHDRAW: &str =
    "DELETE FROM workflow_attribute_declarations WHERE namespace = ?1 AND name = ?2";

const LIST: &str = "SELECT name, kind FROM workflow_attribute_declarations WHERE namespace = ?1";

pub(super) async fn declare(pool: &SqlitePool, new: &Declaration) -> Result<bool> {
    let declared = sqlx::query(DECLARE)
        .bind(new.namespace.as_str())
        .bind(new.name.as_str())
        .bind(new.kind.word())
        .bind(i64::from(MAX_DECLARATIONS))
        .execute(pool)
        .await
        .map_err(at_commit("declaring a search attribute"))?;
    Ok(declared.rows_affected() > 0)
}

pub(super) async fn withdraw(pool: &SqlitePool, namespace: &Namespace, name: &str) -> Result<bool> {
    let withdrawn = sqlx::query(WITHDRAW)
        .bind(namespace.as_str())
        .bind(name)
        .execute(pool)
        .await
        .map_err(at_commit("withdrawing a search attribute"))?;
    Ok(withdrawn.rows_affected() > 0)
}

pub(super) async fn list(pool: &SqlitePool, namespace: &Namespace) -> Result<Declarations> {
    let rows = sqlx::query_as(LIST)
        .bind(namespace.as_str())
        .fetch_all(pool)
        .await;
    from_rows(rows.map_err(at("listing search attributes"))?)
}
