//! Builds.

use coord_core::Result;
use sqlx::mysql::MySqlPool;

use super::super::builds::Decided;
use super::super::rows::{EndingRow, OpenRunsRow};
use super::super::{BuildChange, Builds};
use super::Mysql;
use super::batch::Transaction;
use super::error::{at, at_commit};
use super::read::snapshot;
use super::sql::clock;
use crate::model::{BuildId, Namespace, micros};
use crate::retention::RETENTION;

const PROMOTED: &str = "SELECT promoted_build FROM workflow_namespaces WHERE namespace = ?";

const LOCK: &str = "
    SELECT promoted_build, replaced_build FROM workflow_namespaces WHERE namespace = ? FOR UPDATE";

const PROMOTE: &str = concat!(
    "INSERT INTO workflow_namespaces (namespace, promoted_build, retention_us, created_at)
     VALUES (?, ?, ?, ",
    clock!(),
    ") ON DUPLICATE KEY UPDATE
        replaced_build = CASE WHEN promoted_build = VALUES(promoted_build)
            THEN replaced_build ELSE promoted_build END,
        promoted_build = VALUES(promoted_build)"
);

const RETURN: &str = "
    UPDATE workflow_namespaces SET promoted_build = replaced_build, replaced_build = NULL
    WHERE namespace = ? AND ?";

const GOES_ON: &str = "DELETE FROM workflow_builds WHERE namespace = ? AND build_id = ?";

const ENDS: &str = concat!(
    "INSERT INTO workflow_builds (namespace, build_id, status, changed_at) VALUES (?, ?, ?, ",
    clock!(),
    ") ON DUPLICATE KEY UPDATE
        status = VALUES(status), changed_at = VALUES(changed_at)"
);

const ENDINGS: &str = "
    SELECT build_id, status, changed_at FROM workflow_builds WHERE namespace = ? ORDER BY build_id";

const OPEN: &str = "
    SELECT compatibility, count(*) AS runs, min(started_at) AS since FROM workflow_runs
    WHERE namespace = ? AND closed_at IS NULL AND compatibility IS NOT NULL
    GROUP BY compatibility ORDER BY compatibility";

pub(super) async fn change(store: &Mysql, change: &BuildChange) -> Result<bool> {
    const WHAT: &str = "changing a build";
    let (namespace, build) = (change.namespace.as_str(), change.build.as_str());
    let mut transaction = Transaction::begin(store, WHAT).await?;
    let seen = sqlx::query_as(LOCK).bind(namespace);
    let seen = seen.fetch_optional(&mut *transaction.inner).await;
    let seen: Option<(Option<String>, Option<String>)> = seen.map_err(at(WHAT))?;
    let (promoted, replaced) = seen.unwrap_or_default();
    let decided = change.decide(promoted.as_deref(), replaced.as_deref());
    let statements = match decided {
        Decided::Refused => return Ok(false),
        Decided::Goes => vec![
            sqlx::query(PROMOTE)
                .bind(namespace)
                .bind(build)
                .bind(micros(RETENTION)),
            sqlx::query(GOES_ON).bind(namespace).bind(build),
        ],
        Decided::Ends | Decided::Returns => vec![
            sqlx::query(RETURN)
                .bind(namespace)
                .bind(decided == Decided::Returns),
            sqlx::query(ENDS)
                .bind(namespace)
                .bind(build)
                .bind(change.step.as_str()),
        ],
    };
    for statement in statements {
        let done = statement.execute(&mut *transaction.inner).await;
        done.map_err(at(WHAT))?;
    }
    transaction.inner.commit().await.map_err(at_commit(WHAT))?;
    Ok(true)
}

pub(super) async fn promoted(pool: &MySqlPool, namespace: &Namespace) -> Result<Option<BuildId>> {
    let found = sqlx::query_scalar(PROMOTED).bind(namespace.as_str());
    let found: sqlx::Result<Option<Option<String>>> = found.fetch_optional(pool).await;
    let found = found.map_err(at("reading the promoted build"))?;
    Builds::promoted_of(found.flatten())
}

pub(super) async fn read(pool: &MySqlPool, namespace: &Namespace) -> Result<Builds> {
    const WHAT: &str = "reading builds";
    let mut transaction = snapshot(pool, WHAT).await?;
    let promoted = sqlx::query_scalar(PROMOTED).bind(namespace.as_str());
    let promoted = promoted.fetch_optional(&mut *transaction).await;
    let promoted: Option<Option<String>> = promoted.map_err(at(WHAT))?;
    let endings = sqlx::query_as(ENDINGS).bind(namespace.as_str());
    let endings = endings.fetch_all(&mut *transaction).await;
    let endings: Vec<EndingRow> = endings.map_err(at(WHAT))?;
    let open = sqlx::query_as(OPEN).bind(namespace.as_str());
    let open = open.fetch_all(&mut *transaction).await;
    let open: Vec<OpenRunsRow> = open.map_err(at(WHAT))?;
    transaction.commit().await.map_err(at(WHAT))?;
    Builds::of(promoted.flatten(), endings, open)
}
