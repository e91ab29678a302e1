//! A pooler that gives each transaction another session, where the run has one.

use coord_core::ErrorKind;
use coord_engine::store::{Postgres, Store};

use crate::server;
use crate::stage::Stage;

/// The first store leaves a statement in the session that the second one is given next.
pub(crate) async fn a_named_statement_that_a_pooler_loses_says_what_to_do(stage: Stage) {
    let Some(pooler) = server::set(&server::POOLER) else {
        return;
    };
    let address = stage.database.address().expect("it has a server");
    let database = address.rsplit('/').next().expect("a name");
    let url = format!("{pooler}/{database}?sslmode=disable");
    let named = || Postgres::connect(&url).expect("a url");
    named().load(&[]).await.expect("alone it knows its own");

    let refused = named().load(&[]).await.expect_err("the name is taken");

    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused:?}");
    let what = refused.message();
    assert!(what.contains("without_named_statements"), "{what}");
}
