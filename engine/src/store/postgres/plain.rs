//! Plain writes: a batch is one statement, and that its own transaction.
//!
//! Each statement locks, looks at the clock, judges, and writes what was judged good, in this order:
//! a part that needs another reads it, so the server carries that one out first. What a part reads
//! without a lock it sees as of the beginning of the statement; so that this is enough, each such
//! fact is one that only the holder of the locked row, or nobody, can change to the worse.

mod statements;

use std::borrow::Cow;

use coord_core::{Error, Result};
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;

use super::super::answers::{ReadyTask, gathered};
use super::super::batch::plain::{ActivityRow, FencedRow, PlacedRow, Plain, SettleRow, StartRow};
use super::super::{Applied, Outcome, Ready, Write};
use super::error::at_commit;
use super::single::Single;
use super::{Postgres, batch::WHAT};
use crate::model::{RunId, TaskId, TaskKind, Timestamp};
use statements::{APPENDS, SETTLES, STARTS, TURNS};

/// What became of a write.
#[derive(sqlx::FromRow)]
struct Verdict {
    now: i64,
    write: i32,
    word: String,
    inbox_seq: i64,
    epoch: i64,
    /// Of the run, when the write happened.
    namespace: Option<String>,
    queue: Option<String>,
    /// When its workflow task may be claimed, if it may.
    due_at: Option<i64>,
}

type Judging<'q> = QueryAs<'q, sqlx::Postgres, Verdict, PgArguments>;

/// Binds one array for each field of `rows`.
macro_rules! bind {
    ($query:expr, $rows:expr; $($($field:ident).+)+) => {
        $query $(.bind($rows.iter().map(|row| &row.$($field).+).collect::<Vec<_>>()))+
    };
}

/// Carries out `writes` if they are plain; `None` when they are not, and nothing happened.
pub(super) async fn apply(store: &Postgres, writes: &[Write]) -> Result<Option<Applied>> {
    let Some(plain) = Plain::of(writes)? else {
        return Ok(None);
    };
    let query = match &plain {
        Plain::Starts(starts, records) => {
            events(of_starts(store.statements.rows(STARTS), starts), records)
        }
        Plain::Appends(fenced, records) => {
            let query = bind!(store.statements.rows(APPENDS), fenced;
                write task_id epoch lease_owner run_id);
            events(query, records)
        }
        Plain::Turns(fenced, records, activities, ended) => {
            let query = of_turns(store.statements.rows(TURNS), fenced);
            let query = of_activities(events(query, records), activities);
            bind!(query, ended; write task_id epoch lease_owner)
        }
        Plain::Settles(settles) => of_settles(store.statements.rows(SETTLES), settles),
    };
    let mut connection = Single::begin(store, WHAT).await?;
    let verdicts = query.fetch_all(&mut *connection).await;
    let verdicts = verdicts.map_err(at_commit(WHAT))?;
    connection.end(store, WHAT).await?;
    applied(writes, verdicts)
}

fn of_starts<'q>(query: Judging<'q>, rows: &'q [StartRow]) -> Judging<'q> {
    bind!(query, rows;
        write namespace workflow_id run_id run_number workflow_type queue priority compatibility
        history_length due lease_owner lease_us fairness_key fairness_weight)
}

fn of_turns<'q>(query: Judging<'q>, rows: &'q [FencedRow]) -> Judging<'q> {
    let query = bind!(query, rows;
        write task_id epoch lease_owner run_id of_activity follows length_before length_after
        drained due wait_reason take_owner take_us status closed_reason output_codec output
        failure);
    let turns = rows.iter().filter(|row| row.follows != "append");
    query.bind(turns.map(|row| &row.run_id).collect::<Vec<_>>())
}

fn of_activities<'q>(query: Judging<'q>, rows: &'q [ActivityRow]) -> Judging<'q> {
    bind!(query, rows;
        write step_seq scheduled_seq name queue priority schedule_to_start_us
        schedule_to_close_us start_to_close_us heartbeat_us lease_owner lease_us attempt_id)
}

