//! Builds: who goes on with which runs.

use std::time::Duration;

use coord_engine::compatibility::Supported;
use coord_engine::model::{BuildId, Fingerprint, RunId, TaskKind, Timeouts, TypeName};
use coord_engine::store::{
    BuildChange, BuildStep, Claim, Claimed, Ending, Enlistment, Heartbeat, OpenRuns, Quota,
    QuotaOf, Start, Types, WorkerFilter,
};

use crate::fleet::register;
use crate::stage::{LONG, Stage, TYPE, namespace, owner, queue, settle, signal};
use crate::writes::is_done;

fn build(name: &str) -> BuildId {
    BuildId::new(name).expect("a build")
}

impl Stage {
    async fn start_marked(&self, workflow: &str, mark: Option<&str>) -> RunId {
        let start = Start {
            build: mark.map(build),
            ..self.new_run(workflow)
        };
        let run = start.run.clone();
        self.apply(start).await;
        run
    }

    async fn claim_for(&self, kind: TaskKind, of: &str, builds: Option<&[&str]>) -> Claimed {
        let claim = Claim {
            builds: builds.map(|builds| builds.iter().map(|name| build(name)).collect()),
            ..self.claim_of(kind, of, 1)
        };
        self.claim(&claim).await
    }
}

pub(crate) async fn a_claim_leaves_what_its_builds_cannot_go_on_with(stage: Stage) {
    let run = stage.start_marked("w", Some("one")).await;

    for builds in [&[][..], &["two"], &["on", "ONE"]] {
        let claimed = stage.claim_for(TaskKind::Workflow, "w", Some(builds)).await;
        assert!(claimed.tasks.is_empty(), "{builds:?}");
    }

    let described = stage.describe(&run).await;
    let left = &described.tasks[0];
    assert_eq!((left.status.as_str(), left.attempt), ("ready", 0));
    let claimed = stage
        .claim_for(TaskKind::Workflow, "w", Some(&["two", "one"]))
        .await;
    let task = &claimed.tasks[0].task;
    assert_eq!((task.attempt, task.build.clone()), (1, Some(build("one"))));
    // Whoever supports all takes any, and anybody takes what has no mark.
    stage.start_marked("all", Some("one")).await;
    stage.start_marked("none", None).await;
    let all = stage.claim_for(TaskKind::Workflow, "all", None).await;
    let none = stage.claim_for(TaskKind::Workflow, "none", Some(&[])).await;
    assert_eq!((all.tasks.len(), none.tasks.len()), (1, 1));
}

pub(crate) async fn a_mark_goes_with_a_run_to_its_tasks(stage: Stage) {
    let run = stage.start_marked("w", Some("one")).await;
    let first = stage
        .claim_for(TaskKind::Workflow, "w", Some(&["one"]))
        .await;
    stage
        .schedule_activity(&first.tasks[0], "w", Timeouts::default())
        .await;

    let other = stage
        .claim_for(TaskKind::Activity, "w", Some(&["two"]))
        .await;
    assert!(other.tasks.is_empty(), "an activity is of its run");
    let activity = stage
        .claim_for(TaskKind::Activity, "w", Some(&["one"]))
        .await;
    assert_eq!(activity.tasks[0].task.build, Some(build("one")));
    assert!(is_done(&stage.apply(settle(&activity.tasks[0])).await));
    // So is the turn that its result makes necessary, and one for a message.
    stage.apply(signal(&run)).await;
    let other = stage
        .claim_for(TaskKind::Workflow, "w", Some(&["two"]))
        .await;
    assert!(other.tasks.is_empty(), "a turn is of its run");
    let turn = stage
        .claim_for(TaskKind::Workflow, "w", Some(&["one"]))
        .await;
    assert_eq!(turn.tasks[0].task.build, Some(build("one")));
}

fn name_of(name: &str) -> TypeName {
    TypeName::new(name).expect("a name")
}

fn worker(name: &str, of: &str, supported: Supported) -> Enlistment {
    Enlistment {
        worker: name.to_owned(),
        owner: owner("process"),
        namespace: namespace(),
        queue: queue(of),
        current: Some(build("two")),
        supported,
        types: Some(Types {
            workflows: [name_of("work"), name_of("übung")].into(),
            activities: [name_of("charge")].into(),
            definitions: [Fingerprint::of(&name_of("work"), "ü-1").expect("a fingerprint")].into(),
            is_pinned: true,
        }),
        host: Some("häuschen".to_owned()),
    }
}

pub(crate) async fn a_worker_is_seen_as_long_as_its_process_lives(stage: Stage) {
    register(&stage, "process", LONG, false).await;
    let some = Supported::Only(vec![build("one"), build("two")]);
    let enlisted = [
        worker("a", "q", some),
        worker("b", "q", Supported::All),
        Enlistment {
            types: None,
            ..worker("c", "other", Supported::Only(Vec::new()))
        },
    ];
    for worker in &enlisted {
        stage.store.enlist(worker).await.expect("enlisted");
    }
    // Said anew, it holds anew.
    let again = worker("b", "q", Supported::Only(vec![build("three")]));
    stage.store.enlist(&again).await.expect("enlisted");
    let seen = async |filter: &WorkerFilter| {
        let workers = stage.other.workers(filter).await.expect("an answer");
        assert!(workers.iter().all(|worker| worker.pid == 1));
        let said = workers.into_iter().map(|worker| worker.enlistment);
        said.collect::<Vec<_>>()
    };
    let [a, _, c] = &enlisted;
    let all = WorkerFilter::default();
    assert_eq!(seen(&all).await, [a.clone(), again.clone(), c.clone()]);
    let of_queue = WorkerFilter {
        namespace: Some(namespace()),
        queue: Some(queue("other")),
    };
    assert_eq!(seen(&of_queue).await, std::slice::from_ref(c));

    stage.store.dismiss("b").await.expect("dismissed");
    assert_eq!(seen(&all).await, [a.clone(), c.clone()]);

    let end = Heartbeat {
        id: owner("process"),
        ttl: LONG,
        draining: false,
        stopped: true,
        figures: None,
    };
    stage.store.heartbeat(&end).await.expect("an answer");
    assert_eq!(seen(&all).await, []);
}

