//! The client half of the published Rust SDK, unmodified, against the node that the arguments name.

use std::time::Duration;

use durable_workflow::{
    Client, Error, Value, WorkflowCommandOptions, WorkflowHandle, WorkflowHistoryOptions,
    WorkflowListOptions, WorkflowResultOptions, json,
};

type Done = Result<(), Error>;

/// Far above what anything here takes.
const LONG: WorkflowResultOptions = WorkflowResultOptions {
    poll_interval: Duration::from_millis(20),
    timeout: Duration::from_secs(300),
};

async fn start(
    client: &Client,
    kind: &str,
    id: &str,
    input: Value,
) -> Result<WorkflowHandle, Error> {
    client.start_workflow(kind, "default", id, input).await
}

fn http_status<T: std::fmt::Debug>(refused: Result<T, Error>) -> u16 {
    match refused {
        Err(Error::Http { status, .. }) => status.as_u16(),
        other => panic!("a refusal was expected: {other:?}"),
    }
}

async fn workflows(client: &Client) -> Done {
    client.health().await?;
    let info = client.cluster_info().await?;
    assert_eq!(info["control_plane"]["version"], "2", "{info}");

    let value = json!({"text": "ä", "list": [1, -2.5, null, true], "n": 1_u64 << 40});
    let echo = start(client, "tests.echo", "echo", json!([value])).await?;
    assert_eq!(echo.result(LONG).await?, value);
    let described = echo.describe().await?;
    assert_eq!(described.workflow_type.as_deref(), Some("tests.echo"));
    assert_eq!(described.status.as_deref(), Some("completed"));
    assert_eq!(described.run_id, echo.run_id);
    let of_run = echo.describe_selected_run().await?;
    assert_eq!(of_run.output, Some(value.clone()));
    assert_eq!(
        http_status(
            start(client, "tests.echo", "echo", json!([]))
                .await
                .map(drop)
        ),
        409
    );
    assert_eq!(
        http_status(client.describe_workflow("none").await.map(drop)),
        404
    );

    let failing = start(client, "tests.failing", "failing", json!([])).await?;
    match failing.result(LONG).await {
        Err(Error::WorkflowFailed(outcome)) => {
            assert_eq!(outcome.message.as_deref(), Some("out of paper"));
            assert_eq!(outcome.exception_type.as_deref(), Some("printer"));
        }
        other => panic!("a failure was expected: {other:?}"),
    }

    let run = echo.run_id.clone().expect("a run");
    let options = WorkflowHistoryOptions::new().page_size(1);
    let mut history = client.iter_workflow_history("echo", run, options);
    let mut events = Vec::new();
    while let Some(event) = history.next().await? {
        events.push(event.event_type);
    }
    assert_eq!(events.first().map(String::as_str), Some("WorkflowStarted"));
    assert_eq!(events.last().map(String::as_str), Some("WorkflowCompleted"));
    Ok(())
}

async fn commands(client: &Client) -> Done {
    let adding = start(client, "tests.adding", "adding", json!([1])).await?;
    assert_eq!(adding.update("add", json!([4]), None).await?, 5);
    let refused = adding.update("add", json!([101]), None).await;
    assert_eq!(http_status(refused.map(drop)), 422);
    assert_eq!(adding.query("total", json!([])).await?, 5);
    match adding.query("weather", json!([])).await {
        Err(Error::QueryFailed(failure)) => assert_eq!(failure.reason, "query_not_found"),
        other => panic!("a failure was expected: {other:?}"),
    }
    let key = Client::generate_signal_request_id();
    let first = adding
        .signal_with_request_id("done", json!(["me"]), &key)
        .await?;
    let again = adding
        .signal_with_request_id("done", json!(["me"]), &key)
        .await?;
    assert_eq!(
        (&first["retained"], &again["retained"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(adding.result(LONG).await?, 5);

    let reason = || WorkflowCommandOptions::new().reason("no more");
    let cancelled = start(client, "tests.adding", "cancelled", json!([1])).await?;
    let receipt = cancelled.cancel(reason()).await?;
    assert_eq!(receipt.command_status.as_deref(), Some("accepted"));
    assert!(matches!(
        cancelled.result(LONG).await,
        Err(Error::WorkflowCancelled(_))
    ));
    let terminated = start(client, "tests.adding", "terminated", json!([1])).await?;
    terminated.terminate_selected_run(reason()).await?;
    assert!(matches!(
        terminated.result(LONG).await,
        Err(Error::WorkflowTerminated(_))
    ));
    match terminated.terminate(reason()).await {
        Err(Error::WorkflowCommandRejected(rejection)) => {
            assert_eq!(
                (rejection.status, rejection.reason.as_str()),
                (409, "run_not_active")
            );
        }
        other => panic!("a refusal was expected: {other:?}"),
    }
    Ok(())
}

async fn lists(client: &Client) -> Done {
    let options = WorkflowListOptions::new()
        .workflow_type("tests.adding")
        .page_size(1);
    let mut runs = client.iter_workflows(options);
    let mut found = Vec::new();
    while let Some(run) = runs.next().await? {
        found.push(run.workflow_id);
    }
    assert_eq!(found, ["terminated", "cancelled", "adding"]);
    let cancelled = WorkflowListOptions::new().query("Status = 'cancelled'");
    let page = client.list_workflows(cancelled).await?;
    let ids: Vec<_> = page
        .workflows
        .iter()
        .map(|run| run.workflow_id.as_str())
        .collect();
    assert_eq!(ids, ["cancelled"]);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect("the address of a node");
    let client = Client::builder(url).token(arguments.next()).build()?;
    workflows(&client).await?;
    commands(&client).await?;
    lists(&client).await
}
