//! What is read.

use std::time::Duration;

use coord_engine::model::{RunStatus, Timeouts};
use coord_engine::store::{Append, Filter, Listing, Load};

use crate::stage::{Stage, held, namespace, record, settle};

pub(crate) async fn an_event_is_read_as_it_was_written(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let mut bare = record("Bare", 3);
    (bare.details, bare.payload, bare.step) = (None, None, Some(7));
    let append = Append {
        held: held(&task),
        run: run.clone(),
        records: vec![record("Full", 2), bare.clone()],
    };
    stage.apply(append).await;

    assert_eq!(
        stage.load(&run).await.events[1..],
        [record("Full", 2), bare]
    );
    let load = |after, limit| Load {
        run: run.clone(),
        after,
        limit,
    };
    let page = stage.store.load(&[load(1, 1)]).await.expect("loaded");
    let page = page.runs[0].as_ref().expect("a run");
    assert_eq!(page.events, [record("Full", 2)]);
    let nobody = Load {
        run: stage.ids.run(),
        ..load(0, 1)
    };
    let loaded = stage.store.load(&[nobody]).await.expect("loaded");
    assert_eq!(loaded.runs, [None]);
}

pub(crate) async fn a_list_goes_on_where_its_page_ended(stage: Stage) {
    let mut started = Vec::new();
    for number in 0..5 {
        started.push(stage.start(&format!("w{number}")).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut listing = Listing {
        filter: Filter {
            statuses: vec![RunStatus::Pending],
            ..Filter::all(namespace())
        },
        limit: 2,
        after: None,
    };
    let mut read = Vec::new();
    loop {
        let page = stage.store.list(&listing).await.expect("a page");
        read.extend(page.runs.into_iter().map(|run| run.run));
        listing.after = page.next;
        if listing.after.is_none() {
            break;
        }
    }

    started.reverse();
    assert_eq!(read, started);
    listing.filter.statuses = vec![RunStatus::Completed];
    assert!(
        stage
            .store
            .list(&listing)
            .await
            .expect("a page")
            .runs
            .is_empty()
    );
}

pub(crate) async fn a_description_says_why_a_run_stands(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let claimed = stage.claim_activity("w").await;

    let described = stage.describe(&run).await;

    assert_eq!(described.run.status, RunStatus::Waiting);
    assert_eq!(described.tasks.len(), 1);
    assert_eq!(described.tasks[0].task, claimed.task.id);
    assert_eq!(described.tasks[0].status, "leased");
    assert_eq!(described.tasks[0].owner.as_deref(), Some("a"));
    assert!(described.now >= described.run.started_at);
}

pub(crate) async fn a_later_schema_disturbs_nobody(stage: Stage) {
    let use_it = async |workflow: &str| {
        let run = stage
            .start_with_activity(workflow, Timeouts::default())
            .await;
        let claimed = stage.claim_activity(workflow).await;
        stage.apply(settle(&claimed)).await;
        assert_eq!(stage.load(&run).await.inbox.len(), 1);
        assert_eq!(stage.describe(&run).await.tasks.len(), 1);
    };
    // Every connection has prepared its statements.
    use_it("before").await;

    for change in [
        "ALTER TABLE workflow_runs ADD COLUMN later TEXT",
        "ALTER TABLE workflow_tasks ADD COLUMN later TEXT",
        "ALTER TABLE workflow_history ADD COLUMN later TEXT",
        "INSERT INTO engine_migrations (version, applied_at) VALUES (1000, 1)",
    ] {
        if !stage.database.execute(change).await {
            return;
        }
    }

    use_it("after").await;
    stage.store.migrate().await.expect("nothing to do");
    use_it("after a restart").await;
}
