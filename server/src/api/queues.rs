//! Task queues: what waits in them, what is under way, and who looks there.

use std::collections::BTreeSet;

use axum::Json;
use coord_engine::model::{Namespace, Queue, TaskKind};
use coord_engine::store::{Census, QueueCensus, Tally, WorkerFilter, WorkerRecord};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, Read};
use super::input::At;
use super::problem::Problem;
use super::workers::WorkerItem;
use crate::Node;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(describe))
}

/// A task queue.
#[derive(Serialize, ToSchema)]
struct QueueItem {
    name: String,
    namespace: String,
    stats: Stats,
}

/// What stands in a queue.
#[derive(Serialize, ToSchema)]
struct Stats {
    /// How many tasks wait for a worker.
    approximate_backlog_count: u64,
    /// For how long the first of them has.
    approximate_backlog_age_seconds: Option<u64>,
    workflow_tasks: OfKind,
    activity_tasks: OfKind,
    pollers: Pollers,
    /// Whether there are more tasks in all than are counted.
    is_capped: bool,
}

/// The tasks of one kind.
#[derive(Serialize, ToSchema)]
struct OfKind {
    /// Those that wait for a worker.
    ready_count: u64,
    /// For how long the first of them has.
    oldest_ready_age_seconds: Option<u64>,
    /// Those that are due later.
    delayed_count: u64,
    /// Those that a worker has.
    leased_count: u64,
    /// Those whose lease has ended and that were not taken back yet.
    expired_lease_count: u64,
    /// Those that failed before and are tried again.
    retrying_count: u64,
    /// Those that are set aside.
    blocked_count: u64,
}

/// Who looks in a queue.
#[derive(Serialize, ToSchema)]
struct Pollers {
    active_count: u64,
    draining_count: u64,
}

impl OfKind {
    fn of(counted: Option<&QueueCensus>, census: &Census) -> Self {
        let of = |tally: fn(&QueueCensus) -> Tally| counted.map(tally).unwrap_or_default();
        let ready = of(|it| it.due);
        let blocked = of(|it| {
            let stuck = it.blocked_replay.and(it.blocked_poison);
            stuck.and(it.blocked_imported)
        });
        Self {
            ready_count: ready.count,
            oldest_ready_age_seconds: age(ready, census),
            delayed_count: counted.map_or(0, |it| it.later),
            leased_count: of(|it| it.leased).count,
            expired_lease_count: of(|it| it.expired).count,
            retrying_count: of(|it| it.retrying).count,
            blocked_count: blocked.count,
        }
    }
}

fn age(tally: Tally, census: &Census) -> Option<u64> {
    tally.since.map(|_| tally.age(census.now).as_secs())
}

/// What was looked at for all queues.
struct Seen {
    namespace: Namespace,
    census: Census,
    workers: Vec<WorkerRecord>,
}

impl Seen {
    async fn by(caller: &Caller<Read>, queue: Option<Queue>) -> Result<Self, Problem> {
        let engine = caller.node.engine();
        let filter = WorkerFilter {
            namespace: Some(caller.namespace.clone()),
            queue,
        };
        Ok(Self {
            namespace: caller.namespace.clone(),
            census: engine.census().await?,
            workers: engine.workers(&filter).await?,
        })
    }

    /// All queues of which anything is known.
    fn queues(&self) -> BTreeSet<&Queue> {
        let counted = self.census.queues.iter();
        let counted = counted.filter(|it| it.namespace == self.namespace);
        let looked_at = self.workers.iter().map(|it| &it.enlistment.queue);
        counted.map(|it| &it.queue).chain(looked_at).collect()
    }

    fn pollers(&self, queue: &Queue) -> impl Iterator<Item = &WorkerRecord> {
        let workers = self.workers.iter();
        workers.filter(move |worker| worker.enlistment.queue == *queue)
    }

    fn item(&self, queue: &Queue) -> QueueItem {
        let of = |kind: TaskKind| {
            self.census
                .queues
                .iter()
                .find(|it| it.namespace == self.namespace && it.queue == *queue && it.kind == kind)
        };
        let (workflow, activity) = (of(TaskKind::Workflow), of(TaskKind::Activity));
        let both = [workflow, activity].into_iter().flatten();
        let due = both.map(|it| it.due).fold(Tally::default(), Tally::and);
        let (draining, active): (Vec<_>, Vec<_>) =
            self.pollers(queue).partition(|worker| worker.is_draining);
        QueueItem {
            name: queue.to_string(),
            namespace: self.namespace.to_string(),
            stats: Stats {
                approximate_backlog_count: due.count,
                approximate_backlog_age_seconds: age(due, &self.census),
                workflow_tasks: OfKind::of(workflow, &self.census),
                activity_tasks: OfKind::of(activity, &self.census),
                pollers: Pollers {
                    active_count: active.len() as u64,
                    draining_count: draining.len() as u64,
                },
                is_capped: self.census.is_capped(),
            },
        }
    }
}

/// The task queues of a namespace.
#[derive(Serialize, ToSchema)]
struct QueueList {
    namespace: String,
    task_queues: Vec<QueueItem>,
}

/// The task queues of the namespace in which something waits or in which somebody looks, by their
/// names.
#[utoipa::path(get, path = "/task-queues", tag = "task-queues",
    responses((status = 200, body = QueueList)))]
async fn list(caller: Caller<Read>) -> Result<Json<QueueList>, Problem> {
    let seen = Seen::by(&caller, None).await?;
    let queues = seen.queues();
    let task_queues = queues.into_iter().map(|queue| seen.item(queue)).collect();
    Ok(Json(QueueList {
        namespace: caller.namespace.to_string(),
        task_queues,
    }))
}

/// A task queue with those who look there.
#[derive(Serialize, ToSchema)]
struct QueueDetail {
    #[serde(flatten)]
    queue: QueueItem,
    pollers: Vec<WorkerItem>,
}

/// A task queue: what stands in it, and who looks there. One of which nothing is known is empty.
#[utoipa::path(get, path = "/task-queues/{task_queue}", tag = "task-queues",
    params(("task_queue" = String, Path)), responses((status = 200, body = QueueDetail)))]
async fn describe(
    caller: Caller<Read>,
    At(queue): At<Queue>,
) -> Result<Json<QueueDetail>, Problem> {
    let seen = Seen::by(&caller, Some(queue.clone())).await?;
    Ok(Json(QueueDetail {
        queue: seen.item(&queue),
        pollers: seen.pollers(&queue).map(WorkerItem::of).collect(),
    }))
}
