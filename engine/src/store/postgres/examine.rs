//! What the server says of itself: statements in text, since a pooler may be in between.

use std::time::Duration;

use coord_core::Result;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Row};

use super::super::examine::{Examination, Long, Plan, Pooler, Risk, missing};
use super::claim::CLAIM;
use super::error::at;
use super::migrate::{OLDEST, STEPS};
use super::sql::CLOCK;
use super::{Postgres, WRITE};
use crate::model::Timestamp;

const WHAT: &str = "examining the database";

/// Whether a level is kept for the session, and whose: a name that nobody else sets.
const MARK: &str = "coord.examined";
/// How often a pooler that gives sessions in turns is asked.
const LOOKS: u32 = 8;

pub(super) async fn examine(store: &Postgres, long: Duration) -> Result<Examination> {
    let is_pooled = is_pooled(store).await?;
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let connection = &mut *transaction.inner;
    let now = number(connection, CLOCK.to_owned()).await?;
    let version = text(connection, "SHOW server_version".to_owned()).await?;
    let major = "SELECT current_setting('server_version_num')::int8 / 10000";
    let major = number(connection, major.to_owned()).await?;
    let schema = number(connection, super::super::rows::SCHEMA.to_owned()).await?;
    let isolation = text(connection, "SHOW transaction_isolation".to_owned()).await?;
    let there = "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indisvalid AND pg_table_is_visible(i.indrelid)";
    let there = texts(connection, there.to_owned()).await?;
    Ok(Examination {
        now: Timestamp::from_micros(now),
        server: format!("PostgreSQL {version}"),
        too_old: (major < i64::from(OLDEST))
            .then(|| format!("the engine needs PostgreSQL {OLDEST} or newer")),
        schema: (u32::try_from(schema).unwrap_or(0), STEPS.len() as u32),
        isolation: Some(isolation),
        risks: risks(connection).await?,
        missing_indexes: missing(&STEPS, schema, &there),
        claim: plan(connection).await?,
        pooler: match (is_pooled, store.statements.named) {
            (false, _) => Pooler::None,
            (true, false) => Pooler::Told,
            (true, true) => Pooler::Untold,
        },
        long: self::long(connection, long).await?,
    })
}

async fn rows(connection: &mut PgConnection, sql: String) -> Result<Vec<PgRow>> {
    let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(connection);
    rows.await.map_err(at(WHAT))
}

async fn texts(connection: &mut PgConnection, sql: String) -> Result<Vec<String>> {
    let rows = rows(connection, sql).await?;
    let texts = rows.iter().map(|row| row.try_get(0));
    texts.collect::<sqlx::Result<_>>().map_err(at(WHAT))
}

async fn text(connection: &mut PgConnection, sql: String) -> Result<String> {
    let texts = texts(connection, sql).await?;
    Ok(texts.into_iter().next().unwrap_or_default())
}

async fn number(connection: &mut PgConnection, sql: String) -> Result<i64> {
    let rows = rows(connection, sql).await?;
    let number = rows.first().map(|row| row.try_get(0)).transpose();
    Ok(number.map_err(at(WHAT))?.unwrap_or_default())
}

async fn risks(connection: &mut PgConnection) -> Result<Vec<Risk>> {
    let settings = "SELECT name || ' = ' || setting FROM pg_settings WHERE setting = 'off'
        AND name IN ('fsync', 'full_page_writes', 'synchronous_commit') ORDER BY name";
    let settings = texts(connection, settings.to_owned()).await?;
    let risks = settings.into_iter().map(|setting| Risk {
        setting,
        danger: "what was confirmed is lost when the server fails",
    });
    Ok(risks.collect())
}

/// Without scans of whole tables, as sessions of the engine are set up: what is left is whether the
/// index can serve.
async fn plan(connection: &mut PgConnection) -> Result<Plan> {
    let values = [
        "'n'",
        "'q'",
        "NULL::text[]",
        "ARRAY['w']::text[]",
        "1::int8",
        "ARRAY['w']::text[]",
        "1::int8",
        "'o'",
        "1::int8",
        "ARRAY['a']",
        "ARRAY['']",
        "ARRAY[0]",
        "ARRAY[1]",
        "ARRAY[0]",
        "ARRAY['']",
        "ARRAY[0]",
        "ARRAY[1]",
        "ARRAY[0]",
        "NULL::text[]",
    ];
    let mut sql = CLAIM.to_owned();
    for (place, value) in values.iter().enumerate().rev() {
        sql = sql.replace(&format!("${}", place + 1), value);
    }
    rows(connection, "SET LOCAL enable_seqscan = off".to_owned()).await?;
    let plan = texts(connection, format!("EXPLAIN (COSTS OFF) {sql}")).await?;
    Ok(Plan {
        is_indexed: plan
            .iter()
            .any(|line| line.contains("workflow_tasks_claim")),
        told: plan.join("\n"),
    })
}

async fn long(connection: &mut PgConnection, long: Duration) -> Result<Long> {
    // What this user may not see has no beginning.
    let sql = format!(
        "SELECT count(*)::text || ' ' || coalesce(max(extract(epoch FROM since) * 1000)::int8, 0)
            || ' ' || (SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND backend_type = 'client backend'
                AND backend_start IS NULL)
         FROM (
            SELECT clock_timestamp() - xact_start AS since FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            UNION ALL
            SELECT clock_timestamp() - prepared FROM pg_prepared_xacts
            WHERE database = current_database()) AS transactions
         WHERE since > interval '{} milliseconds'",
        long.as_millis()
    );
    let told = text(connection, sql).await?;
    let mut numbers = told.split(' ').map(|part| part.parse::<u64>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let (count, oldest_ms, hidden) = (next(), next(), next());
    Ok(match (count, hidden) {
        (0, 1..) => Long::Hidden,
        _ => Long::Seen(count, Duration::from_millis(oldest_ms)),
    })
}

/// Whether what is set for a session is seen by another one, or not seen again: then a pooler gives
/// each transaction another session.
async fn is_pooled(store: &Postgres) -> Result<bool> {
    // Beside the pool: whoever holds one of its connections does not wait for another one.
    let options = store.sessions.options();
    let get = || async { PgConnection::connect_with(&options).await.map_err(at(WHAT)) };
    let (mut one, mut other) = (get().await?, get().await?);
    let mark = format!("{:032x}", rand::random::<u128>());
    let set = |mark: &str| format!("SELECT set_config('{MARK}', '{mark}', false)");
    let look = || format!("SELECT coalesce(current_setting('{MARK}', true), '')");
    text(&mut one, set(&mark)).await?;
    let mut is_pooled = false;
    for _ in 0..LOOKS {
        let (mine, others) = (
            text(&mut one, look()).await?,
            text(&mut other, look()).await?,
        );
        is_pooled |= mine != mark || others == mark;
    }
    // In a session that is really its own nothing is left behind.
    text(&mut one, set("")).await?;
    for connection in [one, other] {
        connection.close().await.map_err(at(WHAT))?;
    }
    Ok(is_pooled)
}
