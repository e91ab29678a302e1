//! A pooler that gives each transaction another session, where the run has one.

use coord_core::{ErrorKind, Variable};
use coord_engine::store::{Postgres, Store};

use crate::server;
use crate::stage::Stage;

/// A pooler in front of that server, which gives each transaction another connection.
pub(crate) const POOLER: Variable = Variable {
    name: "COORD_TEST_PG_POOLER_URL",
    default: "",
    about: "pooler through which stores reach the server for tests",
};

/// Calls of both stores, which name their statements alike. One after the other they are given the
/// same session sooner or later; a session that is not given back yet is what it may take.
const CALLS: usize = 200;

pub(crate) async fn a_named_statement_that_a_pooler_loses_says_what_to_do(stage: Stage) {
    let Some(pooler) = server::set(&POOLER) else {
        return;
    };
    let address = stage.database.address().expect("it has a server");
    let database = address.rsplit('/').next().expect("a name");
    let url = format!("{pooler}/{database}?sslmode=disable");
    let named = || Postgres::connect(&url).expect("a url");
    let stores = [named(), named()];

    let mut refused = None;
    for store in stores.iter().cycle().take(CALLS) {
        refused = store.load(&[]).await.err();
        if refused.is_some() {
            break;
        }
    }

    let refused = refused.expect("both cannot have one name for their own");
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused:?}");
    let what = refused.message();
    assert!(what.contains("without_named_statements"), "{what}");
}