pub(crate) async fn what_waits_is_counted_with_what_bounds_it(stage: Stage) {
    let before = stage.now().await;
    for (workflow, mark) in [
        ("a", Some("one")),
        ("b", Some("one")),
        ("c", Some("two")),
        ("d", None),
    ] {
        let start = Start {
            queue: queue("q"),
            build: mark.map(build),
            ..stage.new_run(workflow)
        };
        stage.apply(start).await;
    }
    let later = Start {
        due: coord_engine::model::Due::After(LONG),
        build: Some(build("three")),
        ..stage.new_run("later")
    };
    stage.apply(later).await;
    stage.start_with_activity("busy", Timeouts::default()).await;
    let bounded = Claim {
        quotas: vec![Quota {
            kind: TaskKind::Activity,
            of: QuotaOf::Queue,
            active: None,
            per_minute: Some(60),
        }],
        ..stage.claim_of(TaskKind::Activity, "busy", 1)
    };
    assert_eq!(stage.claim(&bounded).await.tasks.len(), 1);

    let found = stage.store.backlogs().await.expect("an answer");

    let counted: Vec<_> = found
        .backlogs
        .iter()
        .map(|it| {
            let mark = it.build.as_ref().map(BuildId::as_str);
            assert_eq!((it.kind, it.name.as_str()), (TaskKind::Workflow, TYPE));
            assert_eq!(it.runs, it.tasks);
            (it.queue.as_str(), mark, it.tasks)
        })
        .collect();
    // Databases do not agree on whether nothing comes first or last.
    let mut sorted = counted.clone();
    sorted.sort_unstable();
    let expected = [("q", None, 1), ("q", Some("one"), 2), ("q", Some("two"), 1)];
    assert_eq!(sorted, expected);
    let is_in_time = |at| at >= before && at <= found.now;
    assert!(found.backlogs.iter().all(|it| is_in_time(it.since)));
    let [under_way] = found.under_way.as_slice() else {
        panic!("one kind in one queue, not {:?}", found.under_way);
    };
    assert_eq!((under_way.queue.as_str(), under_way.tasks), ("busy", 1));
    assert_eq!(under_way.kind, TaskKind::Activity);
    let [paid] = found.paid.as_slice() else {
        panic!("one quota, not {:?}", found.paid);
    };
    assert_eq!(
        (paid.queue.as_str(), paid.kind),
        ("busy", TaskKind::Activity)
    );
    assert!(paid.until > before);
    let elsewhere = coord_engine::model::Namespace::new("elsewhere").expect("a name");
    let elsewhere = stage.store.within(&elsewhere).backlogs().await;
    let elsewhere = elsewhere.expect("an answer");
    assert!(elsewhere.backlogs.is_empty() && elsewhere.under_way.is_empty());
    assert!(elsewhere.paid.is_empty());
}

pub(crate) async fn one_build_is_promoted_and_not_to_end(stage: Stage) {
    let change = async |name: &str, step| {
        let change = BuildChange {
            namespace: namespace(),
            build: build(name),
            step,
        };
        let changed = stage.store.change_build(&change).await;
        changed.expect("an answer")
    };
    let promoted = async || {
        let promoted = stage.other.promoted(&namespace()).await;
        promoted.expect("an answer").map(|build| build.to_string())
    };
    let endings = async || {
        let builds = stage.other.builds(&namespace()).await.expect("an answer");
        let endings = builds.endings.into_iter();
        let endings = endings.map(|(build, ending, _)| (build.to_string(), ending));
        endings.collect::<Vec<_>>()
    };
    assert_eq!(promoted().await, None);
    assert!(change("one", BuildStep::Promote).await);
    assert_eq!(promoted().await.as_deref(), Some("one"));
    for step in [BuildStep::Drain, BuildStep::RollBack] {
        assert!(!change("one", step).await, "nothing would follow it");
    }
    // Twice is once.
    for _ in 0..2 {
        assert!(change("two", BuildStep::Promote).await);
    }
    assert!(change("one", BuildStep::Drain).await);
    assert_eq!(endings().await, [("one".to_owned(), Ending::Draining)]);
    assert!(!change("two", BuildStep::Drain).await);

    assert!(change("two", BuildStep::RollBack).await);

    assert_eq!(promoted().await.as_deref(), Some("one"));
    assert!(
        !change("one", BuildStep::RollBack).await,
        "it replaced none"
    );
    // What is promoted again is not to end any more.
    assert!(change("one", BuildStep::Promote).await);
    assert_eq!(endings().await, [("two".to_owned(), Ending::RolledBack)]);
    stage.start_marked("w", Some("one")).await;
    let builds = stage.store.builds(&namespace()).await.expect("an answer");
    let OpenRuns { build, runs, since } = &builds.open[0];
    assert_eq!((build.as_str(), *runs, builds.open.len()), ("one", 1, 1));
    assert!(stage.now().await.since(*since) < LONG + Duration::from_secs(1));
}
