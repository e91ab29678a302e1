//! How a message is written for SQS, and read back.
//!
//! | where | what |
//! |---|---|
//! | `MessageBody` | the body, where SQS takes it as text, else a word for the reader |
//! | `coord.id`, `coord.group` | the names as they were given |
//! | `coord.body` | the body, where it is no such text; the string `empty` for an empty one |
//! | `coord.trace` | the trace that it belongs to, where there is one |
//! | `coord.attempts`, `coord.reason` | of a dead letter |

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    Message as Received, MessageAttributeValue, MessageSystemAttributeName,
    SendMessageBatchRequestEntry,
};
use coord_core::{Error, Name, Result, TraceContext};
use sha2::{Digest, Sha256};

use crate::queue::Message;

const ID: &str = "coord.id";
const GROUP: &str = "coord.group";
const BODY: &str = "coord.body";
const TRACE: &str = "coord.trace";
const ATTEMPTS: &str = "coord.attempts";
const REASON: &str = "coord.reason";

const EMPTY: &str = "empty";

/// The longest id of a group or a deduplication that SQS takes.
const TOKEN_BYTES: usize = 128;

/// Most bytes of a reason: a message and its causes, not a stack trace.
const REASON_BYTES: usize = 1024;

/// What a name stands for in a token; two that differ never share one.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// The id of a message, for its deduplication.
    Id,
    /// The group of messages.
    Group,
    /// The group of the only message that has this id and no group.
    Alone,
    /// The message of SQS that became a dead letter.
    Dead,
    /// The dead letter of SQS that is put back.
    Replayed,
}

/// A group or deduplication id for `name`: the name itself where SQS takes it, else its hash.
pub(super) fn token(role: Role, name: &str) -> String {
    let role = match role {
        Role::Id => 'i',
        Role::Group => 'g',
        Role::Alone => 'a',
        Role::Dead => 'd',
        Role::Replayed => 'r',
    };
    let fits = name.len() < TOKEN_BYTES - 1 && name.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        return format!("{role}={name}");
    }
    let mut token = format!("{role}#");
    for byte in Sha256::digest(name) {
        // Writing to a string cannot fail.
        _ = write!(token, "{byte:02x}");
    }
    token
}

/// A message as SQS gets it.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) group: String,
    dedup: String,
    text: String,
    attributes: HashMap<String, MessageAttributeValue>,
    /// As SQS counts it, or more.
    pub(super) bytes: usize,
}

impl Outgoing {
    /// The message, deduplicated by its id.
    pub(super) fn new(message: &Message) -> Self {
        Self::of(message, token(Role::Id, message.id.as_str()))
    }

    /// The message once more, put back from the dead letter that SQS calls `letter`.
    pub(super) fn replayed(message: &Message, letter: &str) -> Self {
        Self::of(message, token(Role::Replayed, letter))
    }

    /// The dead letter of what SQS calls `delivered`.
    pub(super) fn dead(message: &Message, delivered: &str, attempts: u32, reason: &str) -> Self {
        let mut letter = Self::of(message, token(Role::Dead, delivered));
        // Alone, so that none of them keeps others from being looked at.
        letter.group = token(Role::Dead, delivered);
        letter.attribute(ATTEMPTS, number(attempts));
        let reason = &reason[..reason.floor_char_boundary(REASON_BYTES)];
        if !reason.is_empty() {
            letter.attribute(
                REASON,
                text(&reason.replace(|one| !is_plain(one), "\u{fffd}")),
            );
        }
        letter
    }

    fn of(message: &Message, dedup: String) -> Self {
        let group = message.group.as_ref();
        let group = group.map_or_else(
            || token(Role::Alone, message.id.as_str()),
            |group| token(Role::Group, group.as_str()),
        );
        let plain = plain(&message.body).filter(|text| !text.is_empty());
        let body = plain.unwrap_or("see the attribute coord.body");
        let mut outgoing = Self {
            group,
            dedup,
            text: body.to_owned(),
            bytes: body.len(),
            attributes: HashMap::new(),
        };
        if message.body.is_empty() {
            outgoing.attribute(BODY, text(EMPTY));
        } else if plain.is_none() {
            outgoing.attribute(BODY, bytes(&message.body));
        }
        outgoing.attribute(ID, name(&message.id));
        if let Some(group) = &message.group {
            outgoing.attribute(GROUP, name(group));
        }
        outgoing.traced(message.trace.as_ref())
    }

    /// The same message, of `trace` if it is of any.
    pub(super) fn traced(mut self, trace: Option<&TraceContext>) -> Self {
        if let Some(trace) = trace {
            self.attribute(TRACE, text(&trace.to_string()));
        }
        self
    }

    fn attribute(&mut self, key: &str, value: MessageAttributeValue) {
        let text = value.string_value().map_or(0, str::len);
        // Counted as the text that it becomes on the way.
        let binary = value.binary_value().map_or(0, |blob| blob.as_ref().len());
        self.bytes += key.len() + value.data_type().len() + text + binary.div_ceil(3) * 4;
        self.attributes.insert(key.to_owned(), value);
    }

