//! A database of one's own at a PostgreSQL that others use as well.

use std::net::SocketAddr;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::{
    env,
    need::{self, Missing},
};

/// What holds where nobody names a server.
const DEFAULT: &str = "postgres://postgres@127.0.0.1:5432";

/// An own database; dropping it drops it there, whoever still uses it.
pub struct PostgresDatabase {
    server: String,
    name: String,
}

impl PostgresDatabase {
    /// Makes one at the server that `COORD_TEST_PG_URL` names, or at the one that runs here.
    ///
    /// # Errors
    /// [`Missing`] when nobody answers there.
    ///
    /// # Cancel safety
    /// Unsafe: the database may be there.
    pub async fn create() -> Result<Self, Missing> {
        let server = env::text(env::PG_URL).unwrap_or_else(|| DEFAULT.to_owned());
        let name = need::unique("coord_test").replace('-', "_");
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        let created = execute(&format!("{server}/postgres"), &create).await;
        created.map_err(|error| {
            let remedy = format!("start one, or set {} to its URL: {error}", env::PG_URL);
            Missing::new("a PostgreSQL server", remedy)
        })?;
        Ok(Self { server, name })
    }

    /// Where it is, for a client.
    pub fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// The same, for a client that reaches its server at `port` of this machine.
    pub fn url_at(&self, port: u16) -> String {
        let (scheme, rest) = self.parts();
        let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
        let at = if login.is_empty() { "" } else { "@" };
        format!(
            "{scheme}://{login}{at}127.0.0.1:{port}/{}?sslmode=disable",
            self.name
        )
    }

    /// Where its server listens.
    ///
    /// # Panics
    /// When its host has no address.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn addr(&self) -> SocketAddr {
        let (_, rest) = self.parts();
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let place = match place.split_once(':') {
            Some(_) => place.to_owned(),
            None => format!("{place}:5432"),
        };
        let mut found = tokio::net::lookup_host(place).await.expect("a host");
        found.next().expect("an address of it")
    }

    fn parts(&self) -> (&str, &str) {
        self.server.split_once("://").expect("a URL has a scheme")
    }

    /// Carries out statements in it.
    ///
    /// # Panics
    /// When the server refuses one.
    ///
    /// # Cancel safety
    /// They may be carried out.
    pub async fn execute(&self, sql: &str) {
        execute(&self.url(), sql)
            .await
            .expect("statements of a test");
    }
}

async fn execute(url: &str, sql: &str) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
    done.execute(&mut connection).await.map(drop)
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let server = format!("{}/postgres", self.server);
        // The runtime of the test may be about to end.
        let dropped = std::thread::Builder::new().spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.map(|runtime| runtime.block_on(execute(&server, &sql)))
        });
        // What stays is under a name that nobody takes.
        _ = dropped.map(std::thread::JoinHandle::join);
    }
}
