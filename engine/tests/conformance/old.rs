//! A server that is too old, where the run has one.

use coord_core::{ErrorKind, Variable};

use crate::dialect::Database;
use crate::server;

/// Set where the server must be refused: what the refusal names.
const REFUSED: Variable = Variable::new(
    "COORD_TEST_REFUSED",
    "",
    "product and version of a server that is too old",
);

pub(crate) async fn a_server_that_is_too_old_is_refused_by_name(database: Option<Database>) {
    let (Some(name), Some(database)) = (server::set(&REFUSED), database) else {
        return;
    };

    let refused = database.open().migrate().await.expect_err("it is too old");

    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused:?}");
    let (said, needed) = refused
        .message()
        .split_once(" is too old")
        .expect("says so");
    assert!(said.starts_with("the database at "), "{said}");
    assert!(said.ends_with(&name), "{said}");
    assert!(needed.contains("or newer"), "{needed}");
}
