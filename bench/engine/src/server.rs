//! PostgreSQL, and what it says of its own work.

use std::time::Duration;

use coord_bench_measure::Result;
use sqlx::{Connection, Executor, PgConnection};

/// A session tells what it did at most once a second, and when it has rested for ten.
const TOLD: Duration = Duration::from_secs(11);

/// The server under test. Each side has a database of its own on it.
pub(crate) struct Server {
    url: String,
}

/// What one side has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Transactions that wrote, of all databases.
    pub(crate) writes: f64,
    /// Bytes of the write-ahead log, of all databases.
    pub(crate) wal: f64,
    /// Transactions of any kind.
    pub(crate) commits: f64,
    /// Rows that were inserted, updated or deleted.
    pub(crate) rows: f64,
    /// Of these, those that left a dead one behind.
    pub(crate) dead: f64,
}

impl Usage {
    /// What was done after `before`, by each of `ops`.
    pub(crate) fn each(self, before: Self, ops: u64) -> Self {
        let each = |now: f64, before: f64| (now - before) / ops.max(1) as f64;
        Self {
            writes: each(self.writes, before.writes),
            wal: each(self.wal, before.wal),
            commits: each(self.commits, before.commits),
            rows: each(self.rows, before.rows),
            dead: each(self.dead, before.dead),
        }
    }
}

impl Server {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
        }
    }

    pub(crate) fn url_of(&self, database: &str) -> String {
        format!("{}/{database}", self.url)
    }

    async fn connect(&self, database: &str) -> Result<PgConnection> {
        Ok(PgConnection::connect(&self.url_of(database)).await?)
    }

    /// What it is, and the settings on which the figures depend most.
    pub(crate) async fn identity(&self) -> Result<String> {
        let mut connection = self.connect("postgres").await?;
        let setting = async |connection: &mut PgConnection, name: &str| -> Result<String> {
            let value = sqlx::query_scalar("SELECT current_setting($1)").bind(name);
            Ok(value.fetch_one(connection).await?)
        };
        let version = setting(&mut connection, "server_version").await?;
        let fsync = setting(&mut connection, "fsync").await?;
        let commit = setting(&mut connection, "synchronous_commit").await?;
        Ok(format!(
            "PostgreSQL {version}, fsync {fsync}, synchronous_commit {commit}"
        ))
    }

    /// An empty database of this name.
    pub(crate) async fn create(&self, database: &str) -> Result<String> {
        self.drop(database).await?;
        self.run(&format!("CREATE DATABASE {database} TEMPLATE template0"))
            .await?;
        Ok(self.url_of(database))
    }

    pub(crate) async fn drop(&self, database: &str) -> Result<()> {
        self.run(&format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"))
            .await
    }

    /// Makes each flush of the sessions to come last about `us` microseconds longer.
    pub(crate) async fn slow_down(&self, database: &str, us: u32) -> Result<()> {
        self.run(&format!(
            "ALTER DATABASE {database} SET commit_delay = {us}"
        ))
        .await?;
        self.run(&format!(
            "ALTER DATABASE {database} SET commit_siblings = 0"
        ))
        .await
    }

    /// Carries out `statements` in `database`, each with `size` where it asks for one.
    pub(crate) async fn fill(
        &self,
        database: &str,
        statements: &'static [&'static str],
        size: i64,
    ) -> Result<()> {
        let mut connection = self.connect(database).await?;
        for statement in statements {
            let query = sqlx::query(*statement);
            let query = if statement.contains("$1") {
                query.bind(size)
            } else {
                query
            };
            query.execute(&mut connection).await?;
        }
        Ok(())
    }

    /// Ends all sessions of `database`.
    pub(crate) async fn end_sessions(&self, database: &str) -> Result<()> {
        self.run(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
        ))
        .await
    }

    /// Lets nobody into `database`, and ends the sessions of those who are.
    pub(crate) async fn close(&self, database: &str) -> Result<()> {
        self.run(&format!(
            "ALTER DATABASE {database} ALLOW_CONNECTIONS false"
        ))
        .await?;
        self.end_sessions(database).await
    }

    /// Undoes [`close`](Self::close).
    pub(crate) async fn open(&self, database: &str) -> Result<()> {
        self.run(&format!("ALTER DATABASE {database} ALLOW_CONNECTIONS true"))
            .await
    }

    /// Ends all sessions of `database`, and takes every connection that the server has.
    pub(crate) async fn take_all_connections(&self, database: &str) -> Result<Vec<PgConnection>> {
        self.end_sessions(database).await?;
        let mut taken = Vec::new();
        loop {
            match self.connect("postgres").await {
                Ok(connection) => taken.push(connection),
                Err(_) if !taken.is_empty() => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
    }

    async fn run(&self, sql: &str) -> Result<()> {
        let mut connection = self.connect("postgres").await?;
        connection
            .execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())))
            .await?;
        Ok(())
    }

    /// Waits until idle sessions have told what they did.
    pub(crate) async fn hear() {
        tokio::time::sleep(TOLD).await;
    }

    /// What `database` has done, as far as its sessions have told.
    pub(crate) async fn usage(&self, database: &str) -> Result<Usage> {
        let mut connection = self.connect("postgres").await?;
        let (writes, wal, commits, inserted, updated, deleted): (f64, f64, f64, f64, f64, f64) =
            sqlx::query_as(
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8,
                    (pg_current_wal_insert_lsn() - '0/0')::float8, xact_commit::float8,
                    tup_inserted::float8, tup_updated::float8, tup_deleted::float8
                 FROM pg_stat_database WHERE datname = $1",
            )
            .bind(database)
            .fetch_one(&mut connection)
            .await?;
        Ok(Usage {
            writes,
            wal,
            commits,
            rows: inserted + updated + deleted,
            dead: updated + deleted,
        })
    }
}
