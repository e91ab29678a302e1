//! What the server says of itself.

use std::time::Duration;

use coord_core::Result;
use sqlx::mysql::MySqlRow;
use sqlx::{MySqlConnection, Row};

use super::super::examine::{Examination, Long, Plan, Pooler, Risk, missing};
use super::batch::Transaction;
use super::claim::LOOK;
use super::error::at;
use super::migrate::STEPS;
use super::{Mysql, server};
use crate::model::{Priority, Timestamp};

const WHAT: &str = "examining the database";

const SETTINGS: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation',
    'transaction_isolation', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',
    'binlog_format', 'innodb_doublewrite')";

const INDEXES: &str = "SELECT DISTINCT CONVERT(index_name USING utf8mb4)
    FROM information_schema.statistics WHERE table_schema = DATABASE()";

/// Transactions begin at whole seconds here.
const LONG: &str = "SELECT COUNT(*), CAST(COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, trx_started,
        NOW(6))), 0) AS SIGNED)
    FROM information_schema.innodb_trx
    WHERE trx_mysql_thread_id <> CONNECTION_ID()
        AND TIMESTAMPDIFF(MICROSECOND, trx_started, NOW(6)) > ?";

pub(super) async fn examine(store: &Mysql, long: Duration) -> Result<Examination> {
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let now = transaction.now().await?;
    let connection = &mut *transaction.inner;
    let said = sqlx::query_scalar("SELECT VERSION()");
    let said: sqlx::Result<String> = said.fetch_one(&mut *connection).await;
    let said = said.map_err(at(WHAT))?;
    let product = if said.contains("MariaDB") {
        "MariaDB"
    } else {
        "MySQL"
    };
    let schema = sqlx::query_scalar(super::super::rows::SCHEMA);
    let schema: sqlx::Result<i64> = schema.fetch_one(&mut *connection).await;
    let schema = schema.map_err(at(WHAT))?;
    let settings = sqlx::query_as(SETTINGS).fetch_all(&mut *connection).await;
    let settings: Vec<(String, String)> = settings.map_err(at(WHAT))?;
    let there = sqlx::query_scalar(INDEXES).fetch_all(&mut *connection);
    let there: Vec<String> = there.await.map_err(at(WHAT))?;
    let claim = plan(connection).await;
    let long = self::long(connection, long).await;
    let level = settings
        .iter()
        .find(|(name, _)| name.ends_with("isolation"));
    Ok(Examination {
        now: Timestamp::from_micros(now),
        too_old: server::too_old(&said),
        server: format!("{product} {said}"),
        schema: (u32::try_from(schema).unwrap_or(0), STEPS.len() as u32),
        isolation: level.map(|(_, level)| level.to_ascii_lowercase().replace('-', " ")),
        risks: risks(&settings),
        missing_indexes: missing(&STEPS, schema, &there),
        claim,
        pooler: Pooler::None,
        long,
    })
}

/// What is dangerous of the settings.
fn risks(settings: &[(String, String)]) -> Vec<Risk> {
    let value = |name: &str| {
        let found = settings.iter().find(|(of, _)| of == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let is_logged = value("log_bin").eq_ignore_ascii_case("on");
    let lost = "what was confirmed is lost when the server fails";
    let checks = [
        ("innodb_flush_log_at_trx_commit", "1", true, lost),
        (
            "sync_binlog",
            "1",
            is_logged,
            "what was confirmed may not reach the replicas when the server fails",
        ),
        ("innodb_doublewrite", "on", true, lost),
        (
            "binlog_format",
            "row",
            is_logged && value("binlog_format").eq_ignore_ascii_case("statement"),
            "transactions at READ COMMITTED are refused",
        ),
    ];
    let mut risks = Vec::new();
    for (name, wanted, is_asked, danger) in checks {
        let is = value(name);
        // MySQL 8.4 has a third value of it.
        let is_fine =
            is.is_empty() || is.eq_ignore_ascii_case(wanted) || is == "DETECT_AND_RECOVER";
        if is_asked && !is_fine {
            let setting = format!("{name} = {is}");
            risks.push(Risk { setting, danger });
        }
    }
    risks
}

/// The index is named in the statement, so that without it there is no plan.
async fn plan(connection: &mut MySqlConnection) -> Plan {
    let sql = format!("EXPLAIN {LOOK}");
    let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
    for _ in 0..2 {
        for _ in 0..Priority::COUNT {
            query = query.bind("n").bind("q").bind(1_i64);
            query = query.bind("[]").bind("[]").bind("[]");
            query = query.bind("[]").bind("[]").bind(1_u64);
        }
        query = query.bind(1_u64);
        for _ in 0..Priority::COUNT {
            query = query.bind("n").bind("q").bind(1_i64);
        }
    }
    let text = |row: &MySqlRow, column: &str| {
        let text: Option<String> = row.try_get(column).ok().flatten();
        text.unwrap_or_default()
    };
    match query.fetch_all(connection).await {
        Err(error) => Plan {
            is_indexed: false,
            told: error.to_string(),
        },
        Ok(rows) => {
            let steps = rows.iter();
            let steps: Vec<_> = steps
                .filter(|row| text(row, "table") == "workflow_tasks")
                .map(|row| (text(row, "type"), text(row, "key")))
                .collect();
            let is_indexed = |(_, key): &(String, String)| key == "workflow_tasks_claim";
            Plan {
                is_indexed: !steps.is_empty() && steps.iter().all(is_indexed),
                told: steps
                    .iter()
                    .map(|(way, key)| format!("{way} {key}"))
                    .collect::<Vec<_>>()
                    .join("\n"),
            }
        }
    }
}

async fn long(connection: &mut MySqlConnection, long: Duration) -> Long {
    let seen = sqlx::query_as(LONG).bind(crate::model::micros(long));
    let seen: sqlx::Result<(i64, i64)> = seen.fetch_one(connection).await;
    match seen {
        Ok((count, oldest_us)) => Long::Seen(
            u64::try_from(count).unwrap_or(0),
            Duration::from_micros(u64::try_from(oldest_us).unwrap_or(0)),
        ),
        // It takes a right that a service need not have.
        Err(_) => Long::Hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_dangerous_where_they_matter() {
        let settings = |all: &[(&str, &str)]| {
            let all = all.iter();
            let owned = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let risks = risks(&owned.collect::<Vec<_>>());
            risks
                .into_iter()
                .map(|risk| risk.setting)
                .collect::<Vec<_>>()
        };

        let fine = [
            ("innodb_flush_log_at_trx_commit", "1"),
            ("log_bin", "OFF"),
            ("sync_binlog", "0"),
            ("binlog_format", "STATEMENT"),
            ("innodb_doublewrite", "ON"),
        ];
        assert!(settings(&fine).is_empty());
        let bad = [
            ("innodb_flush_log_at_trx_commit", "2"),
            ("log_bin", "ON"),
            ("sync_binlog", "0"),
            ("binlog_format", "STATEMENT"),
        ];
        assert_eq!(
            settings(&bad),
            [
                "innodb_flush_log_at_trx_commit = 2",
                "sync_binlog = 0",
                "binlog_format = STATEMENT"
            ]
        );
    }
}
