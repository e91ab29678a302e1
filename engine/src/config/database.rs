//! Where the database is.

use coord_core::{Env, Error, Result};

use super::read::refused;
use super::variables::{
    DATABASE_URL, DB_CONNECTION, DB_DATABASE, DB_HOST, DB_PASSWORD, DB_PORT, DB_USERNAME,
};
use crate::store::{Place, Product, Secret, Server};

/// What the environment says: a URL, or what its parts say.
pub(super) fn place(env: &Env) -> Result<Place> {
    if let Some(url) = env.text(&DATABASE_URL)? {
        return Ok(Place::Url(Secret(url.to_owned())));
    }
    let Some(connection) = env.text(&DB_CONNECTION)? else {
        return Err(Error::invalid(
            "nothing says where the database is: set DATABASE_URL, or DB_CONNECTION with \
             DB_DATABASE and what else it takes",
        ));
    };
    let product = match connection.to_ascii_lowercase().as_str() {
        "pgsql" | "postgres" | "postgresql" => Product::Postgres,
        "mysql" | "mariadb" => Product::Mysql,
        "sqlite" => return Ok(Place::File(database(env)?)),
        _ => {
            return Err(refused(
                env,
                &DB_CONNECTION,
                "pgsql, mysql, mariadb or sqlite",
            ));
        }
    };
    let (port, user) = match product {
        Product::Postgres => (5432, "postgres"),
        Product::Mysql => (3306, "root"),
    };
    Ok(Place::Server(Server {
        product,
        host: env.text(&DB_HOST)?.unwrap_or(DB_HOST.default).to_owned(),
        port: env
            .parsed(&DB_PORT, "the number of a port")?
            .unwrap_or(port),
        database: database(env)?,
        user: env.text(&DB_USERNAME)?.unwrap_or(user).to_owned(),
        password: env.text(&DB_PASSWORD)?.map(|it| Secret(it.to_owned())),
    }))
}

fn database(env: &Env) -> Result<String> {
    let database = env.text(&DB_DATABASE)?.map(str::to_owned);
    let missing = || {
        let connection = DB_CONNECTION.name;
        let name = DB_DATABASE.name;
        Error::invalid(format!(
            "{connection} is set and {name} is not: it must name the database, or the file of SQLite"
        ))
    };
    database.ok_or_else(missing)
}
