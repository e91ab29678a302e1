//! Whether the schema can be read here.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::error::at_schema;

const ONE: &str = "SELECT count(*) FROM (SELECT 1 FROM workflow_namespaces LIMIT 1) found";

pub(super) async fn look(pool: &MySqlPool) -> Result<()> {
    let looked: sqlx::Result<i64> = sqlx::query_scalar(ONE).fetch_one(pool).await;
    looked
        .map(drop)
        .map_err(at_schema("looking for the tables"))
}
