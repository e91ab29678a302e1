//! A database for a test, and the program on it.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use coord_engine::Engine;
use coord_engine::flow::{Context, Signal, Workflow};
use coord_engine::model::{Failure, Ids, Namespace, Queue};
use coord_engine::worker::Worker;
use serde_json::Value;
use sqlx::Connection as _;
use tempfile::TempDir;

use crate::server;

const ECHO: Workflow<Value, Value> = Workflow::new("tests.echo");
const ORDER: Workflow<Value, Value> = Workflow::new("tests.order");
const APPROVE: Signal<Value> = Signal::new("approve");

async fn echo(_: Context, value: Value) -> Result<Value, Failure> {
    if value == "fail" {
        return Err(Failure::new("out of paper"));
    }
    Ok(value)
}

/// Returns what the signal carries.
async fn order(ctx: Context, _: Value) -> Result<Value, Failure> {
    ctx.signal(APPROVE).recv().await
}

/// A database that is not migrated yet.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) folder: TempDir,
    drop: Option<Leftover>,
}

/// What became of a call of the program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A call of the program that goes on.
pub(crate) struct Going {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Going {
    /// Its next line.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        self.out.next().expect("a line").expect("text")
    }

    /// It has said on standard error that it listens.
    #[track_caller]
    pub(crate) fn listens(&mut self) {
        let said = self.err.next().expect("a line").expect("text");
        assert!(said.starts_with("coord: listening"), "{said}");
    }

    /// What is left of it, once it has ended by itself.
    pub(crate) fn ended(mut self) -> Ended {
        let text = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| {
            lines.map(|line| line.expect("text") + "\n").collect()
        };
        let (out, err) = (text(&mut self.out), text(&mut self.err));
        let status = self.child.wait().expect("an end");
        Ended {
            code: status.code().unwrap_or(-1),
            out,
            err,
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Ended {
    /// It did what it was asked.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// It ended with `code`, in one line that says each of `words`.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        assert!(self.err.starts_with("coord: "), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word}: {self:?}");
        }
    }

    /// The document that it printed.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let read = serde_json::from_str(&self.out);
        read.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The program, with nothing of the environment of the tests.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coord"));
    command.env_clear().stdin(Stdio::null());
    command
}

/// Calls the program.
pub(crate) fn call(words: &[&str]) -> Ended {
    ended(program().args(words))
}

pub(crate) fn ended(command: &mut Command) -> Ended {
    let output = command.output().expect("the program");
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("coord.db").display());
        Self {
            url,
            folder,
            drop: None,
        }
    }

    pub(crate) async fn postgres() -> Option<Self> {
        let at = server::url(&server::POSTGRES);
        let connected = sqlx::PgConnection::connect(&format!("{at}/postgres")).await;
        let connection = server::needed(&server::POSTGRES, connected)?;
        let (name, statement) = new_database();
        execute(Ok(connection), statement).await;
        let url = format!("{at}/{name}?sslmode=disable");
        Some(Self::at(url, Leftover::Postgres(at, name)))
    }

    pub(crate) async fn mysql() -> Option<Self> {
        let at = server::url(&server::MYSQL);
        let connected = sqlx::MySqlConnection::connect(&format!("{at}/")).await;
        let connection = server::needed(&server::MYSQL, connected)?;
        let (name, statement) = new_database();
        execute(Ok(connection), statement).await;
        let url = format!("{at}/{name}?ssl-mode=disabled");
        Some(Self::at(url, Leftover::Mysql(at, name)))
    }

    fn at(url: String, drop: Leftover) -> Self {
        Self {
            url,
            folder: tempfile::tempdir().expect("a folder"),
            drop: Some(drop),
        }
    }

    /// Carries out a statement on it.
    pub(crate) async fn execute(&self, statement: String) {
        match &self.drop {
            None => execute(sqlx::SqliteConnection::connect(&self.url).await, statement).await,
            Some(Leftover::Postgres(..)) => {
                execute(sqlx::PgConnection::connect(&self.url).await, statement).await;
            }
            Some(Leftover::Mysql(..)) => {
                execute(sqlx::MySqlConnection::connect(&self.url).await, statement).await;
            }
        }
    }

    /// Whether it is a file.
    pub(crate) fn is_file(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// It, with the schema of the program.
    pub(crate) fn migrated(self) -> Self {
        self.coord(&["migrate"]).done();
        self
    }

    /// Calls the program on it.
    pub(crate) fn coord(&self, words: &[&str]) -> Ended {
        ended(program().args(words).env("DATABASE_URL", &self.url))
    }

    /// Begins a call of the program whose lines are read while it goes on.
    pub(crate) fn begin(&self, words: &[&str]) -> Going {
        let mut command = program();
        let command = command.args(words).env("DATABASE_URL", &self.url);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the program");
        let err = BufReader::new(child.stderr.take().expect("piped")).lines();
        let out = BufReader::new(child.stdout.take().expect("piped")).lines();
        Going { child, out, err }
    }

    /// The document that such a call prints.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let words: Vec<_> = words.iter().copied().chain(["--json"]).collect();
        self.coord(&words).json()
    }

    /// Calls the program with something on its standard input.
    pub(crate) fn coord_with(&self, input: &str, words: &[&str]) -> Ended {
        let mut command = program();
        let command = command.args(words).env("DATABASE_URL", &self.url);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.stderr(Stdio::piped()).spawn().expect("the program");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("an end");
        Ended {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// A worker on it, in this process.
    pub(crate) async fn worker(&self) -> (Engine, Worker) {
        let engine = Engine::connect(&self.url).await.expect("an engine");
        let worker = engine.worker(Namespace::default(), Queue::default());
        let worker = worker.workflow(ECHO, echo).workflow(ORDER, order).start();
        (engine, worker)
    }
}

fn new_database() -> (String, String) {
    let name = format!("coord_test_{}", Ids::random().stem());
    let statement = format!("CREATE DATABASE {name}");
    (name, statement)
}

async fn execute<C>(connected: sqlx::Result<C>, statement: String)
where
    for<'c> &'c mut C: sqlx::Executor<'c>,
{
    let mut connection = connected.expect("a server");
    let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(statement.clone()));
    let done = sql.execute(&mut connection).await;
    done.map_or_else(|error| panic!("{statement}: {error}"), drop);
}

/// What has to go with the test, and where.
enum Leftover {
    Postgres(String, String),
    Mysql(String, String),
}

impl Leftover {
    async fn now(self) -> sqlx::Result<()> {
        match self {
            Self::Postgres(at, name) => {
                let connected = sqlx::PgConnection::connect(&format!("{at}/postgres")).await?;
                execute(Ok(connected), format!("DROP DATABASE {name} WITH (FORCE)")).await;
            }
            Self::Mysql(at, name) => {
                let connected = sqlx::MySqlConnection::connect(&format!("{at}/")).await?;
                execute(Ok(connected), format!("DROP DATABASE {name}")).await;
            }
        }
        Ok(())
    }
}

impl std::ops::Drop for Database {
    fn drop(&mut self) {
        let Some(drop) = self.drop.take() else {
            return;
        };
        // On a thread of its own, since the runtime of the test may not wait here. A database that
        // stays is found by its name.
        let dropping = std::thread::Builder::new().spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.map(|runtime| runtime.block_on(drop.now()))
        });
        _ = dropping.map(std::thread::JoinHandle::join);
    }
}
