//! Schedules on the store in memory, whose time is that of the runtime.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::Engine;
use crate::client::{Client, ScheduleHandle, Triggered};
use crate::flow::{Context, Workflow};
use crate::memory::Memory;
use crate::model::{
    BuildId, Cause, Fired, Namespace, Overlap, OwnerId, Queue, Run, ScheduleId, When,
};
use crate::store::{
    Applied, Backlogs, BuildChange, Builds, Claim, Claimed, Description, DuePage, Enlistment,
    Filter, Heartbeat, Hints, Listing, Load, Loaded, NamespaceListing, NamespacePage,
    NamespaceRecord, NewNamespace, Page, Registration, Renewal, Renewed, Reply, Retire,
    ScheduleDescription, ScheduleListing, SchedulePage, Store, Sweep, Swept, Tenant, Term,
    WorkerFilter, WorkerRecord,
};
use crate::worker::Worker;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const REPORT: Workflow<u32, String> = Workflow::new("tests.report");
/// Takes as many seconds as it is given.
const LONG: Workflow<u64, ()> = Workflow::new("tests.long");

async fn report(ctx: Context, _: u32) -> Result<String, Failure> {
    let occurrence = ctx.occurrence().ok_or_else(|| Failure::new("none"))?;
    Ok(format!("{} of {}", occurrence.at, occurrence.schedule))
}

async fn long(ctx: Context, seconds: u64) -> Result<(), Failure> {
    ctx.sleep(Duration::from_secs(seconds)).await
}

async fn engine(store: impl Store) -> (Engine, Client, Worker) {
    let engine = Engine::start(store).await.expect("a store in memory");
    let worker = engine.worker(Namespace::default(), Queue::default());
    let worker = worker.workflow(REPORT, report).workflow(LONG, long).start();
    let client = engine.client(Namespace::default(), Queue::default());
    (engine, client, worker)
}

fn schedule(client: &Client) -> ScheduleHandle {
    client.schedule(ScheduleId::new("s").expect("an id"))
}

async fn described(handle: &ScheduleHandle) -> ScheduleDescription {
    handle.describe().await.expect("an answer").expect("there")
}

