//! Processes and roles.

use std::time::Duration;

use coord_engine::model::OwnerId;
use coord_engine::store::{Heartbeat, Incarnation, Registration, Role};

use crate::stage::{LONG, Stage, owner};

const SHORT: Duration = Duration::from_millis(30);

pub(crate) fn registration(id: &str, ttl: Duration, alone: bool) -> Registration {
    let incarnation = Incarnation {
        id: owner(id),
        node: "node".to_owned(),
        build: None,
        pid: 1,
    };
    Registration {
        incarnation,
        ttl,
        alone,
        exclusive: false,
    }
}

pub(crate) async fn register(stage: &Stage, id: &str, ttl: Duration, alone: bool) {
    let registered = stage.store.register(&registration(id, ttl, alone)).await;
    registered.expect("registered");
}

fn of_node(id: &str, node: &str) -> Registration {
    let mut registration = registration(id, LONG, false);
    node.clone_into(&mut registration.incarnation.node);
    registration
}

fn beat(id: &str) -> Heartbeat {
    Heartbeat {
        id: owner(id),
        ttl: LONG,
        draining: false,
        stopped: false,
        figures: None,
    }
}

pub(crate) async fn a_role_has_one_holder_at_a_time(stage: Stage) {
    let candidates: Vec<OwnerId> = (0..6).map(|number| owner(&format!("o{number}"))).collect();
    let elect = async |place: usize| {
        let store = if place.is_multiple_of(2) {
            &stage.store
        } else {
            &stage.other
        };
        let term = store.elect(Role::Recovery, &candidates[place], LONG).await;
        term.expect("an answer")
    };

    let terms = crate::writes::join_all((0..6).map(elect).collect()).await;

    let terms: Vec<_> = terms.into_iter().flatten().collect();
    assert_eq!(terms.len(), 1, "{terms:?}");
    let again = stage
        .store
        .elect(Role::Recovery, &terms[0].holder, LONG)
        .await;
    let again = again.expect("an answer").expect("renewed");
    assert_eq!(
        (again.number, again.acquired_at),
        (terms[0].number, terms[0].acquired_at)
    );
    // Another role is free.
    let other = stage
        .store
        .elect(Role::Scheduler, &owner("other"), LONG)
        .await;
    assert!(other.expect("an answer").is_some());
}

pub(crate) async fn a_term_number_grows_after_every_gap(stage: Stage) {
    let elect = async |ttl| {
        let term = stage.store.elect(Role::Recovery, &owner("a"), ttl).await;
        term.expect("an answer").expect("elected")
    };
    let first = elect(SHORT).await;
    stage.pass(first.expires_at).await;
    let second = elect(LONG).await;
    assert!(second.number > first.number);
    assert!(second.acquired_at > first.acquired_at);

    stage
        .store
        .resign(&first)
        .await
        .expect("nothing to give up");
    let refused = stage.store.elect(Role::Recovery, &owner("b"), LONG).await;
    assert_eq!(refused.expect("an answer"), None);
    stage.store.resign(&second).await.expect("given up");

    let third = stage.store.elect(Role::Recovery, &owner("b"), LONG).await;
    assert!(third.expect("an answer").expect("free").number > second.number);
}

pub(crate) async fn the_dead_are_buried_only_under_a_term(stage: Stage) {
    register(&stage, "alive", LONG, false).await;
    let dead = registration("dead", SHORT, false);
    let dead = stage.store.register(&dead).await.expect("registered");
    let past = stage
        .store
        .elect(Role::Recovery, &owner("past"), SHORT)
        .await;
    let past = past.expect("an answer").expect("elected");
    stage.pass(dead.expires_at.max(past.expires_at)).await;
    assert_eq!(stage.store.bury(&past).await.expect("an answer"), []);

    let term = stage.store.elect(Role::Recovery, &owner("now"), LONG).await;
    let term = term.expect("an answer").expect("elected");

    let buried = stage.store.bury(&term).await.expect("an answer");
    assert_eq!(buried.len(), 1);
    assert_eq!(buried[0].id, owner("dead"));
    assert!(buried[0].silent_for >= SHORT, "{buried:?}");
    assert_eq!(
        stage
            .store
            .heartbeat(&beat("dead"))
            .await
            .expect("an answer"),
        None
    );
    assert!(
        stage
            .store
            .heartbeat(&beat("alive"))
            .await
            .expect("an answer")
            .is_some()
    );
    assert_eq!(
        stage
            .store
            .heartbeat(&beat("nobody"))
            .await
            .expect("an answer"),
        None
    );
}

