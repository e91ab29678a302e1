//! Writes in transactions of the caller.

use coord_core::{ErrorKind, Result};
use coord_engine::model::TaskKind;
use coord_engine::store::{Applied, Deliver, Outcome, Start, Store, Target, Write};
use sqlx::{Pool, Transaction};
use tokio::task::JoinSet;

use crate::dialect::Database;
#[cfg(feature = "postgres")]
use crate::server;
use crate::stage::{Stage, namespace, record, signal};
use crate::writes::is_done;

/// A transaction of a service that has tables of its own in the same database.
pub(crate) enum Caller {
    Sqlite(Transaction<'static, sqlx::Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(Transaction<'static, sqlx::Postgres>),
    #[cfg(feature = "mysql")]
    Mysql(Transaction<'static, sqlx::MySql>),
}

/// Does `$do` with the transaction, whatever it is of.
macro_rules! with {
    ($caller:expr, $transaction:ident => $do:expr) => {
        match $caller {
            Caller::Sqlite($transaction) => $do,
            #[cfg(feature = "postgres")]
            Caller::Postgres($transaction) => $do,
            #[cfg(feature = "mysql")]
            Caller::Mysql($transaction) => $do,
        }
    };
}
pub(crate) use with;

impl Caller {
    /// `None` where a caller has no way to the engine's tables.
    pub(crate) async fn begin(database: &Database) -> Option<Self> {
        let address = database.address()?;
        Some(match database {
            Database::SqliteFile(_) => {
                let pool = Pool::<sqlx::Sqlite>::connect(&address)
                    .await
                    .expect("a file");
                Self::Sqlite(pool.begin().await.expect("begun"))
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(name) => {
                // Whether its own statements suit a pooler is the caller's affair.
                let address = format!("{}/{name}", server::url(&server::POSTGRES));
                let pool = Pool::<sqlx::Postgres>::connect(&address).await;
                Self::Postgres(pool.expect("a server").begin().await.expect("begun"))
            }
            #[cfg(feature = "mysql")]
            Database::Mysql(_) => {
                let options = sqlx::mysql::MySqlPoolOptions::new();
                let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                let options = options.after_connect(move |connection, _| {
                    Box::pin(async move { sqlx::query(level).execute(connection).await.map(drop) })
                });
                let pool = options.connect(&address).await.expect("a server");
                Self::Mysql(pool.begin().await.expect("begun"))
            }
            _ => return None,
        })
    }

    pub(crate) async fn execute(&mut self, sql: &'static str) {
        with!(self, transaction => {
            let done = sqlx::query(sql).execute(&mut **transaction).await;
            done.map(drop).expect(sql);
        });
    }

    async fn apply(&mut self, store: &dyn Store, writes: &[Write]) -> Result<Applied> {
        with!(self, transaction => store.apply_in(transaction.into(), writes).await)
    }

    pub(crate) async fn commit(self) {
        with!(self, transaction => transaction.commit().await.expect("committed"));
    }

    pub(crate) async fn roll_back(self) {
        with!(self, transaction => transaction.rollback().await.expect("rolled back"));
    }
}

fn start_of(start: &Start) -> Write {
    Write::Start(Box::new(start.clone()))
}

pub(crate) async fn a_write_in_the_callers_transaction_happens_when_it_commits(stage: Stage) {
    let Some(mut caller) = Caller::begin(&stage.database).await else {
        return;
    };
    let start = stage.new_run("w");
    let news = Write::Deliver(Box::new(signal(&start.run)));

    let begun = caller.apply(&*stage.store, &[start_of(&start)]).await;
    // A later write sees what the earlier one did.
    let sent = caller.apply(&*stage.store, &[news]).await.expect("sent");

    let created = Outcome::Started {
        run: start.run.clone(),
        created: true,
    };
    assert_eq!(
        begun.expect("begun").outcomes,
        std::slice::from_ref(&created)
    );
    assert!(is_done(&sent.outcomes[0]));
    let target = Target::Run(start.run.clone());
    assert_eq!(
        stage.other.describe(&target).await.expect("an answer"),
        None
    );
    caller.commit().await;
    assert_eq!(stage.load(&start.run).await.inbox.len(), 1);
    let claim = stage.claim_of(TaskKind::Workflow, "w", 10);
    assert_eq!(stage.claim(&claim).await.tasks.len(), 1);
    assert_eq!(stage.apply(start).await, created);
}

pub(crate) async fn a_transaction_of_the_caller_that_is_rolled_back_leaves_nothing(stage: Stage) {
    let Some(mut caller) = Caller::begin(&stage.database).await else {
        return;
    };
    let other = stage.start("other").await;
    let start = stage.new_run("w");
    let news = Write::Deliver(Box::new(signal(&other)));
    let applied = caller.apply(&*stage.store, &[start_of(&start), news]).await;
    assert_eq!(applied.expect("applied").outcomes.len(), 2);

    caller.roll_back().await;

    let current = Target::Current(namespace(), start.workflow);
    assert_eq!(
        stage.store.describe(&current).await.expect("an answer"),
        None
    );
    assert_eq!(stage.load(&other).await.inbox, []);
    stage.start("w").await;
}

pub(crate) async fn what_fails_in_the_callers_transaction_leaves_nothing_in_it(stage: Stage) {
    if !stage.database.locks_rows() {
        return;
    }
    let run = stage.start("other").await;
    let mut caller = Caller::begin(&stage.database).await.expect("a server");
    let good = stage.new_run("w");
    // What no server takes.
    let bad = Write::Deliver(Box::new(Deliver {
        record: record(&"x\0".repeat(40), 0),
        ..signal(&run)
    }));
    caller.execute("UPDATE engine_roles SET term = term").await;

    let failed = caller.apply(&*stage.store, &[start_of(&good), bad]).await;

    let error = failed.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    // The caller's own work still commits, and so does another start of the same id.
    let again = stage.new_run("w");
    let applied = caller.apply(&*stage.store, &[start_of(&again)]).await;
    applied.expect("the transaction goes on");
    caller.commit().await;
    let target = Target::Run(good.run);
    assert_eq!(
        stage.store.describe(&target).await.expect("an answer"),
        None
    );
    assert_eq!(stage.load(&again.run).await.events.len(), 1);
    assert_eq!(stage.load(&run).await.inbox, []);
}

pub(crate) async fn two_callers_who_start_one_id_get_one_run(stage: Stage) {
    let Some(mut first) = Caller::begin(&stage.database).await else {
        return;
    };
    let mut second = Caller::begin(&stage.database).await.expect("another");
    let (one, two) = (stage.new_run("w"), stage.new_run("w"));
    first
        .apply(&*stage.store, &[start_of(&one)])
        .await
        .expect("started");

    let mut late = JoinSet::new();
    let (store, write) = (stage.other.clone(), start_of(&two));
    late.spawn(async move { second.apply(&*store, &[write]).await });
    // It waits for the first one, or has yet to come; either way the answer is the same.
    first.commit().await;

    let late = late.join_next().await.expect("it was spawned");
    let late = late.expect("no panic").expect("answered");
    let current = one.run;
    assert_eq!(late.outcomes, [Outcome::Refused { current }]);
}

pub(crate) async fn a_transaction_of_another_kind_of_database_is_refused(stage: Stage) {
    if matches!(
        stage.database,
        Database::SqliteFile(_) | Database::SqliteMemory(_)
    ) {
        return;
    }
    let pool = Pool::<sqlx::Sqlite>::connect("sqlite::memory:").await;
    let begun = pool.expect("memory").begin().await;
    let mut caller = Caller::Sqlite(begun.expect("begun"));
    let write = start_of(&stage.new_run("w"));

    let error = caller
        .apply(&*stage.store, &[write])
        .await
        .expect_err("foreign");

    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
}
