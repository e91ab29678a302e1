//! What is refused before the first message, and what is only away.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use coord_core::{Error, ErrorKind};
use coord_fanout::{Queue, SqsOptions, SqsQueue};
use coord_tests::need;
use coord_tests::servers::SqsFault;

use super::{Pair, Sqs, client, config};

const VISIBILITY: Duration = Duration::from_secs(30);

/// Long enough for a server that answers, on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(2);

async fn refusal(client: &Client, url: &str, dead: &str) -> Error {
    let options = SqsOptions::default().deadline(DEADLINE);
    let opened = SqsQueue::open(client, url, dead, options.expect("long enough")).await;
    opened.expect_err("it is refused")
}

async fn set(sqs: &Sqs, url: &str, name: QueueAttributeName, value: &str) {
    let request = sqs.client.set_queue_attributes().queue_url(url);
    let request = request.attributes(name, value);
    request.send().await.expect("the server is there");
}

#[tokio::test]
async fn a_queue_takes_its_name_and_its_visibility_from_sqs() {
    let sqs = need!(Sqs::start().await);
    let pair = sqs.pair(VISIBILITY).await;

    let queue = sqs.open(&pair, SqsOptions::default()).await;

    assert_eq!(queue.name().as_str(), format!("{}.fifo", pair.name));
    assert_eq!(queue.visibility().as_duration(), VISIBILITY);
}

#[tokio::test]
async fn queues_that_cannot_do_it_are_invalid_with_what_to_change() {
    let sqs = need!(Sqs::start().await);
    let Pair { url, dead, name } = sqs.pair(VISIBILITY).await;
    let gone = sqs.server.queue_url(&format!("{name}-gone.fifo"));
    let standard = sqs.server.queue_url(&name);

    for (url, dead, says) in [
        (&gone, &dead, "create it"),
        (&url, &gone, "create it"),
        (&url, &url, "its own dead letters"),
        (&standard, &dead, "no URL of a FIFO queue"),
        (&url, &standard, "no URL of a FIFO queue"),
    ] {
        let error = refusal(&sqs.client, url, dead).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(says), "{error}");
    }
}

#[tokio::test]
async fn attributes_that_break_the_promises_are_invalid_with_what_to_change() {
    let sqs = need!(Sqs::start().await);
    for (name, value) in [
        (QueueAttributeName::VisibilityTimeout, "1"),
        (QueueAttributeName::MaximumMessageSize, "262144"),
        (
            QueueAttributeName::RedrivePolicy,
            r#"{"maxReceiveCount":3}"#,
        ),
    ] {
        let pair = sqs.pair(VISIBILITY).await;
        set(&sqs, &pair.url, name.clone(), value).await;

        let error = refusal(&sqs.client, &pair.url, &pair.dead).await;

        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(name.as_str()), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_for_good_ends_a_call_at_once() {
    let sqs = need!(Sqs::start().await);
    let pair = sqs.pair(VISIBILITY).await;
    let denied = SqsFault::Answer(403, "AccessDenied");
    let denied = sqs
        .server
        .arm("GetQueueAttributes", &pair.name, denied)
        .await;

    let error = refusal(&sqs.client, &pair.url, &pair.dead).await;

    denied.met().await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.message().contains("allow sqs:SendMessage"), "{error}");
}

#[tokio::test]
async fn what_was_never_sent_is_unavailable() {
    let sqs = need!(Sqs::start().await);
    let Pair { url, dead, .. } = sqs.pair(VISIBILITY).await;
    let endpoint = format!("http://{}", sqs.server.addr());
    let anonymous = Client::from_conf(config(&endpoint).build());

    for client in [client("http://nowhere.invalid"), anonymous] {
        let error = refusal(&client, &url, &dead).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
}
