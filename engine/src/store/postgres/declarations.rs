//! The search attributes that a namespace declares. Each call is a single statement.

use coord_core::Result;

use super::super::declarations::{Declaration, Declarations, MAX_DECLARATIONS, from_rows};
use super::Postgres;
use super::error::{at, at_commit};
use super::single::Single;
use crate::model::Namespace;

const DECLARE: &str = "
    INSERT INTO workflow_attribute_declarations (namespace, name, kind)
    SELECT $1, $2, $3
    WHERE (SELECT count(*) FROM workflow_attribute_declarations WHERE namespace = $1) < $4
    ON CONFLICT (namespace, name) DO NOTHING";

const WITHDRAW: &str =
    "DELETE FROM workflow_attribute_declarations WHERE namespace = $1 AND name = $2";

const LIST: &str = "SELECT name, kind FROM workflow_attribute_declarations WHERE namespace = $1";

pub(super) async fn declare(store: &Postgres, new: &Declaration) -> Result<bool> {
    const WHAT: &str = "declaring a search attribute";
    let mut connection = Single::begin(store, WHAT).await?;
    let declared = store
        .statements
        .done(DECLARE)
        .bind(new.namespace.as_str())
        .bind(new.name.as_str())
        .bind(new.kind.word())
        .bind(i64::from(MAX_DECLARATIONS))
        .execute(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    Ok(declared.rows_affected() > 0)
}

pub(super) async fn withdraw(store: &Postgres, namespace: &Namespace, name: &str) -> Result<bool> {
    const WHAT: &str = "withdrawing a search attribute";
    let mut connection = Single::begin(store, WHAT).await?;
    let withdrawn = store
        .statements
        .done(WITHDRAW)
        .bind(namespace.as_str())
        .bind(name)
        .execute(&mut *connection)
        .await
        .map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    Ok(withdrawn.rows_affected() > 0)
}

pub(super) async fn list(store: &Postgres, namespace: &Namespace) -> Result<Declarations> {
    const WHAT: &str = "listing search attributes";
    let mut connection = Single::begin(store, WHAT).await?;
    let rows = store.statements.rows(LIST).bind(namespace.as_str());
    let rows: Vec<(String, String)> = rows.fetch_all(&mut *connection).await.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    from_rows(rows)
}
