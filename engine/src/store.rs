//! The port: what the engine asks of a database, in a dozen coarse calls.
//!
//! A dialect implements [`Store`]. It decides nothing about workflows: it moves rows, in one
//! transaction a call, and keeps the promises below. The rules of workflows are in
//! [`model`](crate::model) and pure.
//!
//! # Promises
//! Each has a test of this name in the conformance suite, which runs on every dialect.
//!
//! | promise | test |
//! |---|---|
//! | A call is one transaction: it happens whole or not at all. | `a_failed_call_leaves_nothing` |
//! | A write in [`apply`](Store::apply) happens whole or not at all, whatever becomes of the others in the batch; a write whose fence fails is `Lost` and the others commit. | `a_lost_write_does_not_take_its_batch_along` |
//! | Whatever way a dialect takes to carry out a batch, it does the same. | `a_write_does_the_same_alone_and_among_others` |
//! | A fence compares task, owner and epoch and the end of the lease, in the first statement that touches the run, after any lock wait. | `an_expired_lease_writes_nothing`, `a_late_owner_writes_nothing_after_a_takeover` |
//! | The epoch of a task grows at every claim and at every take-back, also over the workflow tasks of a run that come and go. | `an_epoch_never_comes_twice` |
//! | Instants are read from the database's clock, after the locks are held. | `a_lease_is_whole_after_a_lock_wait` |
//! | A claim takes due tasks of its queue and kind by priority, and those of one key by the instant at which they became due, then by id; it never takes more than its limit, and not the same task as another. | `claims_go_by_priority_and_age`, `two_claims_never_share_a_task`, `a_claim_takes_no_more_than_its_limit` |
//! | Within a priority it takes from the shares of different keys in proportion to their weights, whoever claims: however much one of them has, it holds up no other. Tasks without a key share as one. | `much_of_one_key_holds_up_no_other`, `a_weight_is_a_share_whoever_claims`, `tasks_without_a_key_share_as_one`, `a_priority_goes_before_all_shares`, `a_share_goes_with_a_run_to_all_its_tasks`, `claims_of_shares_at_once_take_each_task_once`, `a_queue_of_shares_says_when_to_come_again` |
//! | A claim of certain tasks takes those of them that any claim would, and no other. | `a_claim_of_certain_tasks_takes_those_alone` |
//! | A claim takes of each kind what it wants, and says when there will be more of a kind that has none. | `a_claim_takes_of_each_kind_what_it_wants`, `an_empty_claim_says_when_to_come_again` |
//! | What is taken back is taken from the queues in turns. | `much_of_one_queue_keeps_no_other_waiting` |
//! | An open run that lost its workflow task gets one, and no other run does. | `a_run_that_lost_its_task_goes_on`, `a_run_that_lacks_nothing_is_left_alone` |
//! | An activity that lost its task gets one, and no other does. | `an_activity_that_lost_its_task_goes_on` |
//! | An incarnation that has ended is forgotten after a while, and never while it has a lease. | `those_who_ended_are_forgotten_after_a_while` |
//! | A node that has one process at a time has the one that came last. | `a_node_that_is_exclusive_has_the_process_that_came_last` |
//! | What the quotas of claims bound holds over all who claim. | `a_quota_of_leases_holds_over_all_who_claim`, `a_quota_of_a_minute_holds_over_all_who_claim`, `a_quota_of_a_namespace_counts_all_its_queues` |
//! | A claim does not wait for rows that others have locked, and reads no row that is not due. | `a_claim_passes_locked_rows_by`, and an EXPLAIN test a dialect |
//! | A run has at most one workflow task. | `news_for_a_run_with_a_task_adds_none` |
//! | A message gets a dense place in its run's inbox, in the order of commits; a turn that ends while messages wait leaves a workflow task that is due at once. | `news_during_a_turn_is_never_forgotten` |
//! | A closed run takes no message, no event and no task, and all its tasks are gone. | `a_closed_run_changes_no_more` |
//! | When a run closes, its parent gets its message and its open children get theirs, in the same transaction. | `a_close_reaches_parent_and_children` |
//! | Continue-as-new hands the waiting messages to the next run, in their order. | `a_continued_run_loses_no_message` |
//! | An id is started once. The same `Start` again is answered as its first time. | `an_id_is_started_once`, `a_repeated_start_created_its_run` |
//! | Where as many messages wait as may, one more is refused, and what is there stays. | `a_message_beyond_what_may_wait_is_refused` |
//! | A command with the same request id is carried out once. | `a_repeated_command_is_carried_out_once`, `a_start_that_is_requested_again_is_answered_as_the_first_time` |
//! | A run is removed when it has been closed for long enough, with all that belongs to it, and no open run ever is. | `a_closed_run_goes_with_all_that_belongs_to_it`, `an_open_run_and_a_young_one_stay` |
//! | A history leaves when it is kept elsewhere as a whole, and its run says where. | `a_history_leaves_when_all_of_it_is_kept_elsewhere`, `a_run_without_its_history_is_removed_when_its_time_has_come` |
//! | Writes in a transaction of the caller happen exactly if the caller commits. | `a_write_in_the_callers_transaction_happens_when_it_commits`, `a_transaction_of_the_caller_that_is_rolled_back_leaves_nothing` |
//! | Of two that change a schedule from the same revision one gets through, with all that goes with it. | `an_occurrence_fires_once_whoever_decides_it` |
//! | Runs are counted by where they stand, and processes show what they do. | `a_survey_counts_runs_and_shows_processes` |
//! | What waits, is done, is late and is set aside is counted by queue, with the age of the oldest. | `a_census_counts_what_stands_with_its_age` |
//! | A schedule is due at its instant, and says which of its workflows are open. | `a_schedule_is_due_at_its_instant`, `an_open_workflow_is_known_to_its_schedule` |
//! | A renewal never revives a lease that has ended. | `a_late_renewal_revives_nothing` |
//! | A batch says which queues have tasks to claim by it, and from when on. | `a_batch_says_what_it_leaves_to_be_claimed` |
//! | Hints are read in the order of their numbers, and old ones go. | `hints_are_read_in_their_order_by_all`, `old_hints_go` |
//! | A store that keeps to a namespace takes back, ends, fires, removes and buries nothing of another. | `a_node_touches_nothing_of_another_namespace` |
//! | A namespace is registered once, and keeps what it was registered with until that is changed. | `a_namespace_is_registered_once`, `what_a_namespace_was_registered_with_changes_as_far_as_it_is_said` |
//! | A search attribute is declared once in its namespace, until it is withdrawn. | `a_search_attribute_is_declared_once_until_it_is_withdrawn`, `a_namespace_declares_so_many_search_attributes_and_no_more` |
//! | A claim takes no task of a build that it does not name, and leaves it as it is. | `a_claim_leaves_what_its_builds_cannot_go_on_with` |
//! | A claim takes no run that began with code that it does not name, and the first code that is recorded stays. | `a_claim_leaves_runs_that_began_with_other_code` |
//! | A mark goes with a run to its tasks. | `a_mark_goes_with_a_run_to_its_tasks` |
//! | What waits is counted by type and build, with what bounds how much of it is claimed. | `what_waits_is_counted_with_what_bounds_it` |
//! | A worker is seen as long as its process lives. | `a_worker_is_seen_as_long_as_its_process_lives` |
//! | One build is promoted, and it is not to end. | `one_build_is_promoted_and_not_to_end` |
//! | Concurrent calls end in no deadlock that the caller sees. | `many_writers_and_claimers_see_no_deadlock` |
//! | Any number of processes may migrate at once, on an empty or a current database. | `many_processes_migrate_at_once` |
//!
//! # Locks
//! Schedules first, in ascending order; then names of new instances, in ascending order; then runs, in ascending order of their ids;
//! then tasks, in ascending order of theirs. What tells which runs are meant, such as the children
//! of a run that closes, is read before the locks and again after them.
//!
//! # Errors
//! `Unavailable`: nothing happened. `Timeout`: the connection broke after the commit was sent, so
//! it may have happened. `Contended`: the database chose this transaction to end a deadlock or a
//! conflict, and a few tries did not help; nothing happened. `Invalid`: a value that the database
//! does not take, in some write of the batch; nothing happened, and the caller splits the batch.
//! `Corrupt`: a row that is not ours.
//!
//! After a `Timeout` the caller asks [`renew`](Store::renew) what it still holds: every
//! [`Turn`] but one that keeps its task, every [`Settle`] and every [`PutBack`] ends the lease, so
//! a lease that still holds proves that the write did not happen. An [`Append`] that is repeated
//! under a lease that still holds skips the events that are there. [`Start`] and [`Deliver`] are
//! repeated as they are.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod answers;
mod archive;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod batch;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod begin;
mod builds;
mod caller;
mod census;
mod claim;
mod declarations;
mod examine;
mod fairness;
mod fleet;
mod hints;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod listing;
mod measured;
#[cfg(feature = "mysql")]
mod mysql;
mod namespaces;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
mod quotas;
mod read;
mod retention;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod rows;
mod schedule;
#[cfg(feature = "sqlite")]
mod sqlite;
mod survey;
#[cfg(all(test, any(feature = "postgres", feature = "mysql")))]
#[path = "../tests/conformance/server.rs"]
mod test_server;
pub(crate) mod url;
mod workers;
mod write;