/// How many occurrences came between the first fire and now, each a `gap` after the one before.
fn assert_spaced(fires: &[Fired], gap: Duration) {
    for pair in fires.windows(2) {
        assert_eq!(pair[0].at.since(pair[1].at), gap, "{fires:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_starts_a_workflow_at_each_occurrence() {
    let (_engine, client, _worker) = engine(Memory::new()).await;
    let handle = schedule(&client);
    handle
        .create(When::every(MINUTE), REPORT, &1)
        .await
        .expect("created");

    tokio::time::sleep(10 * MINUTE).await;

    let now = described(&handle).await;
    assert_eq!(now.record.state.fires, 10);
    assert_eq!(now.record.state.skipped + now.record.state.missed, 0);
    assert_spaced(&now.fires, MINUTE);
    for fire in now.fires {
        assert!(fire.fired_at.since(fire.at) < 2 * SECOND, "{fire:?}");
        let workflow = client.handle(REPORT, fire.workflow.clone());
        let done = workflow.result(MINUTE).await.expect("an answer");
        assert_eq!(done, Some(Ok(format!("{} of s", fire.at))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_month_of_mornings_passes_in_a_test() {
    let (_engine, client, _worker) = engine(Memory::new()).await;
    let handle = schedule(&client);
    handle
        .create(When::cron("0 9 * * *", "Europe/Berlin"), REPORT, &1)
        .await
        .expect("created");

    // Jumps, so that nobody looks each second of a month; what they land beyond fires late.
    for _ in 0..30 * 24 {
        tokio::time::advance(59 * MINUTE).await;
        tokio::time::sleep(MINUTE).await;
    }

    let now = described(&handle).await;
    assert_eq!(now.record.state.fires, 30);
    assert!(now.fires.iter().all(|fire| fire.cause == Cause::Schedule));
}

#[tokio::test(start_paused = true)]
async fn what_waits_fires_when_the_open_workflow_has_ended() {
    let (_engine, client, _worker) = engine(Memory::new()).await;
    let handle = schedule(&client);
    handle
        .create(When::every(MINUTE), LONG, &90)
        .overlap(Overlap::BufferAll)
        .limit(3)
        .await
        .expect("created");

    tokio::time::sleep(10 * MINUTE).await;

    let now = described(&handle).await;
    assert_eq!(now.record.state.fires, 3);
    assert_spaced(&now.fires, MINUTE);
    for pair in now.fires.windows(2) {
        let gap = pair[0].fired_at.since(pair[1].fired_at);
        assert!((90 * SECOND..94 * SECOND).contains(&gap), "{gap:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_open_workflow_is_cancelled_or_terminated_for_the_next_one() {
    for (overlap, sort) in [
        (Overlap::CancelOther, Failure::CANCELLED),
        (Overlap::TerminateOther, Failure::TERMINATED),
    ] {
        let (_engine, client, _worker) = engine(Memory::new()).await;
        let handle = schedule(&client);
        handle
            .create(When::every(MINUTE), LONG, &3600)
            .overlap(overlap)
            .await
            .expect("created");

        tokio::time::sleep(3 * MINUTE + 5 * SECOND).await;

        let fires = described(&handle).await.fires;
        assert!(fires.len() >= 3, "{fires:#?}");
        for fire in &fires[1..] {
            let workflow = client.handle(LONG, fire.workflow.clone());
            let end = workflow.result(SECOND).await.expect("an answer");
            let end = end.expect("it has ended").expect_err("not by itself");
            assert_eq!(end.kind, sort);
        }
        let last = client.handle(LONG, fires[0].workflow.clone());
        assert_eq!(last.result(SECOND).await.expect("an answer"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_rests_and_a_trigger_fires_it() {
    let (_engine, client, _worker) = engine(Memory::new()).await;
    let handle = schedule(&client);
    handle
        .create(When::every(MINUTE), LONG, &30)
        .await
        .expect("created");
    handle.pause("holidays").await.expect("paused");
    tokio::time::sleep(5 * MINUTE).await;
    let paused = described(&handle).await.record;
    assert_eq!((paused.state.fires, paused.state.missed), (0, 0));
    assert_eq!(paused.state.note, "holidays");

    let Triggered::Started(workflow) = handle.trigger().await.expect("an answer") else {
        panic!("nothing is open");
    };
    assert_eq!(
        handle.trigger().await.expect("an answer"),
        Triggered::Skipped
    );
    let workflow = client.handle(LONG, workflow);
    assert_eq!(
        workflow.result(MINUTE).await.expect("an answer"),
        Some(Ok(()))
    );

    handle.resume("back").await.expect("resumed");
    tokio::time::sleep(3 * MINUTE).await;
    let state = described(&handle).await.record.state;
    assert_eq!((state.fires, state.missed, state.skipped), (4, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_backfill_makes_up_a_span_and_repeats_nothing() {
    let (_engine, client, _worker) = engine(Memory::new()).await;
    let handle = schedule(&client);
    handle
        .create(When::every(MINUTE), REPORT, &1)
        .await
        .expect("created");
    let now = described(&handle).await.now;
    let from = Timestamp::from_micros(now.as_micros() - 300_000_000);

    for _ in 0..2 {
        handle
            .backfill(from, now, Overlap::AllowAll)
            .await
            .expect("accepted");
    }

    let fires = described(&handle).await.fires;
    assert_eq!(fires.len(), 5, "{fires:#?}");
    assert_spaced(&fires[..5], MINUTE);
    assert!(fires.iter().all(|fire| fire.at >= from && fire.at < now));
}

#[tokio::test(start_paused = true)]
async fn of_two_updates_of_one_version_the_second_is_told() {
    let (_engine, client, _worker) = engine(Memory::new()).await;
    let handle = schedule(&client);
    handle
        .create(When::every(MINUTE), REPORT, &1)
        .await
        .expect("created");
    let read = described(&handle).await.record;
    let mut wanted = read.schedule.clone();
    wanted.when = When::every(Duration::from_hours(1));
    // A fire in between is no other version.
    tokio::time::sleep(2 * MINUTE).await;

    let version = read.state.version;
    assert!(handle.update(version, &wanted).await.expect("an answer"));
    assert!(
        !handle
            .update(version, &read.schedule)
            .await
            .expect("an answer")
    );

    assert_eq!(described(&handle).await.record.schedule, wanted);
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_refused_and_free_again_when_deleted() {
    let (_engine, client, _worker) = engine(Memory::new()).await;
    let handle = schedule(&client);
    let create = || handle.create(When::every(MINUTE), REPORT, &1);
    create().await.expect("created");

    let refused = create().await.expect_err("in use");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(handle.delete().await.expect("an answer"));
    assert!(!handle.delete().await.expect("an answer"));

    create().await.expect("created again");
    let missing = client.schedule(ScheduleId::new("t").expect("an id"));
    let missing = missing.pause("").await.expect_err("none");
    assert_eq!(missing.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn another_scheduler_takes_over_from_one_that_is_gone() {
    let memory = Memory::new();
    let (first, client, worker) = engine(memory.clone()).await;
    let handle = schedule(&client);
    handle
        .create(When::every(10 * SECOND), REPORT, &1)
        .overlap(Overlap::AllowAll)
        .await
        .expect("created");
    let (_second, client, _worker) = engine(memory).await;
    tokio::time::sleep(MINUTE).await;

    drop((first, handle, worker));
    tokio::time::sleep(MINUTE).await;

    let now = described(&schedule(&client)).await;
    let late = now.now.since(now.fires[0].at);
    assert!(late < TERM + RENEW + 10 * SECOND, "{late:?}");
    assert!(now.fires.len() > 9, "{:#?}", now.fires);
    assert_spaced(&now.fires, 10 * SECOND);
}

/// A database that goes away around the first fires: some do not happen, and of others the answer
/// is lost.
#[derive(Clone)]
struct Unsteady {
    inner: Memory,
    fires: Arc<AtomicU32>,
}

macro_rules! pass_on {
    ($lifetime:lifetime $($name:ident($($argument:ident: $Type:ty),*) -> $Reply:ty;)+) => {$(
        fn $name<$lifetime>(&$lifetime self, $($argument: $Type),*) -> Reply<$lifetime, $Reply> {
            self.inner.$name($($argument),*)
        }
    )+};
}

impl Store for Unsteady {
    fn apply<'a>(&'a self, writes: &'a [Write]) -> Reply<'a, Applied> {
        let is_fire = |write: &Write| match write {
            Write::Schedule(schedule) => !schedule.fires.is_empty(),
            _ => false,
        };
        if !writes.iter().any(is_fire) {
            return self.inner.apply(writes);
        }
        match self.fires.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => Box::pin(std::future::ready(Err(Error::unavailable("away")))),
            1 => Box::pin(async {
                self.inner.apply(writes).await?;
                Err(Error::timeout("no answer"))
            }),
            _ => self.inner.apply(writes),
        }
    }

    fn within(&self, namespace: &Namespace) -> Arc<dyn Store> {
        self.inner.within(namespace)
    }

    fn apart(&self) -> Option<Arc<dyn Store>> {
        None
    }

    pass_on! { 'a
        migrate() -> ();
        claim(claim: &'a Claim) -> Claimed;
        load(wanted: &'a [Load]) -> Loaded;
        renew(renewal: &'a Renewal) -> Renewed;
        overdue(limit: u32) -> Vec<crate::store::Overdue>;
        sweep(sweep: &'a Sweep) -> Swept;
        find(of: &'a Target) -> Option<Run>;
        describe(of: &'a Target) -> Option<Description>;
        list(listing: &'a Listing) -> Page;
        count(filter: &'a Filter) -> u64;
        retire(retire: &'a Retire) -> u64;
        tenants() -> Vec<Tenant>;
        census() -> crate::store::Census;
        survey() -> crate::store::Survey;
        examine(long: Duration) -> crate::store::Examination;
        unarchived(page: &'a crate::store::ClosedRuns) -> crate::store::Unarchived;
        archive(archival: &'a crate::store::Archival) -> bool;
        keep(namespace: &'a Namespace, retention: Duration) -> ();
        create_namespace(new: &'a NewNamespace) -> bool;
        change_namespace(change: &'a crate::store::NamespaceChange) -> bool;
        describe_namespace(namespace: &'a Namespace) -> Option<NamespaceRecord>;
        list_namespaces(listing: &'a NamespaceListing) -> NamespacePage;
        declare_attribute(new: &'a crate::store::Declaration) -> bool;
        withdraw_attribute(namespace: &'a Namespace, name: &'a str) -> bool;
        declared_attributes(namespace: &'a Namespace) -> crate::store::Declarations;
        due_schedules(due: &'a DueSchedules) -> DuePage;
        describe_schedule(of: &'a ScheduleKey) -> Option<ScheduleDescription>;
        list_schedules(listing: &'a ScheduleListing) -> SchedulePage;
        register(registration: &'a Registration) -> crate::store::Registered;
        roles() -> crate::store::Roles;
        forget(idle: Duration, limit: u32) -> u64;
        unattended(page: &'a crate::store::Unattended) -> crate::store::Lacking;
        heartbeat(heartbeat: &'a Heartbeat) -> Option<Timestamp>;
        bury(term: &'a Term) -> Vec<crate::store::Buried>;
        elect(role: Role, holder: &'a OwnerId, ttl: Duration) -> Option<Term>;
        resign(term: &'a Term) -> ();
        enlist(worker: &'a Enlistment) -> ();
        dismiss(worker: &'a str) -> ();
        workers(filter: &'a WorkerFilter) -> Vec<WorkerRecord>;
        backlogs() -> Backlogs;
        change_build(change: &'a BuildChange) -> bool;
        promoted(namespace: &'a Namespace) -> Option<BuildId>;
        builds(namespace: &'a Namespace) -> Builds;
        hint(message: &'a str) -> ();
        hints(after: Option<i64>) -> Hints;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fire_that_broke_off_is_neither_lost_nor_doubled() {
    let store = Unsteady {
        inner: Memory::new(),
        fires: Arc::default(),
    };
    let (_engine, client, _worker) = engine(store).await;
    let handle = schedule(&client);
    handle
        .create(When::every(10 * SECOND), LONG, &1)
        .await
        .expect("created");

    tokio::time::sleep(5 * MINUTE).await;

    let now = described(&handle).await;
    assert!(now.fires.len() >= 29, "{:#?}", now.fires);
    assert_eq!(now.record.state.fires, now.fires.len() as u64);
    assert_spaced(&now.fires, 10 * SECOND);
    let all = Filter::all(Namespace::default());
    let runs = client.count(&all).await.expect("a count");
    assert_eq!(runs, now.record.state.fires, "each occurrence has one run");
}

/// Two that both take themselves for the only one.
#[tokio::test(start_paused = true)]
async fn two_schedulers_at_once_fire_each_occurrence_once() {
    let memory = Memory::new();
    let (one, client, _worker) = engine(memory.clone()).await;
    let (other, ..) = engine(memory).await;
    let handle = schedule(&client);
    handle
        .create(When::every(10 * SECOND), REPORT, &1)
        .await
        .expect("created");

    for _ in 0..60 {
        tokio::time::sleep(SECOND).await;
        let (mut first, mut second) = (Scheduler::default(), Scheduler::default());
        let (one, other) = (one.core(), other.core());
        let (first, second) = tokio::join!(first.fire_due(one), second.fire_due(other));
        first.and(second).expect("no conflict is seen");
    }

    let now = described(&handle).await;
    assert_eq!(now.record.state.fires, now.fires.len() as u64);
    assert!(now.fires.len() >= 5);
    assert_spaced(&now.fires, 10 * SECOND);
}

/// On several threads the scheduler may run before the call that starts the engine returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_engine_that_starts_fires_its_schedules() {
    let one = async || {
        let (_engine, client, _worker) = engine(Memory::new()).await;
        let handle = schedule(&client);
        let create = handle.create(When::every(SECOND), REPORT, &1);
        create.await.expect("created");
        while described(&handle).await.record.state.fires == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..100 {
        all.spawn(one());
    }
    let all = tokio::time::timeout(MINUTE, all.join_all()).await;
    all.expect("a scheduler in each process");
}
