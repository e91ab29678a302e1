//! The search attributes that a namespace declares. Each call is a single statement.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::declarations::{Declaration, Declarations, MAX_DECLARATIONS, from_rows};
use super::error::{at, at_commit};
use crate::model::Namespace;

/// What is declared already is ignored, and nothing else can be: a declaration was checked.
const DECLARE: &str = "
    INSERT IGNORE INTO workflow_attribute_declarations (namespace, name, kind)
    SELECT ?, ?, ? FROM DUAL
    WHERE (SELECT count(*) FROM workflow_attribute_declarations AS made WHERE namespace = ?) < ?";

const WITHDRAW: &str =
    "DELETE FROM workflow_attribute_declarations WHERE namespace = ? AND name = ?";

const LIST: &str = "SELECT name, kind FROM workflow_attribute_declarations WHERE namespace = ?";

pub(super) async fn declare(pool: &MySqlPool, new: &Declaration) -> Result<bool> {
    let declared = sqlx::query(DECLARE)
        .bind(new.namespace.as_str())
        .bind(new.name.as_str())
        .bind(new.kind.word())
        .bind(new.namespace.as_str())
        .bind(i64::from(MAX_DECLARATIONS))
        .execute(pool)
        .await
        .map_err(at_commit("declaring a search attribute"))?;
    Ok(declared.rows_affected() > 0)
}

pub(super) async fn withdraw(pool: &MySqlPool, namespace: &Namespace, name: &str) -> Result<bool> {
    let withdrawn = sqlx::query(WITHDRAW)
        .bind(namespace.as_str())
        .bind(name)
        .execute(pool)
        .await
        .map_err(at_commit("withdrawing a search attribute"))?;
    Ok(withdrawn.rows_affected() > 0)
}

pub(super) async fn list(pool: &MySqlPool, namespace: &Namespace) -> Result<Declarations> {
    let rows = sqlx::query_as(LIST)
        .bind(namespace.as_str())
        .fetch_all(pool)
        .await;
    from_rows(rows.map_err(at("listing search attributes"))?)
}
