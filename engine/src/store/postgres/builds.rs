//! Builds.

use coord_core::Result;

use super::super::builds::Decided;
use super::super::rows::{EndingRow, OpenRunsRow};
use super::super::{BuildChange, Builds};
use super::error::{at, at_commit};
use super::single::Single;
use super::sql::clock;
use super::{Postgres, READ, WRITE};
use crate::model::{BuildId, Namespace, micros};
use crate::retention::RETENTION;

const PROMOTED: &str = "SELECT promoted_build FROM workflow_namespaces WHERE namespace = $1";

const LOCK: &str = "
    SELECT promoted_build, replaced_build FROM workflow_namespaces WHERE namespace = $1 FOR UPDATE";

const PROMOTE: &str = concat!(
    "INSERT INTO workflow_namespaces AS n (namespace, promoted_build, retention_us, created_at)
     VALUES ($1, $2, $3, ",
    clock!(),
    ") ON CONFLICT (namespace) DO UPDATE SET
        replaced_build = CASE WHEN n.promoted_build = excluded.promoted_build
            THEN n.replaced_build ELSE n.promoted_build END,
        promoted_build = excluded.promoted_build"
);

const RETURN: &str = "
    UPDATE workflow_namespaces SET promoted_build = replaced_build, replaced_build = NULL
    WHERE namespace = $1 AND $2";

const GOES_ON: &str = "DELETE FROM workflow_builds WHERE namespace = $1 AND build_id = $2";

const ENDS: &str = concat!(
    "INSERT INTO workflow_builds (namespace, build_id, status, changed_at) VALUES ($1, $2, $3, ",
    clock!(),
    ") ON CONFLICT (namespace, build_id) DO UPDATE SET
        status = excluded.status, changed_at = excluded.changed_at"
);

const ENDINGS: &str = "
    SELECT build_id, status, changed_at FROM workflow_builds WHERE namespace = $1 ORDER BY build_id";

const OPEN: &str = "
    SELECT compatibility, count(*) AS runs, min(started_at) AS since FROM workflow_runs
    WHERE namespace = $1 AND closed_at IS NULL AND compatibility IS NOT NULL
    GROUP BY compatibility ORDER BY compatibility";

pub(super) async fn change(store: &Postgres, change: &BuildChange) -> Result<bool> {
    const WHAT: &str = "changing a build";
    let (namespace, build) = (change.namespace.as_str(), change.build.as_str());
    let mut transaction = store.begin(WRITE, WHAT).await?;
    let seen = store.statements.rows(LOCK).bind(namespace);
    let seen = seen.fetch_optional(&mut *transaction.inner).await;
    let seen: Option<(Option<String>, Option<String>)> = seen.map_err(at(WHAT))?;
    let (promoted, replaced) = seen.unwrap_or_default();
    let decided = change.decide(promoted.as_deref(), replaced.as_deref());
    let statements = match decided {
        Decided::Refused => return Ok(false),
        Decided::Goes => vec![
            store
                .statements
                .done(PROMOTE)
                .bind(namespace)
                .bind(build)
                .bind(micros(RETENTION)),
            store.statements.done(GOES_ON).bind(namespace).bind(build),
        ],
        Decided::Ends | Decided::Returns => vec![
            store
                .statements
                .done(RETURN)
                .bind(namespace)
                .bind(decided == Decided::Returns),
            store
                .statements
                .done(ENDS)
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

pub(super) async fn promoted(store: &Postgres, namespace: &Namespace) -> Result<Option<BuildId>> {
    const WHAT: &str = "reading the promoted build";
    let mut connection = Single::begin(store, WHAT).await?;
    let found = store.statements.rows(PROMOTED).bind(namespace.as_str());
    let found = found.fetch_optional(&mut *connection).await;
    let found: Option<(Option<String>,)> = found.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    Builds::promoted_of(found.and_then(|(build,)| build))
}

pub(super) async fn read(store: &Postgres, namespace: &Namespace) -> Result<Builds> {
    const WHAT: &str = "reading builds";
    let mut transaction = store.begin(READ, WHAT).await?;
    let promoted = store.statements.rows(PROMOTED).bind(namespace.as_str());
    let promoted = promoted.fetch_optional(&mut *transaction.inner).await;
    let promoted: Option<(Option<String>,)> = promoted.map_err(at(WHAT))?;
    let endings = store.statements.rows(ENDINGS).bind(namespace.as_str());
    let endings = endings.fetch_all(&mut *transaction.inner).await;
    let endings: Vec<EndingRow> = endings.map_err(at(WHAT))?;
    let open = store.statements.rows(OPEN).bind(namespace.as_str());
    let open = open.fetch_all(&mut *transaction.inner).await;
    let open: Vec<OpenRunsRow> = open.map_err(at(WHAT))?;
    Builds::of(promoted.and_then(|(build,)| build), endings, open)
}
