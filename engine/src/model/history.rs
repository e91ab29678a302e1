//! The history of a run as a document.

use coord_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Event, EventKind, JSON, Payload, Record, RunId, Timestamp, events};

/// A run with its whole history, outside of any database: to be kept as what the code of tomorrow
/// must still follow, to be sent along with a question, or to be looked at elsewhere.
///
/// As JSON it is `{"format": "coord-engine.history", "version": 1, "run": …, "events": […]}`. An
/// event has `seq`, `at` in microseconds since 1970, `kind`, and where there are such `step`,
/// `details` and a `payload` with its `codec`, and its `json` or its bytes in `hex`.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    run: RunId,
    events: Vec<Event>,
}

const FORMAT: &str = "coord-engine.history";
/// The only version there has been.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Document {
    format: String,
    version: u32,
    run: RunId,
    events: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    seq: u64,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Carried>,
}

#[derive(Serialize, Deserialize)]
struct Carried {
    codec: String,
    #[serde(flatten)]
    value: Bytes,
}

/// Bytes for people to read, if they come back the same.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bytes {
    Json(Value),
    Hex(String),
}

impl History {
    /// The history `events` of `run`.
    ///
    /// # Errors
    /// `Invalid` when they do not begin with the start of a run.
    pub fn new(run: RunId, events: Vec<Event>) -> Result<Self> {
        match events.first().map(|event| &event.kind) {
            Some(EventKind::Started(_)) => Ok(Self { run, events }),
            _ => Err(Error::invalid("a history begins with the start of its run")),
        }
    }

    /// The run.
    pub const fn run(&self) -> &RunId {
        &self.run
    }

    /// Its events, from the first on.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How it began.
    pub fn started(&self) -> &events::Started {
        match &self.events[0].kind {
            EventKind::Started(started) => started,
            _ => unreachable!("it was looked at when this was made"),
        }
    }

    /// The document.
    ///
    /// # Errors
    /// `Invalid` when the details of an event have no JSON form.
    pub fn to_json(&self) -> Result<String> {
        let entries = self.events.iter().map(|event| Entry::of(event.record()?));
        let document = Document {
            format: FORMAT.to_owned(),
            version: VERSION,
            run: self.run.clone(),
            events: entries.collect::<Result<_>>()?,
        };
        serde_json::to_string_pretty(&document)
            .map_err(|error| Error::invalid("writing a history").with_source(error))
    }

    /// The history that a document holds.
    ///
    /// # Errors
    /// `Invalid` when it is none, or one of a later version.
    pub fn from_json(text: &str) -> Result<Self> {
        let document: Document = serde_json::from_str(text)
            .map_err(|error| Error::invalid("reading a history").with_source(error))?;
        if (document.format.as_str(), document.version) != (FORMAT, VERSION) {
            let (format, version) = (document.format, document.version);
            return Err(Error::invalid(format!(
                "reading a history: it is {format:?} of version {version}, and this reads \
                 {FORMAT:?} of version {VERSION}"
            )));
        }
        let entries = document.events.into_iter();
        let events = entries.map(|entry| Event::from_record(entry.record()?));
        Self::new(document.run, events.collect::<Result<_>>()?)
    }
}

impl Entry {
    fn of(record: Record) -> Result<Self> {
        let read = |text: String| {
            serde_json::from_str(&text)
                .map_err(|error| Error::invalid("writing a history").with_source(error))
        };
        Ok(Self {
            seq: record.seq,
            at: record.at,
            step: record.step,
            kind: record.kind,
            details: record.details.map(read).transpose()?,
            payload: record.payload.as_ref().map(Carried::of),
        })
    }

    fn record(self) -> Result<Record> {
        Ok(Record {
            seq: self.seq,
            at: self.at,
            step: self.step,
            kind: self.kind,
            details: self.details.map(|details| details.to_string()),
            payload: self.payload.map(Carried::payload).transpose()?,
        })
    }
}

impl Carried {
    fn of(payload: &Payload) -> Self {
        let json = serde_json::from_slice(&payload.bytes).ok();
        let json = json.filter(|value: &Value| {
            &*payload.codec == JSON && value.to_string().as_bytes() == &*payload.bytes
        });
        let digits = payload.bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let hex = || {
            let digits = digits.map(|digit| char::from_digit(digit.into(), 16));
            digits.map(Option::unwrap_or_default).collect()
        };
        Self {
            codec: payload.codec.to_string(),
            value: json.map_or_else(|| Bytes::Hex(hex()), Bytes::Json),
        }
    }

    fn payload(self) -> Result<Payload> {
        let bytes = match self.value {
            Bytes::Json(value) => value.to_string().into_bytes(),
            Bytes::Hex(text) => bytes_of(&text)
                .ok_or_else(|| Error::invalid("reading a history: a payload is no hex"))?,
        };
        Ok(Payload {
            codec: self.codec.into(),
            bytes: bytes.into(),
        })
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.chars().map(|digit| digit.to_digit(16)?.try_into().ok());
    let digits: Vec<u8> = digits.collect::<Option<_>>()?;
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(high << 4 | low),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attributes, Priority, Queue, TypeName, WorkflowId};

    fn history() -> History {
        let started = events::Started {
            name: TypeName::new("w").expect("a name"),
            workflow: WorkflowId::new("w").expect("an id"),
            number: 1,
            queue: Queue::default(),
            priority: Priority::default(),
            fairness: None,
            build: None,
            seed: u64::MAX,
            parent: None,
            continued_from: None,
            occurrence: None,
            execution_deadline_at: None,
            memo: serde_json::Map::new(),
            attributes: Attributes::new(),
            trace: None,
        };
        let event = |seq, kind, payload| Event {
            seq,
            at: Timestamp::from_micros(7),
            step: Some(seq).filter(|seq| *seq > 1),
            kind,
            payload,
        };
        let unknown = EventKind::Unknown {
            name: "Later".to_owned(),
            details: Some(r#"{"a":[1,2]}"#.to_owned()),
        };
        let payload = |codec: &str, bytes: &[u8]| {
            Some(Payload {
                codec: codec.into(),
                bytes: bytes.into(),
            })
        };
        let run = RunId::new("r").expect("an id");
        let events = vec![
            event(
                1,
                EventKind::Started(started),
                payload("json", b"{\"x\":1}"),
            ),
            // Bytes that another writer of JSON has spaced, and bytes of another codec.
            event(2, unknown.clone(), payload("json", b"{ \"x\": 1 }")),
            event(3, unknown, payload("raw", &[0, 255])),
        ];
        History::new(run, events).expect("a history")
    }

    #[test]
    fn a_document_gives_back_the_history_byte_by_byte() {
        let history = history();

        let document = history.to_json().expect("a document");

        assert!(document.contains(r#""json": {"#), "{document}");
        assert_eq!(History::from_json(&document).expect("a history"), history);
    }

    #[test]
    fn what_is_no_history_of_this_version_is_refused() {
        let document = history().to_json().expect("a document");
        let later = document.replace("\"version\": 1", "\"version\": 2");

        for text in ["", "{}", &later, &document.replace(FORMAT, "another")] {
            let error = History::from_json(text).expect_err("refused");
            assert_eq!(error.kind(), coord_core::ErrorKind::Invalid);
        }
        assert!(History::new(RunId::new("r").expect("an id"), Vec::new()).is_err());
    }
}
