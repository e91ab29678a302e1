//! Whether the schema can be read here; otherwise what is missing, by what the catalogue says.

use coord_core::{Error, Result};

use super::super::NamespaceListing;
use super::error::at;
use super::single::Single;
use super::{Postgres, namespaces};

/// Where the tables are, who asks, and what keeps it from reading them. The catalogue is open to
/// everybody.
const TABLES: &str = "
    SELECT quote_ident(n.nspname), quote_ident(current_user),
        has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT')
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = 'workflow_namespaces' AND c.relkind IN ('r', 'p')
    ORDER BY n.nspname = ANY (current_schemas(false)) DESC, n.nspname LIMIT 1";

pub(super) async fn look(store: &Postgres) -> Result<()> {
    let first = NamespaceListing {
        limit: 1,
        after: None,
    };
    let Err(error) = namespaces::list(store, &first).await else {
        return Ok(());
    };
    // What cannot be asked either is not about the tables.
    match tables(store).await {
        Ok(tables) => Err(Error::invalid(missing(tables)).with_source(error)),
        Err(_) => Err(error),
    }
}

type Tables = (String, String, bool, bool);

async fn tables(store: &Postgres) -> Result<Option<Tables>> {
    const WHAT: &str = "looking for the tables";
    let mut connection = Single::begin(store, WHAT).await?;
    let found = store.statements.rows(TABLES);
    let found = found.fetch_optional(&mut *connection).await;
    let found = found.map_err(at(WHAT))?;
    connection.end(store, WHAT).await?;
    Ok(found)
}

/// What is missing, and what to do about it.
fn missing(tables: Option<Tables>) -> String {
    let Some((schema, user, may_use, may_read)) = tables else {
        return "the tables of the engine are not in this database: run `coord migrate` as a user \
                who may create them"
            .to_owned();
    };
    let grants = [
        (!may_use).then(|| format!("GRANT USAGE ON SCHEMA {schema} TO {user}")),
        (!may_read).then(|| {
            let rights = "SELECT, INSERT, UPDATE, DELETE";
            format!("GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {user}")
        }),
    ];
    let grants: Vec<_> = grants.into_iter().flatten().collect();
    if grants.is_empty() {
        return format!(
            "the tables of the engine are in the schema {schema}, where user {user} does not look: \
             name it in the search_path of that user"
        );
    }
    format!(
        "the tables of the engine are there, and user {user} may not read them: as their owner, {}",
        grants.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_what_mends_it() {
        let tables = |may_use, may_read| {
            missing(Some((
                "app".to_owned(),
                "\"Ann\"".to_owned(),
                may_use,
                may_read,
            )))
        };

        assert!(missing(None).contains("coord migrate"));
        let both = tables(false, false);
        assert!(
            both.contains("GRANT USAGE ON SCHEMA app TO \"Ann\"; GRANT SELECT"),
            "{both}"
        );
        let rights = tables(true, false);
        assert!(
            !rights.contains("USAGE") && rights.contains("IN SCHEMA app TO"),
            "{rights}"
        );
        assert!(tables(true, true).contains("search_path"));
    }
}
