//! The database: the one that a URL names.

use coord_core::{Env, Error, Result, Variable};
use coord_engine::Engine;

/// Where the runs are kept.
const DATABASE_URL: Variable = Variable {
    name: "DATABASE_URL",
    default: "",
    about: "`sqlite:PATH`, `postgres://…` or `mysql://…`.",
};

/// The engine on the database that the environment names.
pub(crate) async fn engine() -> Result<Engine> {
    let env = Env::process();
    let url = env
        .text(&DATABASE_URL)?
        .ok_or_else(|| Error::invalid("DATABASE_URL is not set"))?;
    let (kind, rest) = url.split_once(':').unwrap_or((url, ""));
    match kind {
        "sqlite" => Engine::start(coord_engine::store::Sqlite::file(rest)).await,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            Engine::start(coord_engine::store::Postgres::connect(url)?).await
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => {
            let url = format!("mysql:{rest}");
            Engine::start(coord_engine::store::Mysql::connect(&url)?).await
        }
        // Not the rest, which may hold a password.
        _ => Err(Error::invalid(format!(
            "this node was built without a driver for {kind}: databases"
        ))),
    }
}
