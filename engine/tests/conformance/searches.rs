//! Finding runs.

use coord_engine::model::{Attribute, Attributes, Closed, Marks, RunStatus, Timestamp, WorkflowId};
use coord_engine::store::{Condition, Filter, Listing, Outcome, Period, Start, Test, Then, Turn};

use crate::stage::{Stage, closing, completed, namespace, record, turn};
use crate::writes::is_done;

fn marks(attributes: Attributes, memo: &str) -> Marks {
    let memo = serde_json::json!({ "about": memo });
    Marks {
        attributes: Some(attributes),
        memo: memo.as_object().cloned(),
    }
}

/// An order of a customer, with something of each kind.
fn order(customer: &str, cents: i64) -> Attributes {
    let build = || {
        Attributes::new()
            .with("customer", customer)?
            .with("cents", cents)?
            .with("weight", cents as f64 / 8.0)?
            .with("paid", cents > 10)?
            .with("due", Timestamp::from_micros(cents))?
            .with("tags", vec!["all".to_owned(), format!("{customer}'s ä ")])
    };
    build().expect("attributes")
}

/// Which of the runs `w…` are found, by the numbers in their ids.
async fn found(stage: &Stage, filter: &Filter) -> Vec<u64> {
    let listing = Listing {
        filter: filter.clone(),
        limit: 100,
        after: None,
    };
    let page = stage.store.list(&listing).await.expect("a page");
    let count = stage.store.count(filter).await.expect("a count");
    assert_eq!(count, page.runs.len() as u64);
    let number = |id: &str| {
        id.trim_start_matches(|it: char| !it.is_ascii_digit())
            .parse()
    };
    let mut numbers: Vec<_> = page
        .runs
        .iter()
        .map(|run| number(run.workflow.as_str()).expect("a number"))
        .collect();
    numbers.sort_unstable();
    numbers
}

fn with(name: &str, test: Test) -> Filter {
    Filter {
        attributes: vec![Condition {
            name: name.to_owned(),
            test,
        }],
        ..Filter::all(namespace())
    }
}

fn within(from: Option<Attribute>, until: Option<Attribute>) -> Test {
    Test::Within { from, until }
}

async fn start_orders(stage: &Stage) {
    for (number, customer) in [(0, "ann"), (1, "bob"), (2, "ann"), (3, "cid")] {
        let start = Start {
            marks: marks(order(customer, number * 10), customer),
            ..stage.new_run(&format!("order-{number}"))
        };
        let started = stage.apply(start).await;
        assert!(matches!(started, Outcome::Started { created: true, .. }));
    }
    // One without attributes, and one of another tenant.
    stage.start("other-4").await;
    let elsewhere = Start {
        namespace: coord_engine::model::Namespace::new("elsewhere").expect("a name"),
        marks: marks(order("ann", 0), ""),
        ..stage.new_run("order-9")
    };
    stage.apply(elsewhere).await;
}

pub(crate) async fn runs_are_found_by_each_kind_of_attribute(stage: Stage) {
    start_orders(&stage).await;
    let float = |number: f64| Some(Attribute::Float(number));
    let list =
        |texts: &[&str]| Attribute::Keywords(texts.iter().map(|text| (*text).to_owned()).collect());

    for (name, test, expected) in [
        ("customer", Test::Is("ann".into()), vec![0, 2]),
        ("customer", Test::Is("an".into()), vec![]),
        ("customer", within(Some("b".into()), None), vec![1, 3]),
        (
            "customer",
            within(Some("ann".into()), Some("cid".into())),
            vec![0, 1, 2],
        ),
        ("cents", Test::Is(20.into()), vec![2]),
        (
            "cents",
            within(Some(10.into()), Some(30.into())),
            vec![1, 2],
        ),
        ("cents", within(None, Some(10.into())), vec![0]),
        ("weight", Test::Is(1.25.into()), vec![1]),
        ("weight", within(float(1.25), float(3.75)), vec![1, 2]),
        ("paid", Test::Is(true.into()), vec![2, 3]),
        (
            "due",
            within(Some(Timestamp::from_micros(20).into()), None),
            vec![2, 3],
        ),
        ("tags", Test::Is("all".into()), vec![0, 1, 2, 3]),
        ("tags", Test::Is(list(&["all", "ann's ä "])), vec![0, 2]),
        ("tags", Test::Is("ann's ä".into()), vec![]),
        // Of another kind, or of another name.
        ("cents", Test::Is(Timestamp::from_micros(20).into()), vec![]),
        ("paid", Test::Is(1.into()), vec![]),
        ("cents", Test::Is("20".into()), vec![]),
        ("nothing", within(None, None), vec![]),
        ("cents", within(None, None), vec![0, 1, 2, 3]),
    ] {
        let filter = with(name, test.clone());
        assert_eq!(found(&stage, &filter).await, expected, "{name} {test:?}");
    }
}

