//! How runs end, and what goes with them.

use coord_engine::model::{Closed, Failure, ParentClose, ParentLink, Timeouts};
use coord_engine::store::{Append, Outcome, Start, Target, Terminate, Then, Turn};

use crate::stage::{Stage, closing, completed, held, record, settle};
use crate::writes::is_done;

pub(crate) async fn a_closed_run_changes_no_more(stage: Stage) {
    let run = stage.start_with_activity("w", Timeouts::default()).await;
    let activity = stage.claim_activity("w").await;
    stage.apply(crate::stage::signal(&run)).await;
    let task = stage.claim_workflow("w").await;
    let close = Turn {
        history_length: 2,
        records: vec![record("Completed", 3)],
        then: Then::Close(Box::new(closing(completed()))),
        ..crate::stage::turn(&task)
    };
    assert!(is_done(&stage.apply(close.clone()).await));

    assert_eq!(stage.apply(close).await, Outcome::Lost);
    assert_eq!(
        stage.apply(crate::stage::signal(&run)).await,
        Outcome::Closed
    );
    assert_eq!(stage.apply(settle(&activity)).await, Outcome::Lost);
    let closed = stage.describe(&run).await;
    assert_eq!(closed.tasks, []);
    assert_eq!(closed.run.closed, Some(completed()));
    assert_eq!(closed.run.history_length, 3);
    assert_eq!(stage.load(&run).await.inbox, []);
}

/// A parent with a child of each policy, all open; the parent's task is claimed.
async fn family(stage: &Stage) -> (Start, Vec<Start>) {
    let parent = stage.new_run("parent");
    stage.apply(parent.clone()).await;
    let task = stage.claim_workflow("parent").await;
    let children: Vec<_> = [
        ParentClose::Terminate,
        ParentClose::RequestCancel,
        ParentClose::Abandon,
    ]
    .into_iter()
    .zip(7..)
    .map(|(on_close, step)| Start {
        parent: Some(ParentLink {
            run: parent.run.clone(),
            step,
            on_close,
        }),
        ..stage.new_run(on_close.as_str())
    })
    .collect();
    let turn = Turn {
        children: children.clone(),
        not_started: Some(record("ChildFailed", 0)),
        ..crate::stage::turn(&task)
    };
    assert!(is_done(&stage.apply(turn).await));
    (parent, children)
}

pub(crate) async fn a_close_reaches_parent_and_children(stage: Stage) {
    let (parent, children) = family(&stage).await;
    let child = stage.claim_workflow("abandon").await;
    let close = Turn {
        records: vec![record("Completed", 2)],
        then: Then::Close(Box::new(closing(completed()))),
        ..crate::stage::turn(&child)
    };
    assert!(is_done(&stage.apply(close).await));
    let told = stage.load(&parent.run).await.inbox;
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].kind.as_str(), told[0].step),
        ("ChildCompleted", Some(9))
    );

    let parent = stage.claim_workflow("parent").await;
    let close = Turn {
        records: vec![record("Completed", 2)],
        then: Then::Close(Box::new(closing(completed()))),
        ..crate::stage::turn(&parent)
    };
    assert!(is_done(&stage.apply(close).await));

    for (child, told) in children
        .iter()
        .zip([Some("Terminated"), Some("CancelRequested"), None])
    {
        let inbox = stage.load(&child.run).await.inbox;
        assert_eq!(inbox.first().map(|it| it.kind.as_str()), told);
    }
}

pub(crate) async fn a_child_whose_id_is_taken_is_answered_to_its_parent(stage: Stage) {
    stage.start("terminate").await;

    let (parent, _) = family(&stage).await;

    let inbox = stage.load(&parent.run).await.inbox;
    assert_eq!(inbox.len(), 1);
    assert_eq!(
        (inbox[0].kind.as_str(), inbox[0].step),
        ("ChildFailed", Some(7))
    );
    stage.claim_workflow("parent").await;
}

pub(crate) async fn a_terminated_run_ends_after_what_was_appended(stage: Stage) {
    let run = stage.start("w").await;
    let task = stage.claim_workflow("w").await;
    let append = Append {
        held: held(&task),
        run: run.clone(),
        records: vec![record("Step", 2)],
    };
    assert!(is_done(&stage.apply(append.clone()).await));
    let terminate = Terminate {
        target: Target::Run(run.clone()),
        record: record("Terminated", 0),
        closing: closing(Closed::Terminated(Failure::new("enough"))),
        request: None,
    };

    assert!(is_done(&stage.apply(terminate).await));

    assert_eq!(stage.apply(append).await, Outcome::Lost);
    let loaded = stage.load(&run).await;
    let last = loaded.events.last().expect("an end");
    assert_eq!((last.seq, last.kind.as_str()), (3, "Terminated"));
    assert_eq!(loaded.run.history_length, 3);
    let closed = Closed::Terminated(Failure::new("enough"));
    assert_eq!(loaded.run.closed, Some(closed));
}