fn of_settles<'q>(query: Judging<'q>, rows: &'q [SettleRow]) -> Judging<'q> {
    let query = bind!(query, rows;
        write task_id epoch lease_owner message.run_id message.kind message.step_seq message.at
        message.details message.codec message.payload);
    // Also the workflow tasks of their runs, which may have to be due sooner.
    let turns = rows.iter().map(|row| format!("{}:0", row.message.run_id));
    query.bind(
        turns
            .chain(rows.iter().map(|row| row.task_id.clone()))
            .collect::<Vec<_>>(),
    )
}

fn events<'q>(query: Judging<'q>, rows: &'q [PlacedRow]) -> Judging<'q> {
    bind!(query, rows;
        write record.run_id record.seq record.kind record.step_seq record.at record.details
        record.codec record.payload)
}

fn applied(writes: &[Write], mut verdicts: Vec<Verdict>) -> Result<Option<Applied>> {
    let is_other = |verdict: &Verdict| verdict.word == "other";
    if verdicts.len() != writes.len() || verdicts.iter().any(is_other) {
        return Ok(None);
    }
    verdicts.sort_by_key(|verdict| verdict.write);
    let now = verdicts.first().map_or(0, |verdict| verdict.now);
    let ready = ready(writes, &verdicts)?;
    let outcomes = writes.iter().zip(verdicts).map(|(write, verdict)| {
        let inbox_seq = u64::try_from(verdict.inbox_seq).unwrap_or(0);
        match verdict.word.as_str() {
            "lost" => Ok(Outcome::Lost),
            "stale" => Ok(Outcome::Stale),
            "taken" => Ok(Outcome::Taken {
                epoch: u64::try_from(verdict.epoch).unwrap_or(0),
                inbox_seq,
            }),
            _ => done(write, inbox_seq),
        }
    });
    Ok(Some(Applied {
        now: Timestamp::from_micros(now),
        outcomes: outcomes.collect::<Result<_>>()?,
        ready,
    }))
}

/// What `writes` have left to be claimed.
fn ready(writes: &[Write], verdicts: &[Verdict]) -> Result<Vec<Ready>> {
    let mut tasks = Vec::new();
    for (write, verdict) in writes.iter().zip(verdicts) {
        let (Some(namespace), Some(queue)) = (&verdict.namespace, &verdict.queue) else {
            continue;
        };
        let run = match write {
            Write::Start(start) => Some(&start.run),
            Write::Append(append) => Some(&append.run),
            Write::Turn(turn) => Some(&turn.run),
            Write::Settle(settle) => Some(&settle.run),
            // The others are not plain.
            _ => None,
        };
        tasks.extend(verdict.due_at.zip(run).map(|(due, run)| ReadyTask {
            kind: TaskKind::Workflow,
            namespace,
            queue,
            due,
            id: Cow::Owned(TaskId::of(run, 0).to_string()),
        }));
        if let Write::Turn(turn) = write {
            let free = turn.activities.iter();
            let free = free.filter(|activity| activity.lease.is_none());
            tasks.extend(free.map(|activity| ReadyTask {
                kind: TaskKind::Activity,
                namespace,
                queue: activity.queue.as_str(),
                due: verdict.now,
                id: Cow::Owned(TaskId::of(&turn.run, activity.step).to_string()),
            }));
        }
    }
    gathered(tasks)
}

fn done(write: &Write, inbox_seq: u64) -> Result<Outcome> {
    let done = |run: &RunId| Outcome::Done {
        run: run.clone(),
        inbox_seq,
    };
    match write {
        Write::Start(start) => Ok(Outcome::Started {
            run: start.run.clone(),
            created: true,
        }),
        Write::Append(append) => Ok(done(&append.run)),
        Write::Turn(turn) => Ok(done(&turn.run)),
        Write::Settle(settle) => Ok(done(&settle.run)),
        _ => Err(Error::corrupt("applying writes: one that is not plain")),
    }
}
