//! Whether the schema can be read here.

use coord_core::{Error, Result};
use sqlx::sqlite::SqlitePool;

use super::error::at;

const TABLE: &str = "SELECT count(*) FROM sqlite_master WHERE name = 'workflow_namespaces'";

pub(super) async fn look(pool: &SqlitePool) -> Result<()> {
    let found: sqlx::Result<i64> = sqlx::query_scalar(TABLE).fetch_one(pool).await;
    if found.map_err(at("looking for the tables"))? > 0 {
        return Ok(());
    }
    let message = "the tables of the engine are not in this file: run `coord migrate`";
    Err(Error::invalid(message))
}
