//! MySQL or MariaDB.

use coord_bench_measure::Result;
use sqlx::{Connection, Executor, MySqlConnection};

/// The server, with a database for ours.
pub(crate) struct MySql {
    url: String,
}

impl MySql {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
        }
    }

    /// What it is, and the settings on which the figures depend most.
    pub(crate) async fn identity(&self) -> Result<String> {
        let mut connection = MySqlConnection::connect(&self.url).await?;
        let settings = sqlx::query_as(
            "SELECT version(), CAST(@@innodb_flush_log_at_trx_commit AS CHAR), CAST(@@log_bin AS CHAR)",
        );
        let (version, flush, log): (String, String, String) =
            settings.fetch_one(&mut connection).await?;
        Ok(format!(
            "{version}, innodb_flush_log_at_trx_commit {flush}, log_bin {log}"
        ))
    }

    /// An empty database of this name.
    pub(crate) async fn create(&self, database: &str) -> Result<String> {
        self.drop(database).await?;
        self.run(&format!("CREATE DATABASE {database}")).await?;
        Ok(format!("{}/{database}", self.url))
    }

    pub(crate) async fn drop(&self, database: &str) -> Result<()> {
        self.run(&format!("DROP DATABASE IF EXISTS {database}"))
            .await
    }

    async fn run(&self, sql: &str) -> Result<()> {
        let mut connection = MySqlConnection::connect(&self.url).await?;
        let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()));
        connection.execute(sql).await?;
        Ok(())
    }
}