pub(crate) async fn conditions_of_a_search_hold_together(stage: Stage) {
    start_orders(&stage).await;
    let all = Filter::all(namespace());
    assert_eq!(found(&stage, &all).await, [0, 1, 2, 3, 4]);
    let mut filter = with("customer", Test::Is("ann".into()));
    filter.attributes.push(Condition {
        name: "cents".to_owned(),
        test: within(Some(1.into()), None),
    });
    assert_eq!(found(&stage, &filter).await, [2]);
    let prefix = |text: &str| Filter {
        id_prefix: Some(text.to_owned()),
        ..filter.clone()
    };
    assert_eq!(found(&stage, &prefix("order-")).await, [2]);
    assert_eq!(found(&stage, &prefix("order-1")).await, Vec::<u64>::new());
    // The signs of a pattern are letters like others.
    assert_eq!(found(&stage, &prefix("order_")).await, Vec::<u64>::new());
    assert_eq!(found(&stage, &prefix("%")).await, Vec::<u64>::new());
    let of = |text: &str| Filter {
        workflow: Some(WorkflowId::new(text).expect("an id")),
        ..Filter::all(namespace())
    };
    assert_eq!(found(&stage, &of("order-2")).await, [2]);
    assert_eq!(found(&stage, &of("order-")).await, Vec::<u64>::new());

    let task = stage.claim_workflow("order-2").await;
    let close = Turn {
        then: Then::Close(Box::new(closing(completed()))),
        ..turn(&task)
    };
    assert!(is_done(&stage.apply(close).await));

    let run = stage.describe(&task.task.run).await.run;
    let open = [RunStatus::Pending, RunStatus::Running, RunStatus::Waiting];
    let of = |statuses: &[RunStatus], started: Period, closed: Period| Filter {
        statuses: statuses.to_vec(),
        started,
        closed,
        ..Filter::all(namespace())
    };
    let period = |from, until| Period { from, until };
    let (any, closed) = (Period::ANY, run.closed_at);
    let next = closed.map(|it| Timestamp::from_micros(it.as_micros() + 1));
    for (filter, expected) in [
        (of(&open, any, any), vec![0, 1, 3, 4]),
        (of(&[RunStatus::Completed], any, any), vec![2]),
        (of(&[], any, period(closed, next)), vec![2]),
        (of(&[], any, period(next, None)), vec![]),
        (of(&[], any, period(None, closed)), vec![]),
        (
            of(&[], period(Some(run.started_at), next), any),
            vec![2, 3, 4],
        ),
        (of(&open, any, period(None, next)), vec![]),
    ] {
        let mut seen = found(&stage, &filter).await;
        if filter.started != any {
            // Those that were started within the same tick of its clock may be among them.
            seen.retain(|number| *number >= 2);
        }
        assert_eq!(seen, expected, "{filter:?}");
    }
}

pub(crate) async fn a_turn_changes_what_its_run_is_found_by(stage: Stage) {
    let start = Start {
        marks: marks(order("ann", 1), "first"),
        ..stage.new_run("w1")
    };
    let run = start.run.clone();
    stage.apply(start).await;
    let described = stage.describe(&run).await;
    assert_eq!(described.attributes, order("ann", 1));
    assert_eq!(described.memo["about"], "first");
    let task = stage.claim_workflow("w1").await;
    let attributes = Attributes::new().with("customer", "bob").expect("one");

    let changed = Turn {
        records: vec![record("SearchAttributes", 2)],
        marks: Marks {
            attributes: Some(attributes.clone()),
            memo: None,
        },
        then: Then::Keep,
        ..turn(&task)
    };
    assert!(is_done(&stage.apply(changed).await));

    let described = stage.describe(&run).await;
    assert_eq!(described.attributes, attributes);
    assert_eq!(described.memo["about"], "first", "it stays");
    assert_eq!(
        found(&stage, &with("customer", Test::Is("ann".into()))).await,
        Vec::<u64>::new()
    );
    assert_eq!(
        found(&stage, &with("customer", Test::Is("bob".into()))).await,
        [1]
    );

    // The next run of the instance has its own, and the closed one keeps what it had.
    let next = Start {
        number: 2,
        marks: marks(order("cid", 2), "second"),
        ..stage.new_run("w1")
    };
    let mut end = closing(Closed::ContinuedAsNew(next.run.clone()));
    let next_run = next.run.clone();
    (end.next, end.to_parent) = (Some(next), None);
    let close = Turn {
        history_length: 2,
        then: Then::Close(Box::new(end)),
        ..turn(&task)
    };
    assert!(is_done(&stage.apply(close).await));
    assert_eq!(stage.describe(&run).await.attributes, attributes);
    assert_eq!(stage.describe(&next_run).await.attributes, order("cid", 2));
    assert_eq!(stage.describe(&next_run).await.memo["about"], "second");
}

pub(crate) async fn a_lost_turn_changes_no_attributes(stage: Stage) {
    let run = stage.start("w1").await;
    let late = stage.claim_and_expire("w1").await;

    let lost = Turn {
        marks: marks(order("ann", 1), "late"),
        ..turn(&late)
    };
    assert_eq!(stage.apply(lost).await, Outcome::Lost);

    let described = stage.describe(&run).await;
    assert!(described.attributes.is_empty() && described.memo.is_empty());
    assert_eq!(
        found(&stage, &with("customer", Test::Is("ann".into()))).await,
        Vec::<u64>::new()
    );
}
