//! Shares of a queue by key and weight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coord_engine::model::{Due, Fairness, FairnessKey, FairnessWeight, Priority, TaskKind};
use coord_engine::store::{Claim, ClaimedTask, Outcome, Start, Store, Turn, Write};

use crate::stage::{Stage, activity, queue, record, settle, turn};
use crate::writes::join_all;

/// How many workflows are started at a time.
const BATCH: usize = 250;

fn fairness(key: &str, weight: u16) -> Fairness {
    Fairness {
        key: FairnessKey::new(key).expect("a key"),
        weight: FairnessWeight::new(weight).expect("a weight"),
    }
}

impl Stage {
    /// Workflows in the queue `q`, called after their key and their number.
    async fn start_shared(&self, key: &str, weight: u16, count: usize) {
        let starts = (0..count).map(|number| self.shared_run(key, weight, number));
        self.start_all(starts.collect()).await;
    }

    fn shared_run(&self, key: &str, weight: u16, number: usize) -> Start {
        Start {
            queue: queue("q"),
            fairness: (!key.is_empty()).then(|| fairness(key, weight)),
            ..self.new_run(&format!("{key}-{number:05}"))
        }
    }

    async fn start_all(&self, starts: Vec<Start>) {
        let writes = starts
            .into_iter()
            .map(|start| Write::Start(Box::new(start)));
        let writes: Vec<_> = writes.collect();
        for batch in writes.chunks(BATCH) {
            self.batch(batch.to_vec()).await;
        }
    }

    fn claim_shared(&self, limit: u32) -> Claim {
        self.claim_of(TaskKind::Workflow, "q", limit)
    }
}

/// Of which keys `tasks` are, and how many of each.
fn keys(tasks: &[ClaimedTask]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for task in tasks {
        let id = task.task.workflow.as_str();
        let (key, _) = id.rsplit_once('-').expect("a key and a number");
        *counts.entry(key.to_owned()).or_default() += 1;
    }
    counts
}

pub(crate) async fn much_of_one_key_holds_up_no_other(stage: Stage) {
    stage.start_shared("hot", 1, 2000).await;
    let cold = (0..999).map(|tenant| stage.shared_run(&format!("cold{tenant:03}"), 1, 0));
    stage.start_all(cold.collect()).await;

    let mut served = BTreeSet::new();
    let mut hot = 0;
    for _ in 0..120 {
        let tasks = stage.claim(&stage.claim_shared(10)).await.tasks;
        assert_eq!(tasks.len(), 10, "a claim is as large as it may be");
        for (key, count) in keys(&tasks) {
            if key == "hot" {
                hot += count;
            } else {
                assert!(served.insert(key), "a task was claimed twice");
            }
        }
    }

    // All that is cold was served within little more than as many tasks as there are.
    assert_eq!((served.len(), hot), (999, 1200 - 999));
}

pub(crate) async fn a_weight_is_a_share_whoever_claims(stage: Stage) {
    stage.start_shared("one", 1, 100).await;
    stage.start_shared("three", 3, 200).await;

    let mut counts = BTreeMap::new();
    for limit in [4, 1, 1, 1, 1, 7, 1, 20, 3, 1, 40, 40] {
        // Each claim is one of another process: what was served is known to all of them.
        let store = stage.database.open();
        let claimed = store.claim(&stage.claim_shared(limit)).await;
        for (key, count) in keys(&claimed.expect("claimed").tasks) {
            *counts.entry(key).or_insert(0) += count;
        }
    }

    // The first claim knows of no weight yet.
    let (one, three) = (counts["one"], counts["three"]);
    assert_eq!(one + three, 120);
    assert!((29..=32).contains(&one), "{counts:?}");
}

pub(crate) async fn tasks_without_a_key_share_as_one(stage: Stage) {
    stage.start_shared("hot", 1, 300).await;
    let tasks = stage.claim(&stage.claim_shared(2)).await.tasks;
    assert_eq!(keys(&tasks), BTreeMap::from([("hot".to_owned(), 2)]));
    stage.start_shared("", 1, 5).await;

    let tasks = stage.claim(&stage.claim_shared(10)).await.tasks;

    assert_eq!(
        keys(&tasks),
        BTreeMap::from([("hot".to_owned(), 5), (String::new(), 5)])
    );
    // And alone they are claimed as ever.
    while !stage.claim(&stage.claim_shared(100)).await.tasks.is_empty() {}
    let last = Start {
        queue: queue("q"),
        ..stage.new_run("-last")
    };
    stage.apply(last).await;
    let tasks = stage.claim(&stage.claim_shared(10)).await.tasks;
    assert_eq!(keys(&tasks), BTreeMap::from([(String::new(), 1)]));
}