use std::pin::Pin;
use std::sync::Arc;

use coord_core::Result;

use crate::model::{BuildId, Namespace, OwnerId, Run, Timestamp};
use crate::operator::Connections;
use crate::wake::Backend;

pub use archive::{Archival, Archived, ClosedRuns, Unarchived};
#[cfg(any(test, feature = "testing"))]
pub(crate) use builds::Decided;
pub use builds::{BuildChange, BuildStep, Builds, Ending, OpenRuns};
pub use caller::CallerTransaction;
pub use census::{
    Census, MOST_COUNTED, NodeCensus, QueueCensus, RoleCensus, ScheduleCensus, Tally,
};
pub use claim::{
    Claim, Claimed, ClaimedTask, Lacking, Load, Loaded, LoadedRun, Overdue, Renewal, RenewalItem,
    Renewed, StillHeld, Sweep, Swept, Unattended, Wanted,
};
pub(crate) use declarations::MAX_DECLARATIONS;
pub use declarations::{AttributeKind, Declaration, Declarations, Declared};
pub use examine::{Examination, Long, Plan, Pooler, Risk};
#[cfg(any(test, feature = "testing"))]
pub(crate) use fairness::{Share, charges, portions};
pub use fleet::{Buried, Heartbeat, Incarnation, Registered, Registration, Role, Roles, Term};
pub use hints::Hints;
pub(crate) use measured::Measured;
#[cfg(feature = "mysql")]
pub use mysql::Mysql;
pub use namespaces::{
    NamespaceChange, NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace,
};
pub(crate) use place::{Place, Product, Secret, Server};
#[cfg(feature = "postgres")]
pub use postgres::{Notify, Postgres};
#[cfg(any(test, feature = "testing"))]
pub(crate) use quotas::Entered;
pub use quotas::{Quota, QuotaOf};
pub use read::{
    Condition, Description, Filter, Listing, OpenTask, OwnerRecord, Page, Period, Test,
};
#[cfg(any(test, feature = "testing"))]
pub(crate) use retention::portion;
pub use retention::{Retire, Tenant};
pub use schedule::{
    DuePage, DueSchedules, Fire, ScheduleDescription, ScheduleKey, ScheduleListing, SchedulePage,
    ScheduleWrite,
};
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub use survey::{NodeRecord, Standing, Survey};
pub use workers::{
    Backlog, Backlogs, Enlistment, Paid, Types, UnderWay, WorkerFilter, WorkerRecord,
};
pub(crate) use write::LOST_EPOCHS;
pub use write::{
    Append, Applied, BlockedReason, Closing, CommandKind, Deliver, Fence, Held, Holder, Lease,
    NewActivity, OnDuplicate, Outcome, PutBack, PutBackHow, Ready, Restore, Settle, Start, Target,
    Terminate, Then, Turn, Write,
};

