//! A pooler that gives each transaction another session, where the run has one.

use std::sync::Arc;

use coord_core::{ErrorKind, Result, Variable};
use coord_engine::model::RunId;
use coord_engine::store::Postgres;
use coord_engine::store::{
    DueSchedules, Filter, Heartbeat, Listing, Pooler, Retire, Role, ScheduleKey, ScheduleListing,
    Store, Sweep, Target,
};

use crate::server;
use crate::stage::{LONG, Stage, namespace, owner};

/// A pooler in front of that server, which gives each transaction another connection.
pub(crate) const POOLER: Variable = Variable::new(
    "COORD_TEST_PG_POOLER_URL",
    "",
    "pooler through which stores reach the server for tests",
);

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

    let examined = named().examine(LONG).await.expect("by statements in text");
    assert_eq!(examined.pooler, Pooler::Untold, "{examined:?}");
    let refused = refused.expect("both cannot have one name for their own");
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused:?}");
    let what = refused.message();
    assert!(what.contains("without_named_statements"), "{what}");
}

/// At once: more than there are calls, so that each meets all others.
const CALLERS: usize = 16;
/// Of each.
const ROUNDS: usize = 10;

/// A pooler gives each transaction another session, and a statement that is not held in one is
/// prepared in one session and looked for in another: sooner or later, when others are at work.
pub(crate) async fn calls_at_once_keep_their_sessions(stage: Stage) {
    let run = stage.start("w").await;
    let stores = [&stage.store, &stage.other];
    let mut calling = tokio::task::JoinSet::new();
    for number in 0..CALLERS {
        let (store, run) = (Arc::clone(stores[number % 2]), run.clone());
        calling.spawn(async move {
            for _ in 0..ROUNDS {
                every_call(store.as_ref(), &run).await.expect("an answer");
            }
        });
    }
    calling.join_all().await;
}

async fn every_call(store: &dyn Store, run: &RunId) -> Result<()> {
    let all = Filter::all(namespace());
    let listing = Listing {
        filter: all.clone(),
        limit: 10,
        after: None,
    };
    let schedules = ScheduleListing {
        namespace: namespace(),
        limit: 10,
        after: None,
    };
    let schedule = ScheduleKey {
        namespace: namespace(),
        id: coord_engine::model::ScheduleId::new("s")?,
    };
    let due = DueSchedules {
        limit: 10,
        after: None,
    };
    let sweep = Sweep {
        limit: 10,
        poison_after: 2,
    };
    let retire = Retire {
        archived: false,
        namespace: namespace(),
        closed_for: LONG,
        runs: 10,
        events: 10,
    };
    let heartbeat = Heartbeat {
        id: owner("nobody"),
        ttl: LONG,
        draining: false,
        stopped: false,
        figures: None,
    };
    store.load(&[]).await?;
    store.describe(&Target::Run(run.clone())).await?;
    assert_eq!(store.list(&listing).await?.runs.len(), 1);
    assert_eq!(store.count(&all).await?, 1);
    assert_eq!(store.list_schedules(&schedules).await?.schedules.len(), 0);
    assert_eq!(store.describe_schedule(&schedule).await?, None);
    assert_eq!(store.due_schedules(&due).await?.schedules.len(), 0);
    assert_eq!(store.tenants().await?.len(), 1);
    assert_eq!(store.heartbeat(&heartbeat).await?, None);
    assert_eq!(store.retire(&retire).await?, 0);
    assert_eq!(store.overdue(10).await?, []);
    store.sweep(&sweep).await?;
    store.hint("w").await?;
    store.hints(None).await?;
    if let Some(term) = store.elect(Role::Retention, &owner("nobody"), LONG).await? {
        store.bury(&term).await?;
        store.survey().await?;
        store.resign(&term).await?;
    }
    Ok(())
}
