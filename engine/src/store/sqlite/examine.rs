//! What SQLite says of itself.

use coord_core::Result;
use sqlx::SqliteConnection;

use super::super::examine::{Examination, Long, Plan, Pooler, Risk, missing};
use super::Sqlite;
use super::claim::CANDIDATES;
use super::error::at;
use super::migrate::STEPS;
use super::sql::CLOCK;
use crate::model::Timestamp;

const WHAT: &str = "examining the database";

/// How many pages the log may have that nobody could copy back: ten times what SQLite lets gather.
const MANY: i64 = 10_000;

pub(super) async fn examine(store: &Sqlite) -> Result<Examination> {
    let mut connection = store.writer.acquire().await.map_err(at(WHAT))?;
    let connection = &mut *connection;
    let now = sqlx::query_scalar(CLOCK).fetch_one(&mut *connection).await;
    let now: i64 = now.map_err(at(WHAT))?;
    let version = sqlx::query_scalar("SELECT sqlite_version()");
    let version: sqlx::Result<String> = version.fetch_one(&mut *connection).await;
    let version = version.map_err(at(WHAT))?;
    let schema = sqlx::query_scalar(super::super::rows::SCHEMA);
    let schema: sqlx::Result<i64> = schema.fetch_one(&mut *connection).await;
    let schema = schema.map_err(at(WHAT))?;
    let there = sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'index'");
    let there: sqlx::Result<Vec<String>> = there.fetch_all(&mut *connection).await;
    Ok(Examination {
        now: Timestamp::from_micros(now),
        server: format!("SQLite {version}"),
        // It is built in.
        too_old: None,
        schema: (u32::try_from(schema).unwrap_or(0), STEPS.len() as u32),
        isolation: None,
        risks: risks(connection, store.presence.is_some()).await?,
        missing_indexes: missing(&STEPS, schema, &there.map_err(at(WHAT))?),
        claim: plan(connection).await,
        pooler: Pooler::None,
        long: long(connection).await?,
    })
}

async fn risks(connection: &mut SqliteConnection, is_file: bool) -> Result<Vec<Risk>> {
    let mut risks = Vec::new();
    let mode = sqlx::query_scalar("PRAGMA journal_mode");
    let mode: sqlx::Result<String> = mode.fetch_one(&mut *connection).await;
    let mode = mode.map_err(at(WHAT))?;
    if is_file && mode != "wal" {
        risks.push(Risk {
            setting: format!("journal_mode = {mode}"),
            danger: "whoever reads waits for whoever writes, as on file systems that cannot share memory",
        });
    }
    let synchronous = sqlx::query_scalar("PRAGMA synchronous");
    let synchronous: sqlx::Result<i64> = synchronous.fetch_one(&mut *connection).await;
    let synchronous = synchronous.map_err(at(WHAT))?;
    if is_file && synchronous < 2 {
        risks.push(Risk {
            setting: format!("synchronous = {synchronous}"),
            danger: "what was confirmed is lost when the power fails",
        });
    }
    Ok(risks)
}

/// The index is named in the statement, so that without it there is no plan.
async fn plan(connection: &mut SqliteConnection) -> Plan {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {CANDIDATES}"));
    let plan: sqlx::Result<Vec<(i64, i64, i64, String)>> = sqlx::query_as(explain)
        .bind("n")
        .bind("q")
        .bind("workflow")
        .bind("[]")
        .bind(None::<String>)
        .bind(1_i64)
        .fetch_all(connection)
        .await;
    match plan {
        Ok(plan) => {
            let steps: Vec<_> = plan.into_iter().map(|(_, _, _, step)| step).collect();
            Plan {
                is_indexed: steps
                    .iter()
                    .any(|step| step.contains("INDEX workflow_tasks_claim")),
                told: steps.join("\n"),
            }
        }
        Err(error) => Plan {
            is_indexed: false,
            told: error.to_string(),
        },
    }
}

/// What cannot be copied from the log into the file, since somebody still reads what was before.
async fn long(connection: &mut SqliteConnection) -> Result<Long> {
    let copied = sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)");
    let copied: sqlx::Result<(i64, i64, i64)> = copied.fetch_one(connection).await;
    let (_, logged, copied) = copied.map_err(at(WHAT))?;
    let left = logged.saturating_sub(copied);
    Ok(if logged > 0 && left >= MANY {
        Long::Pages(u64::try_from(left).unwrap_or(0))
    } else {
        Long::Pages(0)
    })
}
