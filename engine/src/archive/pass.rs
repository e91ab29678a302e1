//! A pass: what is due is handed over, and then removed, one run after the other.

use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Error, ErrorKind, Result};

use super::{Archive, Handed};
use crate::engine::Core;
use crate::model::{Event, History, Namespace, RunId, Timestamp};
use crate::retention::Right;
use crate::signals::Signal;
use crate::store::{Archival, ClosedRuns, Load, Store};

/// How many runs are looked at in one statement.
const RUNS: u32 = 500;
/// How many events are read at a time.
const PAGE: u32 = 1000;
/// Between pages, so that the work of the service comes first.
const PAUSE: Duration = Duration::from_millis(50);

/// All events of `run` that are here.
pub(crate) async fn events_of(store: &dyn Store, run: &RunId) -> Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let wanted = Load {
            run: run.clone(),
            after: events.last().map_or(0, |event| event.seq),
            limit: PAGE,
        };
        let loaded = store.load(&[wanted]).await?.runs.pop().flatten();
        let page = loaded.map(|run| run.events).unwrap_or_default();
        let is_last = page.len() < PAGE as usize;
        for record in page {
            events.push(Event::from_record(record)?);
        }
        if is_last {
            return Ok(events);
        }
    }
}

/// Hands the history of a closed run over and removes it here. Where it is then, or `None` when
/// another one was faster.
pub(crate) async fn archive_one(
    store: &dyn Store,
    archive: &dyn Archive,
    (namespace, run): (&Namespace, &RunId),
) -> Result<Option<String>> {
    let events = events_of(store, run).await?;
    let count = events.len() as u64;
    let history = History::new(run.clone(), events)?;
    let place = archive.keep(namespace, &history).await?;
    let archival = Archival {
        run: run.clone(),
        events: count,
        place,
    };
    let is_removed = store.archive(&archival).await?;
    Ok(is_removed.then_some(archival.place))
}

/// The closed runs of a namespace that are to be handed over.
pub(crate) struct Candidates<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) closed_for: Duration,
    /// How far earlier passes came: what closed before was handed over or refused. Whoever begins
    /// without it tries again what was refused.
    pub(crate) after: &'a mut Option<(Timestamp, RunId)>,
}

/// Hands over what is due of a namespace, as long as `right` lasts.
pub(crate) async fn pass(
    core: &Core,
    archive: &dyn Archive,
    closed: Candidates<'_>,
    right: Right,
) -> Result<Handed> {
    let mut handed = Handed::default();
    let passed = pages(core, archive, closed, (right, &mut handed)).await;
    if handed.archived > 0 {
        let runs = handed.archived;
        Signal::RunsArchived { runs }.emit();
    }
    passed.map(|()| handed)
}

async fn pages(
    core: &Core,
    archive: &dyn Archive,
    closed: Candidates<'_>,
    (right, handed): (Right, &mut Handed),
) -> Result<()> {
    let store = &*core.store;
    loop {
        let page = ClosedRuns {
            namespace: closed.namespace.clone(),
            closed_for: closed.closed_for,
            after: closed.after.clone(),
            limit: RUNS,
        };
        let found = store.unarchived(&page).await?;
        for (_, run) in &found.runs {
            match archive_one(store, archive, (closed.namespace, run)).await {
                Ok(place) => handed.archived += u64::from(place.is_some()),
                Err(error) => {
                    refused(run, &error);
                    handed.failed += 1;
                    // What is wrong with this one is not wrong with the next.
                    if !matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corrupt) {
                        return Err(error);
                    }
                }
            }
        }
        let Some(next) = found.next else {
            return Ok(());
        };
        *closed.after = Some(next);
        tokio::time::sleep(PAUSE).await;
        if !right.lasts(core).await? {
            return Ok(());
        }
    }
}

fn refused(run: &RunId, error: &Error) {
    let (run, error) = (Detail::new(run), Detail::error(error));
    Signal::ArchiveFailed { run, error }.emit();
}
