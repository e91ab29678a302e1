//! Databases for tests: each test has one of its own, dropped with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "mysql")]
use coord_engine::store::Mysql;
#[cfg(feature = "postgres")]
use coord_engine::store::Postgres;
use coord_engine::store::{Sqlite, Store};
use coord_engine::{Engine, EngineBuilder};
use sqlx::Connection;

#[cfg(feature = "postgres")]
use crate::pooled::POOLER;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::server;

/// Between two times that all sessions are killed: none does much meanwhile.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const AGAIN: Duration = Duration::from_millis(20);

/// A database that goes with its test.
pub(crate) enum Database {
    SqliteFile(tempfile::TempDir),
    SqliteMemory(Sqlite),
    #[cfg(feature = "testing")]
    Memory(coord_engine::memory::Memory),
    #[cfg(feature = "postgres")]
    Postgres(String),
    #[cfg(feature = "mysql")]
    Mysql(String),
}

/// A transaction that holds locks until it is let go.
pub(crate) enum Holding {
    Sqlite(sqlx::SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgConnection),
    #[cfg(feature = "mysql")]
    Mysql(sqlx::MySqlConnection),
}

/// Carries out statements one by one.
macro_rules! run {
    ($connection:expr, $($sql:expr),+) => {{
        $(
            let sql = sqlx::AssertSqlSafe($sql.to_string());
            let done = sqlx::raw_sql(sql).execute(&mut $connection).await;
            done.expect("a statement of the test");
        )+
    }};
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
fn name() -> String {
    let ids = coord_engine::model::Ids::random();
    format!("coord_test_{}", ids.stem())
}

impl Database {
    #[allow(clippy::unused_async, reason = "as its siblings")]
    pub(crate) async fn sqlite_file() -> Option<Self> {
        Some(Self::SqliteFile(tempfile::tempdir().expect("a folder")))
    }

    #[allow(clippy::unused_async, reason = "as its siblings")]
    pub(crate) async fn sqlite_memory() -> Option<Self> {
        Some(Self::SqliteMemory(Sqlite::memory()))
    }

    #[cfg(feature = "testing")]
    #[allow(clippy::unused_async, reason = "as its siblings")]
    pub(crate) async fn memory() -> Option<Self> {
        Some(Self::Memory(coord_engine::memory::Memory::new()))
    }

    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres() -> Option<Self> {
        let name = name();
        let mut connection = server::needed(&server::POSTGRES, pg("postgres").await)?;
        run!(
            connection,
            format!("CREATE DATABASE {name} TEMPLATE template0")
        );
        Some(Self::Postgres(name))
    }

    #[cfg(feature = "mysql")]
    pub(crate) async fn mysql() -> Option<Self> {
        let name = name();
        let mut connection = server::needed(&server::MYSQL, mysql("").await)?;
        run!(connection, format!("CREATE DATABASE {name}"));
        Some(Self::Mysql(name))
    }

    /// A store as another process would open it.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::SqliteFile(_) => Arc::new(Sqlite::file(self.path())),
            Self::SqliteMemory(store) => Arc::new(store.clone()),
            #[cfg(feature = "testing")]
            Self::Memory(store) => Arc::new(store.clone()),
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            _ => self.open_at(&self.server()),
        }
    }

    /// An engine on it, as a service starts one.
    pub(crate) async fn engine(&self) -> Engine {
        self.builder().start().await.expect("it starts")
    }

    /// An engine to be on it.
    pub(crate) fn builder(&self) -> EngineBuilder {
        match self {
            Self::SqliteFile(_) => Engine::builder(Sqlite::file(self.path())),
            Self::SqliteMemory(store) => Engine::builder(store.clone()),
            #[cfg(feature = "testing")]
            Self::Memory(store) => Engine::builder(store.clone()),
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            _ => self.builder_at(&self.server()),
        }
    }

    /// An engine that reaches its server at `server`.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) async fn engine_at(&self, server: &str) -> Engine {
        let started = self.builder_at(server).start().await;
        started.expect("it starts")
    }

    /// An engine to be that reaches its server at `server`.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn builder_at(&self, server: &str) -> EngineBuilder {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(name) => {
                Engine::builder(postgres(&format!("{server}/{name}?sslmode=disable")))
            }
            #[cfg(feature = "mysql")]
            Self::Mysql(name) => {
                let url = format!("{server}/{name}?ssl-mode=disabled");
                Engine::builder(Mysql::connect(&url).expect("a url"))
            }
            _ => unreachable!("it has a server"),
        }
    }

    /// A store that reaches its server at `server`.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn open_at(&self, server: &str) -> Arc<dyn Store> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(name) => Arc::new(postgres(&format!("{server}/{name}?sslmode=disable"))),
            #[cfg(feature = "mysql")]
            Self::Mysql(name) => Arc::new(
                Mysql::connect(&format!("{server}/{name}?ssl-mode=disabled")).expect("a url"),
            ),
            Self::SqliteFile(_) | Self::SqliteMemory(_) => self.open(),
            #[cfg(feature = "testing")]
            Self::Memory(_) => self.open(),
        }
    }

    /// Where stores find its server; empty where there is none.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn server(&self) -> String {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => {
                server::set(&POOLER).unwrap_or_else(|| server::url(&server::POSTGRES))
            }
            #[cfg(feature = "mysql")]
            Self::Mysql(_) => server::url(&server::MYSQL),
            _ => String::new(),
        }
    }

    /// The file of one that is a file.
    pub(crate) fn path(&self) -> PathBuf {
        if let Self::SqliteFile(folder) = self {
            folder.path().join("engine.db")
        } else {
            PathBuf::new()
        }
    }

    /// Whether it locks rows. `SQLite` locks the whole.
    pub(crate) fn locks_rows(&self) -> bool {
        match self {
            Self::SqliteFile(_) | Self::SqliteMemory(_) => false,
            #[cfg(feature = "testing")]
            Self::Memory(_) => false,
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            _ => true,
        }
    }

    /// How long a value is that it refuses; `None` where a value may be as long as memory is.
    pub(crate) async fn refuses(&self) -> Option<usize> {
        match self {
            #[cfg(feature = "mysql")]
            Self::Mysql(name) => {
                let mut connection = mysql(name).await.expect("it is there");
                let packet = sqlx::query_scalar("SELECT CAST(@@max_allowed_packet AS SIGNED)");
                let packet: i64 = packet.fetch_one(&mut connection).await.expect("a number");
                // A byte takes two digits.
                usize::try_from(packet).ok().map(|packet| packet / 2)
            }
            _ => None,
        }
    }

    /// Whether it is PostgreSQL behind a pooler.
    pub(crate) fn is_pooled(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => server::set(&POOLER).is_some(),
            _ => false,
        }
    }

    /// How another process finds it; `None` for what lives in this one.
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::SqliteFile(_) => Some(self.path().display().to_string()),
            Self::SqliteMemory(_) => None,
            #[cfg(feature = "testing")]
            Self::Memory(_) => None,
            #[cfg(feature = "postgres")]
            Self::Postgres(name) => Some(format!("{}/{name}", self.server())),
            #[cfg(feature = "mysql")]
            Self::Mysql(name) => Some(format!("{}/{name}", self.server())),
        }
    }

    /// The engine that its url leads to, and the one beside a pool of the service.
    pub(crate) async fn engines(&self) -> Option<[Engine; 2]> {
        let address = self.address()?;
        let (url, beside) = match self {
            Self::SqliteFile(_) => {
                let url = format!("sqlite:{address}");
                let pool = sqlx::SqlitePool::connect_lazy(&url).expect("a url");
                (
                    url,
                    Engine::start(Sqlite::beside(&pool).expect("a file")).await,
                )
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(name) => {
                // A url cannot say that a pooler is in between.
                let url = format!("{}/{name}", server::url(&server::POSTGRES));
                let pool = sqlx::PgPool::connect_lazy(&url).expect("a url");
                (url, Engine::start(Postgres::beside(&pool)).await)
            }
            #[cfg(feature = "mysql")]
            Self::Mysql(_) => {
                let pool = sqlx::MySqlPool::connect_lazy(&address).expect("a url");
                (address, Engine::start(Mysql::beside(&pool)).await)
            }
            _ => return None,
        };
        let at_url = Engine::connect(&url).await;
        Some([at_url.expect("it starts"), beside.expect("it starts")])
    }

    /// The store at such an address.
    pub(crate) fn open_address(address: &str) -> Arc<dyn Store> {
        match address.split_once("://") {
            #[cfg(feature = "postgres")]
            Some(("postgres", _)) => Arc::new(postgres(address)),
            #[cfg(feature = "mysql")]
            Some(("mysql", _)) => Arc::new(Mysql::connect(address).expect("a url")),
            _ => Arc::new(Sqlite::file(address)),
        }
    }

    /// An engine to be on the database at such an address.
    pub(crate) fn engine_at_address(address: &str) -> EngineBuilder {
        match address.split_once("://") {
            #[cfg(feature = "postgres")]
            Some(("postgres", _)) => Engine::builder(postgres(address)),
            #[cfg(feature = "mysql")]
            Some(("mysql", _)) => Engine::builder(Mysql::connect(address).expect("a url")),
            _ => Engine::builder(Sqlite::file(address)),
        }
    }

    /// An empty one of the same kind.
    pub(crate) async fn another(&self) -> Self {
        let another = match self {
            Self::SqliteFile(_) => Self::sqlite_file().await,
            Self::SqliteMemory(_) => Self::sqlite_memory().await,
            #[cfg(feature = "testing")]
            Self::Memory(_) => Self::memory().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Self::postgres().await,
            #[cfg(feature = "mysql")]
            Self::Mysql(_) => Self::mysql().await,
        };
        another.expect("there was one")
    }

    /// Changes the schema behind the store's back, where there is a back door.
    pub(crate) async fn execute(&self, sql: &'static str) -> bool {
        let Some(holding) = self.hold(sql).await else {
            return false;
        };
        holding.let_go().await;
        true
    }

    /// Keeps everybody from it for `span`: all sessions are killed again and again, or, where there
    /// are none, nobody else may write.
    pub(crate) async fn goes_away_for(&self, span: Duration) {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(name) => {
                let patience = Instant::now() + span * 20;
                let mut connection = loop {
                    match pg("postgres").await {
                        Ok(connection) => break connection,
                        // Others may have all that the server gives.
                        Err(error) if Instant::now() > patience => panic!("{error}"),
                        Err(_) => tokio::time::sleep(AGAIN).await,
                    }
                };
                let end = Instant::now() + span;
                while Instant::now() < end {
                    run!(
                        connection,
                        format!(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                             WHERE datname = '{name}'"
                        )
                    );
                    tokio::time::sleep(AGAIN).await;
                }
            }
            #[cfg(feature = "mysql")]
            Self::Mysql(name) => {
                let mut connection = mysql("").await.expect("a connection");
                let end = Instant::now() + span;
                while Instant::now() < end {
                    let sessions = sqlx::query_scalar(
                        "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = ?",
                    );
                    let sessions = sessions.bind(name).fetch_all(&mut connection).await;
                    let sessions: Vec<i64> = sessions.expect("a list");
                    for session in sessions {
                        let kill = sqlx::AssertSqlSafe(format!("KILL {session}"));
                        // One that is gone already cannot be killed.
                        _ = sqlx::raw_sql(kill).execute(&mut connection).await;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
            _ => {
                let held = self.hold("SELECT 1").await;
                tokio::time::sleep(span).await;
                if let Some(held) = held {
                    held.let_go().await;
                }
            }
        }
    }

    /// Holds the rows that `update` changes, without changing them for others. `None` where nobody
    /// else can hold anything.
    pub(crate) async fn hold(&self, update: &'static str) -> Option<Holding> {
        Some(match self {
            Self::SqliteMemory(_) => return None,
            #[cfg(feature = "testing")]
            Self::Memory(_) => return None,
            Self::SqliteFile(_) => {
                let url = format!("sqlite:{}", self.path().display());
                let connection = sqlx::SqliteConnection::connect(&url).await;
                let mut connection = connection.expect("a connection");
                run!(connection, "BEGIN IMMEDIATE", update);
                Holding::Sqlite(connection)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(name) => {
                let mut connection = pg(name).await.expect("a connection");
                run!(connection, "BEGIN", update);
                Holding::Postgres(connection)
            }
            #[cfg(feature = "mysql")]
            Self::Mysql(name) => {
                let mut connection = mysql(name).await.expect("a connection");
                // At the default level a search would lock every row that it looks at.
                let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                run!(connection, level, "BEGIN", update);
                Holding::Mysql(connection)
            }
        })
    }
}

/// A pooler is taken for one that does not follow named statements.
#[cfg(feature = "postgres")]
fn postgres(url: &str) -> Postgres {
    let store = Postgres::connect(url).expect("a url");
    if server::set(&POOLER).is_some() {
        store.without_named_statements()
    } else {
        store
    }
}

/// A connection to the server itself.
#[cfg(feature = "postgres")]
async fn pg(database: &str) -> sqlx::Result<sqlx::PgConnection> {
    let url = format!("{}/{database}", server::url(&server::POSTGRES));
    sqlx::PgConnection::connect(&url).await
}

#[cfg(feature = "mysql")]
async fn mysql(database: &str) -> sqlx::Result<sqlx::MySqlConnection> {
    let url = format!("{}/{database}", server::url(&server::MYSQL));
    sqlx::MySqlConnection::connect(&url).await
}

impl Drop for Database {
    fn drop(&mut self) {
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(self.go()));
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl Database {
    async fn go(&self) {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(name) => {
                let mut connection = pg("postgres").await.expect("a connection");
                run!(connection, format!("DROP DATABASE {name} WITH (FORCE)"));
            }
            #[cfg(feature = "mysql")]
            Self::Mysql(name) => {
                let mut connection = mysql("").await.expect("a connection");
                run!(connection, format!("DROP DATABASE {name}"));
            }
            _ => {}
        }
    }
}

/// Reads the clock and commits.
macro_rules! release {
    ($connection:expr, $clock:expr) => {{
        let now = sqlx::query_scalar($clock).fetch_one(&mut $connection).await;
        run!($connection, "COMMIT");
        now.expect("the clock")
    }};
}

impl Holding {
    /// Lets go, and says when that was on the database's clock.
    pub(crate) async fn let_go(self) -> i64 {
        match self {
            Self::Sqlite(mut connection) => release!(
                connection,
                "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000"
            ),
            #[cfg(feature = "postgres")]
            Self::Postgres(mut connection) => release!(
                connection,
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            ),
            #[cfg(feature = "mysql")]
            Self::Mysql(mut connection) => release!(
                connection,
                "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS SIGNED)"
            ),
        }
    }
}