    /// The entry number `position` of a batch.
    pub(super) fn entry(&self, position: usize) -> SendMessageBatchRequestEntry {
        let entry = SendMessageBatchRequestEntry::builder()
            .id(position.to_string())
            .message_body(&self.text)
            .message_group_id(&self.group)
            .message_deduplication_id(&self.dedup)
            .set_message_attributes(Some(self.attributes.clone()))
            .build();
        entry.expect("it has an id and a body")
    }
}

/// What SQS handed out.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The message, or what is there in its stead.
    pub(super) message: Message,
    /// Whether the message is one of ours.
    pub(super) is_ours: bool,
    /// What SQS calls it.
    pub(super) id: String,
    pub(super) handle: String,
    /// How often it was handed out, this time included.
    pub(super) count: u32,
    /// In ms, on the clock of SQS.
    pub(super) sent: u64,
    /// Of a dead letter.
    pub(super) attempts: u32,
    pub(super) reason: String,
}

impl Incoming {
    /// # Errors
    /// `Corrupt` when what SQS itself adds is missing.
    pub(super) fn read(received: &Received) -> Result<Self> {
        let missing = |what| Error::corrupt(format!("SQS handed out a message without {what}"));
        let id = received.message_id().ok_or_else(|| missing("an id"))?;
        let handle = received.receipt_handle();
        let handle = handle.ok_or_else(|| missing("a receipt handle"))?;
        let system = |name| Some(received.attributes()?.get(&name)?.as_str());
        let count = system(MessageSystemAttributeName::ApproximateReceiveCount)
            .and_then(|count| count.parse().ok())
            .ok_or_else(|| missing("the number of its deliveries"))?;
        let sent = system(MessageSystemAttributeName::SentTimestamp);
        let ours = ours(received);
        let attempts = string(received, ATTEMPTS).and_then(|text| text.parse().ok());
        Ok(Self {
            is_ours: ours.is_some(),
            message: ours.map_or_else(|| foreign(id, received), Ok)?,
            id: id.to_owned(),
            handle: handle.to_owned(),
            count,
            sent: sent.and_then(|sent| sent.parse().ok()).unwrap_or_default(),
            attempts: attempts.unwrap_or_default(),
            reason: string(received, REASON).unwrap_or_default().to_owned(),
        })
    }
}

/// The message, if it is one of ours.
fn ours(received: &Received) -> Option<Message> {
    let id = read_name(received, ID)?.ok()?;
    let group = read_name(received, GROUP).transpose().ok()?;
    let body = match received.message_attributes()?.get(BODY) {
        None => received.body()?.as_bytes().to_vec(),
        Some(value) => match (value.binary_value(), value.string_value()) {
            (Some(blob), _) => blob.as_ref().to_vec(),
            (None, Some(EMPTY)) => Vec::new(),
            (None, _) => return None,
        },
    };
    let trace = string(received, TRACE).and_then(TraceContext::from_text);
    Some(Message {
        id,
        group,
        body,
        trace,
    })
}

/// Somebody else's message under the id that SQS gave it.
fn foreign(id: &str, received: &Received) -> Result<Message> {
    Ok(Message::new(
        Name::new(id)?,
        received.body().unwrap_or_default(),
    ))
}

fn read_name(received: &Received, key: &str) -> Option<Result<Name>> {
    let value = received.message_attributes()?.get(key)?;
    let text = match (value.string_value(), value.binary_value()) {
        (Some(text), _) => text,
        (None, blob) => std::str::from_utf8(blob?.as_ref()).ok()?,
    };
    Some(Name::new(text))
}

fn string<'a>(received: &'a Received, key: &str) -> Option<&'a str> {
    received.message_attributes()?.get(key)?.string_value()
}

fn name(name: &Name) -> MessageAttributeValue {
    let as_bytes = || bytes(name.as_str().as_bytes());
    plain(name.as_str().as_bytes()).map_or_else(as_bytes, text)
}

fn text(text: &str) -> MessageAttributeValue {
    value("String")
        .string_value(text)
        .build()
        .expect("it has a type")
}

fn number(number: u32) -> MessageAttributeValue {
    let value = value("Number").string_value(number.to_string());
    value.build().expect("it has a type")
}

fn bytes(bytes: &[u8]) -> MessageAttributeValue {
    let value = value("Binary").binary_value(Blob::new(bytes));
    value.build().expect("it has a type")
}

fn value(kind: &str) -> aws_sdk_sqs::types::builders::MessageAttributeValueBuilder {
    MessageAttributeValue::builder().data_type(kind)
}

/// The text that `bytes` are, where SQS takes it unchanged.
fn plain(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.chars().all(is_plain).then_some(text)
}

/// What XML 1.0 can write, of the basic plane: characters beyond it are not taken everywhere.
fn is_plain(one: char) -> bool {
    matches!(one, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
}

#[cfg(test)]
mod tests;
