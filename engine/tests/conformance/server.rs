//! Where tests find the database servers, and what becomes of them where there is none.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use coord_core::{Env, Variable};

/// The `PostgreSQL` server on which tests make their databases.
#[cfg(feature = "postgres")]
pub(crate) const POSTGRES: Variable = Variable::new(
    "COORD_TEST_PG_URL",
    "postgres://postgres@127.0.0.1:5432",
    "server for tests, without the name of a database",
);

/// The `MySQL` or `MariaDB` server on which tests make their databases.
#[cfg(feature = "mysql")]
pub(crate) const MYSQL: Variable = Variable::new(
    "COORD_TEST_MYSQL_URL",
    "mysql://root@127.0.0.1:3306",
    "server for tests, without the name of a database",
);

pub(crate) const ALLOW_SKIP: Variable = Variable::new(
    "COORD_TEST_ALLOW_SKIP",
    "",
    "1: a test without a server passes, and is counted as skipped",
);

const OBSERVED: Variable = Variable::new(
    "COORD_TEST_OBSERVED_DIR",
    "",
    "folder in whose file `skipped` such a test leaves its name",
);

/// What a variable says.
pub(crate) fn set(variable: &Variable) -> Option<String> {
    let env = Env::process();
    let text = env.text(variable).expect("readable");
    text.map(str::to_owned)
}

/// The server that was named, or the one that runs here.
pub(crate) fn url(variable: &Variable) -> String {
    set(variable).unwrap_or_else(|| variable.default.to_owned())
}

/// What connecting came to. `None` where nobody named a server, none runs here, and the run may
/// skip what needs one: the test ends, and is counted.
pub(crate) fn needed<C>(variable: &Variable, connected: sqlx::Result<C>) -> Option<C> {
    let error = match connected {
        Ok(connection) => return Some(connection),
        Err(error) => error,
    };
    let name = variable.name;
    assert!(
        set(variable).is_none() && set(&ALLOW_SKIP).as_deref() == Some("1"),
        "this test needs the database server that {name} names, or at {}: {error}\n\
         `cargo xtask test` finds or starts one; {}=1 skips what cannot be tested here",
        variable.default,
        ALLOW_SKIP.name,
    );
    count_skip(&format!("server for {name}"));
    None
}

/// Has it counted that the running test lacks `what`.
pub(crate) fn count_skip(what: &str) {
    if let Some(folder) = set(&OBSERVED) {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let file = Path::new(&folder).join("skipped");
        let opened = OpenOptions::new().create(true).append(true).open(file);
        // One write, so that the lines of tests that run at once do not mix.
        let line = format!("{test}\t{what}\n");
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("a skip that nobody can count is a failure");
    }
}
