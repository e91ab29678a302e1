//! Tenants that share a database.

use std::time::Duration;

use coord_engine::model::{Namespace, ScheduleRecord, Timeouts, Timestamp};
use coord_engine::store::{
    DueSchedules, NamespaceChange, NamespaceListing, NamespaceRecord, NewNamespace, Role, Store,
    Sweep, Swept, Write,
};

use crate::fleet::registration;
use crate::schedules;
use crate::stage::{LONG, Stage, namespace, owner};

const SHORT: Duration = Duration::from_millis(30);
const SWEEP: Sweep = Sweep {
    limit: 100,
    poison_after: 2,
};
const DUE: DueSchedules = DueSchedules {
    limit: 100,
    after: None,
};

fn named(name: &str) -> Namespace {
    Namespace::new(name).expect("a name")
}

/// What a call for all would find, in a word each.
async fn found(store: &dyn Store) -> Vec<String> {
    let me = owner("leader");
    let term = store.elect(Role::Recovery, &me, LONG).await;
    let term = term.expect("an answer").expect("its own role");
    let buried = store.bury(&term).await.expect("an answer");
    let swept = store.sweep(&SWEEP).await.expect("an answer");
    let overdue = store.overdue(100).await.expect("an answer");
    let due = store.due_schedules(&DUE).await.expect("an answer");
    let tenants = store.tenants().await.expect("an answer");
    let mut found: Vec<_> = buried
        .iter()
        .map(|dead| format!("dead {}", dead.id))
        .collect();
    found.extend((swept != Swept::default()).then(|| format!("left {}", swept.ready)));
    found.extend(
        overdue
            .iter()
            .map(|late| format!("late {}", late.task.workflow)),
    );
    found.extend(
        due.schedules
            .iter()
            .map(|(key, _)| format!("due {}", key.id)),
    );
    found.extend(due.next_due.map(|_| "due later".to_owned()));
    found.extend(
        tenants
            .iter()
            .map(|tenant| format!("tenant {}", tenant.namespace)),
    );
    found
}

pub(crate) async fn a_node_touches_nothing_of_another_namespace(stage: Stage) {
    // Of the tests' own namespace: a process that is overdue, a lease that has ended, an activity
    // that takes too long, a schedule that is due and one that will be.
    let own = stage.store.within(&namespace());
    let dead = own.register(&registration("gone", SHORT, false)).await;
    let dead = dead.expect("registered");
    stage.start("left").await;
    stage.claim_and_expire("left").await;
    let timeouts = Timeouts {
        start_to_close: Some(SHORT),
        ..Timeouts::default()
    };
    stage.start_with_activity("late", timeouts).await;
    let late = stage.claim_activity("late").await;
    for (name, look_at) in [
        ("now", Timestamp::from_micros(1)),
        ("later", stage.now().await.plus(LONG)),
    ] {
        let record = ScheduleRecord {
            look_at,
            ..schedules::new(name)
        };
        let write = Write::Schedule(Box::new(schedules::write(record)));
        stage.apply(write).await;
    }
    stage.pass(dead.expires_at.max(late.task.deadline_at)).await;

    let other = stage.store.within(&named("other"));
    assert_eq!(found(&*other).await, Vec::<String>::new());

    // Each has a leader of its own, at the same time.
    let expected = [
        "dead gone",
        "left 1",
        "late late",
        "due now",
        "due later",
        "tenant tests",
    ];
    assert_eq!(found(&*own).await, expected);
    // Whoever looks after all finds what is left of it.
    let expected = ["late late", "due now", "due later", "tenant tests"];
    assert_eq!(found(&*stage.store).await, expected);
}

pub(crate) async fn a_namespace_is_registered_once(stage: Stage) {
    let new = |name: &str, description: Option<&str>, retention| NewNamespace {
        namespace: named(name),
        description: description.map(str::to_owned),
        retention,
    };
    let first = new("shop", Some("orders – ä"), LONG);
    let before = stage.now().await;

    let created = stage.store.create_namespace(&first).await;
    let again = new("shop", None, Duration::ZERO);
    let repeated = stage.other.create_namespace(&again).await;

    assert!(created.expect("an answer"));
    assert!(!repeated.expect("an answer"));
    let described = async |name: &str| {
        let described = stage.store.describe_namespace(&named(name)).await;
        described.expect("an answer")
    };
    let shop = described("shop").await.expect("registered");
    assert_eq!(shop.description, first.description);
    assert_eq!(shop.retention, LONG);
    assert!(shop.created_at.is_some_and(|at| at >= before), "{shop:?}");
    assert_eq!(described("nobody").await, None);
    // A retention registers as well, and changes what was registered.
    for name in ["shop", "attic"] {
        let kept = stage.store.keep(&named(name), Duration::from_secs(7)).await;
        kept.expect("kept");
    }
    let list = async |after| {
        let listing = NamespaceListing { limit: 1, after };
        stage.store.list_namespaces(&listing).await.expect("listed")
    };
    let first = list(None).await;
    let second = list(first.next.clone()).await;
    let names = |records: &[NamespaceRecord]| {
        let names = records.iter().map(|record| record.namespace.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&first.namespaces), ["attic"]);
    assert_eq!(names(&second.namespaces), ["shop"]);
    assert_eq!(second.namespaces[0].retention, Duration::from_secs(7));
    assert_eq!(second.namespaces[0].description, shop.description);
    assert_eq!(second.next, None);
}

pub(crate) async fn what_a_namespace_was_registered_with_changes_as_far_as_it_is_said(
    stage: Stage,
) {
    let change = |name: &str, description: Option<&str>, retention| NamespaceChange {
        namespace: named(name),
        description: description.map(str::to_owned),
        retention,
    };
    let week = Duration::from_hours(7 * 24);
    let new = NewNamespace {
        namespace: named("shop"),
        description: Some("orders".to_owned()),
        retention: LONG,
    };
    stage.store.create_namespace(&new).await.expect("created");
    stage.store.keep(&named("attic"), LONG).await.expect("kept");
    let changed = async |change: &NamespaceChange| {
        let is_there = stage.store.change_namespace(change).await;
        let is_there = is_there.expect("an answer");
        let record = stage.store.describe_namespace(&change.namespace).await;
        let record = record.expect("an answer");
        record.map(|it| (is_there, it.description, it.retention))
    };

    let nothing = changed(&change("shop", None, None)).await;
    let retention = changed(&change("shop", None, Some(week))).await;
    let described = changed(&change("shop", Some("mail orders"), None)).await;
    // What is as it was is there nevertheless.
    let again = changed(&change("shop", Some("mail orders"), Some(week))).await;
    let attic = changed(&change("attic", Some("old"), None)).await;
    let nobody = changed(&change("nobody", Some("x"), Some(week))).await;

    let text = |text: &str| Some(text.to_owned());
    assert_eq!(nothing, Some((true, text("orders"), LONG)));
    assert_eq!(retention, Some((true, text("orders"), week)));
    assert_eq!(described, Some((true, text("mail orders"), week)));
    assert_eq!(again, described);
    assert_eq!(attic, Some((true, text("old"), LONG)));
    assert_eq!(nobody, None, "it is registered by nobody");
}