/// What a call of the port returns.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A database that holds runs, tasks and their history. See the [module](self) for its promises.
///
/// # Cancel safety
/// No call is safe to drop in the sense that nothing happened: a transaction whose commit was sent
/// is committed. None leaves half of one behind, and a connection with an open transaction is not
/// given to anybody else before it is rolled back.
pub trait Store: Send + Sync + 'static {
    /// Brings the schema to this version. Safe from any number of processes at once; an older
    /// version of this crate goes on working.
    fn migrate(&self) -> Reply<'_, ()>;

    /// Carries out `writes` in one transaction and answers each, in their order.
    fn apply<'a>(&'a self, writes: &'a [Write]) -> Reply<'a, Applied>;

    /// Carries out `writes` as part of a transaction of the caller, whole or not at all: they happen
    /// when the caller commits. Locks are taken in the order of [`apply`](Self::apply) and kept until
    /// then. `Contended` and `Unavailable` mean that the caller has to begin again.
    ///
    /// A store whose database has no transactions that a caller could begin answers `Invalid`.
    fn apply_in<'a>(
        &'a self,
        transaction: CallerTransaction<'a>,
        writes: &'a [Write],
    ) -> Reply<'a, Applied> {
        _ = (transaction, writes);
        Box::pin(std::future::ready(Err(caller::foreign())))
    }

    /// Leases due tasks.
    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claimed>;

    /// Reads runs with their history and their waiting messages, each run in one snapshot.
    fn load<'a>(&'a self, wanted: &'a [Load]) -> Reply<'a, Loaded>;

    /// Extends the leases that are still held, records heartbeats, and says what was lost.
    fn renew<'a>(&'a self, renewal: &'a Renewal) -> Reply<'a, Renewed>;

    /// At most `limit` activities that have exceeded one of their times, the longest overdue first.
    /// Nothing is reserved: the [`Settle`] or [`PutBack`] that follows is fenced by
    /// [`Holder::Overdue`].
    fn overdue(&self, limit: u32) -> Reply<'_, Vec<Overdue>>;

    /// Takes back leases that have ended, and leases of owners that are registered and neither live
    /// nor draining.
    fn sweep<'a>(&'a self, sweep: &'a Sweep) -> Reply<'a, Swept>;

    /// Looks through a page of open runs for those that lack their workflow task, and says where the
    /// next page begins. Nothing is reserved: [`Write::Repair`] looks again.
    fn unattended<'a>(&'a self, page: &'a Unattended) -> Reply<'a, Lacking>;

    /// A run of an instance, the current one unless `run` names another; `None` if there is none.
    /// One look at one row: for who waits for its end.
    fn find<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Run>>;

    /// The same run with all that people want to know of it.
    fn describe<'a>(&'a self, of: &'a Target) -> Reply<'a, Option<Description>>;

    /// Runs, the youngest first.
    fn list<'a>(&'a self, listing: &'a Listing) -> Reply<'a, Page>;

    /// How many runs are meant.
    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64>;

    /// Removes closed runs that were kept for long enough, and says how many. An open run stays
    /// whatever its age.
    fn retire<'a>(&'a self, retire: &'a Retire) -> Reply<'a, u64>;

    /// The namespaces that have runs, in ascending order.
    fn tenants(&self) -> Reply<'_, Vec<Tenant>>;

    /// Sets for how long closed runs of a namespace are kept, and registers it if it is not.
    fn keep<'a>(
        &'a self,
        namespace: &'a Namespace,
        retention: std::time::Duration,
    ) -> Reply<'a, ()>;

    /// Registers a namespace. Whether it was not registered before; one that was is left as it is.
    fn create_namespace<'a>(&'a self, new: &'a NewNamespace) -> Reply<'a, bool>;

    /// A namespace that is registered; `None` if it is not.
    fn describe_namespace<'a>(
        &'a self,
        namespace: &'a Namespace,
    ) -> Reply<'a, Option<NamespaceRecord>>;

    /// Changes what a namespace was registered with, as far as `change` says. Whether it is
    /// registered.
    fn change_namespace<'a>(&'a self, change: &'a NamespaceChange) -> Reply<'a, bool>;

    /// The namespaces that are registered, by their names.
    fn list_namespaces<'a>(&'a self, listing: &'a NamespaceListing) -> Reply<'a, NamespacePage>;

    /// Declares a search attribute. `false`, and nothing happened, when its name is declared, or
    /// as many are as may be.
    fn declare_attribute<'a>(&'a self, new: &'a Declaration) -> Reply<'a, bool>;

    /// Takes the declaration of a search attribute back. Whether it was declared.
    fn withdraw_attribute<'a>(&'a self, namespace: &'a Namespace, name: &'a str)
    -> Reply<'a, bool>;

    /// The search attributes that a namespace declares.
    fn declared_attributes<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Declarations>;

    /// Whether the schema of this version can be read: otherwise the error says what is missing,
    /// tables or rights, and what to do about it.
    fn look(&self) -> Reply<'_, ()> {
        Box::pin(async {
            let listing = NamespaceListing {
                limit: 1,
                after: None,
            };
            self.list_namespaces(&listing).await.map(drop)
        })
    }

    /// Schedules whose instant has come, of all tenants. Nothing is reserved: the
    /// [`ScheduleWrite`] that follows is fenced by the revision.
    fn due_schedules<'a>(&'a self, due: &'a DueSchedules) -> Reply<'a, DuePage>;

    /// A schedule with its latest fires; `None` if there is none.
    fn describe_schedule<'a>(
        &'a self,
        of: &'a ScheduleKey,
    ) -> Reply<'a, Option<ScheduleDescription>>;

    /// The schedules of a tenant, by their ids.
    fn list_schedules<'a>(&'a self, listing: &'a ScheduleListing) -> Reply<'a, SchedulePage>;

    /// What stands where, in one snapshot.
    fn census(&self) -> Reply<'_, Census>;

    /// Where runs stand and who works, in one snapshot.
    fn survey(&self) -> Reply<'_, Survey>;

    /// A page of closed runs, and which of them have their history here.
    fn unarchived<'a>(&'a self, page: &'a ClosedRuns) -> Reply<'a, Unarchived>;

    /// Removes the history of a closed run that is kept elsewhere, with its messages and failed
    /// attempts, and notes where that is. `false`, and nothing happened, when the run is open or not
    /// there, has another number of events, or was archived before.
    fn archive<'a>(&'a self, archival: &'a Archival) -> Reply<'a, bool>;

    /// What the database says of itself, for those who look after it; transactions count as long
    /// from `long` on.
    fn examine(&self, long: std::time::Duration) -> Reply<'_, Examination>;

    /// Registers an incarnation of a process as live.
    fn register<'a>(&'a self, registration: &'a Registration) -> Reply<'a, Registered>;

    /// Shows that an incarnation lives, or learns that it was declared dead.
    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Reply<'a, Option<Timestamp>>;

    /// Declares dead the incarnations whose heartbeat is overdue, while `term` holds.
    fn bury<'a>(&'a self, term: &'a Term) -> Reply<'a, Vec<Buried>>;

    /// Takes or renews a role for `holder`; `None` while somebody else has it.
    fn elect<'a>(
        &'a self,
        role: Role,
        holder: &'a OwnerId,
        ttl: std::time::Duration,
    ) -> Reply<'a, Option<Term>>;

    /// Who has the roles.
    fn roles(&self) -> Reply<'_, Roles>;

    /// Removes at most `limit` incarnations that have ended, gave their last sign at least `idle`
    /// ago and have no lease, and says how many.
    fn forget(&self, idle: std::time::Duration, limit: u32) -> Reply<'_, u64>;

    /// Gives a role up, if its term still holds.
    fn resign<'a>(&'a self, term: &'a Term) -> Reply<'a, ()>;

    /// Lets others see a worker, as long as its process lives; anew when they see it already.
    /// Workers whose process is gone are forgotten.
    fn enlist<'a>(&'a self, worker: &'a Enlistment) -> Reply<'a, ()>;

    /// A worker has ended.
    fn dismiss<'a>(&'a self, worker: &'a str) -> Reply<'a, ()>;

    /// The workers whose process counts as alive.
    fn workers<'a>(&'a self, filter: &'a WorkerFilter) -> Reply<'a, Vec<WorkerRecord>>;

    /// What may be claimed now, and what bounds how much of it is, at a cost that grows with the
    /// number of ready tasks.
    fn backlogs(&self) -> Reply<'_, Backlogs>;

    /// Takes a step with a build; `false` when it cannot be taken: see [`BuildStep`].
    fn change_build<'a>(&'a self, change: &'a BuildChange) -> Reply<'a, bool>;

    /// What new runs of a namespace are marked with, where it was said.
    fn promoted<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Option<BuildId>>;

    /// The builds of a namespace.
    fn builds<'a>(&'a self, namespace: &'a Namespace) -> Reply<'a, Builds>;

    /// Leaves a hint for all processes. The last few thousand are kept.
    fn hint<'a>(&'a self, message: &'a str) -> Reply<'a, ()>;

    /// The hints after a number, a thousand at most; the last ones when there is none.
    fn hints(&self, after: Option<i64>) -> Reply<'_, Hints>;

    /// The connections that it has now; `None` where there are none.
    fn connections(&self) -> Option<Connections> {
        None
    }

    /// The same store, whose calls for all stay in `namespace`: what is overdue, left, due or past
    /// its retention elsewhere is neither seen nor touched, and neither are processes that keep to
    /// another namespace. It has roles of its own. Every other call says itself which namespace it
    /// is for.
    fn within(&self, namespace: &Namespace) -> Arc<dyn Store>;

    /// What carries hints by means of the database's own, where it has any.
    fn notify(&self) -> Option<Arc<dyn Backend>> {
        None
    }

    /// The same database through connections of its own, to be opened on the runtime that calls
    /// this: for heartbeats and renewals, which must not wait behind other work. `None` when its
    /// calls wait for nothing.
    fn apart(&self) -> Option<Arc<dyn Store>>;
}