pub(crate) async fn what_the_dead_had_is_taken_back(stage: Stage) {
    register(&stage, "a", LONG, false).await;
    stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    assert_eq!(stage.sweep().await.ready, 0, "its owner lives");
    let draining = Heartbeat {
        draining: true,
        ..beat("a")
    };
    assert!(
        stage
            .store
            .heartbeat(&draining)
            .await
            .expect("an answer")
            .is_some()
    );
    assert_eq!(stage.sweep().await.ready, 0, "it still counts as alive");
    let stopped = Heartbeat {
        stopped: true,
        ..beat("a")
    };
    stage.store.heartbeat(&stopped).await.expect("an answer");

    assert_eq!(stage.sweep().await.ready, 1);

    assert!(stage.claim_workflow("w").await.task.epoch > task.task.epoch);
}

pub(crate) async fn an_incarnation_that_is_alone_buries_all_others(stage: Stage) {
    register(&stage, "before", LONG, false).await;
    register(&stage, "now", LONG, true).await;

    assert_eq!(
        stage
            .store
            .heartbeat(&beat("before"))
            .await
            .expect("an answer"),
        None
    );
    assert!(
        stage
            .store
            .heartbeat(&beat("now"))
            .await
            .expect("an answer")
            .is_some()
    );
}

pub(crate) async fn a_node_that_is_exclusive_has_the_process_that_came_last(stage: Stage) {
    let lives = async |id: &str| {
        let beat = stage.store.heartbeat(&beat(id)).await;
        beat.expect("an answer").is_some()
    };
    let exclusive = |id: &str| Registration {
        exclusive: true,
        ..of_node(id, "shop-1")
    };
    for (id, node) in [("a", "shop-1"), ("neighbour", "shop-2")] {
        let registered = stage.store.register(&of_node(id, node)).await;
        assert_eq!(registered.expect("registered").buried, 0);
    }
    stage.start("w").await;
    stage.claim_workflow("w").await;
    let led = stage.store.elect(Role::Recovery, &owner("a"), LONG).await;
    assert!(led.expect("an answer").is_some());

    let registered = stage.store.register(&exclusive("next")).await;

    assert_eq!(registered.expect("registered").buried, 1);
    assert_eq!(stage.sweep().await.ready, 1, "what it had is free");
    let next = owner("next");
    let role = stage.store.elect(Role::Recovery, &next, LONG);
    assert!(
        role.await.expect("an answer").is_some(),
        "and so is its role"
    );
    assert!(!lives("a").await);
    assert!(lives("next").await && lives("neighbour").await);

    // Of those who come at the same time one stays, whoever was faster.
    let many: Vec<_> = (0..6).map(|number| format!("o{number}")).collect();
    let come = async |id: &str| {
        let registered = stage.other.register(&exclusive(id)).await;
        registered.expect("registered").buried
    };
    let buried = crate::writes::join_all(many.iter().map(|id| come(id)).collect()).await;
    assert_eq!(buried.into_iter().sum::<u64>(), 6);
    let mut living = 0;
    for id in &many {
        living += u32::from(lives(id).await);
    }
    assert_eq!(living, 1);
}

pub(crate) async fn the_roles_are_shown_with_the_ends_of_their_terms(stage: Stage) {
    assert_eq!(stage.store.roles().await.expect("an answer").terms, []);
    let term = stage.store.elect(Role::Recovery, &owner("a"), LONG).await;
    let term = term.expect("an answer").expect("elected");

    let roles = stage.other.roles().await.expect("an answer");

    let shown = roles.term(Role::Recovery).expect("it was given");
    assert_eq!(
        (&shown.holder, shown.number, shown.expires_at),
        (&term.holder, term.number, term.expires_at)
    );
    let left = roles.left(Role::Recovery).expect("it was given");
    assert!(left > LONG / 2 && left <= LONG, "{left:?}");
    assert_eq!(roles.left(Role::Scheduler), None);
    assert!(!roles.has_schedules);
    stage.store.resign(&term).await.expect("resigned");
    let roles = stage.store.roles().await.expect("an answer");
    assert_eq!(roles.left(Role::Recovery), Some(Duration::ZERO));
}

pub(crate) async fn those_who_ended_are_forgotten_after_a_while(stage: Stage) {
    for id in ["a", "stopped", "alive"] {
        register(&stage, id, LONG, false).await;
    }
    stage.start("w").await;
    stage.claim_workflow("w").await;
    for id in ["a", "stopped"] {
        let stopped = Heartbeat {
            stopped: true,
            ..beat(id)
        };
        stage.store.heartbeat(&stopped).await.expect("an answer");
    }
    let forget = async |idle, limit| {
        let gone = stage.store.forget(idle, limit).await;
        gone.expect("an answer")
    };
    assert_eq!(forget(LONG, 9).await, 0, "not yet");
    let now = stage.now().await;
    stage.pass(now).await;

    assert_eq!(forget(Duration::ZERO, 9).await, 1, "a has a lease");
    assert_eq!(stage.sweep().await.ready, 1, "and is known to have ended");
    assert_eq!(forget(Duration::ZERO, 9).await, 1);

    assert_eq!(forget(Duration::ZERO, 9).await, 0);
    let alive = stage.store.heartbeat(&beat("alive")).await;
    assert!(alive.expect("an answer").is_some());
}