pub(crate) async fn a_priority_goes_before_all_shares(stage: Stage) {
    stage.start_shared("served", 1, 40).await;
    let tasks = stage.claim(&stage.claim_shared(20)).await.tasks;
    assert_eq!(tasks.len(), 20);
    stage.start_shared("new", 1, 10).await;
    let urgent = (0..3).map(|number| Start {
        priority: Priority::new(1).expect("a priority"),
        ..stage.shared_run("served", 1, 100 + number)
    });
    stage.start_all(urgent.collect()).await;

    let tasks = stage.claim(&stage.claim_shared(4)).await.tasks;

    let ids: Vec<_> = tasks.iter().map(|it| it.task.workflow.as_str()).collect();
    assert_eq!(ids[..3], ["served-00100", "served-00101", "served-00102"]);
    assert_eq!(ids[3], "new-00000");
}

pub(crate) async fn a_share_goes_with_a_run_to_all_its_tasks(stage: Stage) {
    stage.start_shared("busy", 1, 30).await;
    stage.start_shared("calm", 1, 1).await;
    let mut tasks = stage.claim(&stage.claim_shared(31)).await.tasks;
    tasks.sort_by(|a, b| a.task.workflow.cmp(&b.task.workflow));
    for task in &tasks {
        let scheduled = Turn {
            records: vec![record("ActivityScheduled", 2)],
            activities: vec![activity(1, "q")],
            ..turn(task)
        };
        assert!(matches!(stage.apply(scheduled).await, Outcome::Done { .. }));
    }

    let activities = stage.claim_of(TaskKind::Activity, "q", 31);
    let two = Claim {
        wanted: vec![stage.wanted_of(TaskKind::Activity, 2)],
        ..activities.clone()
    };
    let first = stage.claim(&two).await.tasks;
    let rest = stage.claim(&activities).await.tasks;

    assert_eq!(
        keys(&first),
        BTreeMap::from([("busy".to_owned(), 1), ("calm".to_owned(), 1)])
    );
    assert_eq!(rest.len(), 29);
    let done = rest
        .iter()
        .chain(&first)
        .map(|task| Write::Settle(settle(task)));
    stage.batch(done).await;
    let tasks = stage.claim(&stage.claim_shared(2)).await.tasks;
    assert_eq!(
        keys(&tasks),
        BTreeMap::from([("busy".to_owned(), 1), ("calm".to_owned(), 1)])
    );
}

pub(crate) async fn claims_of_shares_at_once_take_each_task_once(stage: Stage) {
    const TASKS: usize = 600;
    for key in ["a", "b", "c", ""] {
        stage.start_shared(key, 2, TASKS / 4).await;
    }
    let stores: Vec<_> = (0..4).map(|_| stage.database.open()).collect();
    let left = AtomicUsize::new(TASKS);
    let work = async |store: &dyn Store| {
        let mut met = Vec::new();
        while left.load(Ordering::SeqCst) > 0 {
            let claimed = store.claim(&stage.claim_shared(7)).await.expect("claimed");
            left.fetch_sub(claimed.tasks.len(), Ordering::SeqCst);
            met.extend(claimed.tasks.into_iter().map(|it| it.task.id));
        }
        met
    };

    let met = join_all(stores.iter().map(|store| work(&**store)).collect()).await;

    let all: BTreeSet<_> = met.iter().flatten().collect();
    assert_eq!(met.iter().map(Vec::len).sum::<usize>(), TASKS);
    assert_eq!(all.len(), TASKS, "none of them twice");
}

pub(crate) async fn a_queue_of_shares_says_when_to_come_again(stage: Stage) {
    let later = Start {
        due: Due::After(Duration::from_secs(40)),
        ..stage.shared_run("later", 1, 0)
    };
    stage.start_all(vec![later]).await;

    let claimed = stage.claim(&stage.claim_shared(5)).await;

    assert!(claimed.tasks.is_empty());
    let wait = claimed.next_due.expect("an instant").since(claimed.now);
    assert!(wait.as_secs() >= 30 && wait.as_secs() <= 40, "{wait:?}");
    // The same while something else of the queue is due.
    stage.start_shared("now", 1, 1).await;
    assert_eq!(stage.claim(&stage.claim_shared(5)).await.tasks.len(), 1);
    let again = stage.claim(&stage.claim_shared(5)).await;
    assert_eq!(again.next_due, claimed.next_due);
}
