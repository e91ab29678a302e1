//! What a pair of queues must be like, looked at once at the start.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use coord_core::{Error, Name, Result, Ttl};

use super::call::{Limit, call};

/// The largest body as text, and its attributes.
const LEAST_MESSAGE_BYTES: u64 = 360 * 1024;

/// A receive waits whole seconds, and what it brings must be valid for a while after that.
const LEAST_VISIBILITY: Duration = Duration::from_secs(2);

/// What SQS keeps of a queue.
type Attributes = HashMap<QueueAttributeName, String>;

/// The name of the queue at `url`: the end of its path.
pub(super) fn name(url: &str) -> Result<Name> {
    let name = url.rsplit('/').next().unwrap_or_default();
    if name.len() <= FIFO.len() || !name.ends_with(FIFO) {
        return Err(Error::invalid(format!(
            "{url} is no URL of a FIFO queue, which ends in the queue's name and {FIFO}"
        )));
    }
    Name::new(name)
}

/// By which SQS itself tells the two kinds of queues apart.
const FIFO: &str = ".fifo";

/// Checks both queues, and says how long the visibility of the first is.
pub(super) async fn check(client: &Client, urls: [&str; 2], limit: Limit) -> Result<Ttl> {
    let [open, dead] = urls;
    if open == dead {
        return Err(Error::invalid(format!(
            "{open} cannot be the queue of its own dead letters"
        )));
    }
    name(dead)?;
    let of_open = attributes(client, open, limit).await?;
    let of_dead = attributes(client, dead, limit).await?;
    takes_messages(open, &of_open)?;
    takes_messages(dead, &of_dead)?;
    moves_nothing(open, &of_open)?;
    visibility(open, &of_open)
}

async fn attributes(client: &Client, url: &str, limit: Limit) -> Result<Attributes> {
    let doing = format!("reading the attributes of {url}");
    let answer = call(&doing, limit, || {
        let request = client.get_queue_attributes().queue_url(url);
        request.attribute_names(QueueAttributeName::All).send()
    });
    let attributes = answer.await?.said.attributes;
    attributes.ok_or_else(|| Error::corrupt(format!("{url} has no attributes")))
}

fn takes_messages(url: &str, attributes: &Attributes) -> Result<()> {
    let is_fifo = attributes.get(&QueueAttributeName::FifoQueue);
    if is_fifo.is_none_or(|is_fifo| is_fifo != "true") {
        return Err(Error::invalid(format!(
            "{url} is a standard queue, which keeps neither order nor ids: create a FIFO queue"
        )));
    }
    match number(url, attributes, &QueueAttributeName::MaximumMessageSize)? {
        0..LEAST_MESSAGE_BYTES => Err(Error::invalid(format!(
            "the MaximumMessageSize of {url} is below {LEAST_MESSAGE_BYTES}: set it to 1048576"
        ))),
        _ => Ok(()),
    }
}

/// Two that move dead letters would count differently, and SQS tells no reason.
fn moves_nothing(url: &str, attributes: &Attributes) -> Result<()> {
    match attributes.get(&QueueAttributeName::RedrivePolicy) {
        Some(policy) if !policy.is_empty() => Err(Error::invalid(format!(
            "{url} has a RedrivePolicy, with which SQS moves messages without reason or signal: \
             remove it, the consumers move what failed for good"
        ))),
        _ => Ok(()),
    }
}

fn visibility(url: &str, attributes: &Attributes) -> Result<Ttl> {
    let seconds = number(url, attributes, &QueueAttributeName::VisibilityTimeout)?;
    let visibility = Duration::from_secs(seconds);
    if visibility < LEAST_VISIBILITY {
        return Err(Error::invalid(format!(
            "the VisibilityTimeout of {url} is {seconds} s: set it to 30, or to 2 at least"
        )));
    }
    Ttl::new(visibility)
}

fn number(url: &str, attributes: &Attributes, name: &QueueAttributeName) -> Result<u64> {
    let number = attributes.get(name).and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::corrupt(format!("{url} has no {name} that is a number")))
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;

    use super::*;

    fn queue(changed: &[(QueueAttributeName, &str)]) -> Result<Ttl> {
        let mut attributes: Attributes = [
            (QueueAttributeName::FifoQueue, "true"),
            (QueueAttributeName::MaximumMessageSize, "1048576"),
            (QueueAttributeName::VisibilityTimeout, "30"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into();
        attributes.extend(
            changed
                .iter()
                .map(|(name, value)| (name.clone(), (*value).to_owned())),
        );
        takes_messages("url", &attributes)?;
        moves_nothing("url", &attributes)?;
        visibility("url", &attributes)
    }

    fn refused(name: QueueAttributeName, value: &str) -> ErrorKind {
        queue(&[(name, value)]).expect_err("refused").kind()
    }

    #[test]
    fn the_visibility_is_what_the_queue_says() {
        assert_eq!(queue(&[]).expect("it is fine"), Ttl::DEFAULT);
        assert!(queue(&[(QueueAttributeName::VisibilityTimeout, "2")]).is_ok());
        assert!(queue(&[(QueueAttributeName::RedrivePolicy, "")]).is_ok());
    }

    #[test]
    fn a_queue_that_cannot_keep_the_promises_is_invalid() {
        for (name, value) in [
            (QueueAttributeName::FifoQueue, "false"),
            (QueueAttributeName::MaximumMessageSize, "262144"),
            (QueueAttributeName::VisibilityTimeout, "1"),
            (
                QueueAttributeName::RedrivePolicy,
                r#"{"maxReceiveCount":3}"#,
            ),
        ] {
            assert_eq!(refused(name.clone(), value), ErrorKind::Invalid, "{name}");
        }
        let odd = refused(QueueAttributeName::VisibilityTimeout, "soon");
        assert_eq!(odd, ErrorKind::Corrupt);
    }

    #[test]
    fn a_name_is_the_end_of_a_url_of_a_fifo_queue() {
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/reminders.fifo";

        assert_eq!(name(url).expect("a FIFO queue").as_str(), "reminders.fifo");
        for url in [
            "",
            "reminders.fifo/",
            "https://host/1/reminders",
            "https://host/.fifo",
        ] {
            assert_eq!(name(url).expect_err(url).kind(), ErrorKind::Invalid);
        }
    }
}
