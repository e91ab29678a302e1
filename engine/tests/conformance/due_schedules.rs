//! Which schedules are due, and lists of them.

use std::time::Duration;

use coord_engine::model::Timestamp;
use coord_engine::store::{DueSchedules, ScheduleListing};

use crate::schedules::{key, new, write};
use crate::stage::{Stage, namespace};

pub(crate) async fn a_schedule_is_due_at_its_instant(stage: Stage) {
    let mut record = new("s");
    record.look_at = stage.now().await.plus(Duration::from_millis(300));
    let look_at = record.look_at;
    stage.schedule(write(record)).await;
    stage.schedule(write(new("never"))).await;
    let due = DueSchedules {
        limit: 10,
        after: None,
    };
    let early = stage.store.due_schedules(&due).await.expect("an answer");
    // A machine that is busy may have come too late for this.
    if early.now < look_at {
        assert!(early.schedules.is_empty());
        assert_eq!(early.next_due, Some(look_at));
    }

    stage.pass(look_at).await;

    assert_eq!(stage.due().await, [key("s")]);
}

pub(crate) async fn due_schedules_go_on_where_their_page_ended(stage: Stage) {
    for (name, look_at) in [("a", 5), ("b", 0), ("c", 5), ("d", 0), ("e", 7)] {
        let mut record = new(name);
        record.look_at = Timestamp::from_micros(look_at);
        stage.schedule(write(record)).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let due = DueSchedules { limit: 2, after };
        let page = stage.store.due_schedules(&due).await.expect("an answer");
        assert!(page.schedules.len() <= 2);
        seen.extend(
            page.schedules
                .into_iter()
                .map(|(key, _)| key.id.to_string()),
        );
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["b", "d", "a", "c", "e"]);
}

pub(crate) async fn a_list_of_schedules_goes_on_where_its_page_ended(stage: Stage) {
    for name in ["b", "a", "d", "c"] {
        stage.schedule(write(new(name))).await;
    }
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let listing = ScheduleListing {
            namespace: namespace(),
            limit: 2,
            after,
        };
        let page = stage.store.list_schedules(&listing).await.expect("a page");
        seen.extend(page.schedules.into_iter().map(|it| it.id.to_string()));
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((seen.join(""), pages), ("abcd".to_owned(), 2));
}

pub(crate) async fn a_schedule_that_does_not_read_stops_no_other(stage: Stage) {
    for name in ["a", "b"] {
        let mut record = new(name);
        record.look_at = Timestamp::default();
        stage.schedule(write(record)).await;
    }
    let spoil = "UPDATE workflow_schedules SET definition = 'no' WHERE schedule_id = 'a'";
    if !stage.database.execute(spoil).await {
        return;
    }
    let due = DueSchedules {
        limit: 10,
        after: None,
    };

    let page = stage.store.due_schedules(&due).await.expect("an answer");

    let reads: Vec<_> = page
        .schedules
        .iter()
        .map(|(key, record)| (key.id.as_str(), record.is_ok()))
        .collect();
    assert_eq!(reads, [("a", false), ("b", true)]);
}
