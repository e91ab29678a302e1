//! The payload codec of the published SDKs: JSON-like values in Avro, under one fixed schema.
//!
//! A payload is an Avro single-object encoding: `C3 01`, the CRC-64-AVRO fingerprint of the schema in
//! little-endian order, and the datum. The schema is the recursive record `Value` with one field, a
//! union of null, boolean, long, double, bytes, string, array of `Value` and map of `Value`, each
//! branch but null a record of one field. A record adds no bytes in Avro, so a value is the number of
//! its branch and its content.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value};

const MAGIC: [u8; 2] = [0xc3, 0x01];
/// Of the schema `durable_workflow.protocol.Value`.
const FINGERPRINT: [u8; 8] = [0xe2, 0xa3, 0x3d, 0xff, 0x55, 0x80, 0x22, 0x37];
/// How deep values may lie in each other: as deep as the reader of JSON goes.
const MAX_DEPTH: usize = 128;

/// Why bytes are no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Malformed {
    /// They are not framed as a payload.
    Framing,
    /// They are of another schema.
    Schema,
    /// They end too early, go on too long, or say what no writer says.
    Datum,
    /// Its values lie too deep in each other.
    Depth,
}

impl Malformed {
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::Framing => "it is no Avro single-object encoding in base64",
            Self::Schema => "it is of another Avro schema than durable_workflow.protocol.Value",
            Self::Datum => "its Avro datum does not read",
            Self::Depth => "its values lie more than 128 deep in each other",
        }
    }
}

/// `value` as a payload in base64. A number beyond 64 bits becomes the nearest double.
pub(crate) fn encode(value: &Value) -> String {
    let mut bytes = Vec::new();
    bytes.extend(MAGIC);
    bytes.extend(FINGERPRINT);
    write(value, &mut bytes);
    BASE64_STANDARD.encode(bytes)
}

/// The value of a payload in base64. Bytes, which JSON has none of, become their base64.
///
/// # Errors
/// Why it is none.
pub(crate) fn decode(blob: &str) -> Result<Value, Malformed> {
    let bytes = BASE64_STANDARD
        .decode(blob)
        .map_err(|_| Malformed::Framing)?;
    let framed = bytes.strip_prefix(&MAGIC).ok_or(Malformed::Framing)?;
    let datum = framed.strip_prefix(&FINGERPRINT).ok_or(Malformed::Schema)?;
    let mut reader = Reader { rest: datum };
    let value = reader.value(0)?;
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err(Malformed::Datum)
    }
}

fn write(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Null => long(0, to),
        Value::Bool(truth) => {
            long(1, to);
            to.push(u8::from(*truth));
        }
        Value::Number(number) => {
            if let Some(whole) = number.as_i64() {
                long(2, to);
                long(whole, to);
            } else {
                long(3, to);
                to.extend(number.as_f64().unwrap_or_default().to_le_bytes());
            }
        }
        Value::String(text) => {
            long(5, to);
            string(text, to);
        }
        Value::Array(items) => {
            long(6, to);
            block(items.len(), to);
            for item in items {
                write(item, to);
            }
            end(to);
        }
        Value::Object(entries) => {
            long(7, to);
            block(entries.len(), to);
            for (key, item) in entries {
                string(key, to);
                write(item, to);
            }
            end(to);
        }
    }
}

fn string(text: &str, to: &mut Vec<u8>) {
    length(text.len(), to);
    to.extend(text.as_bytes());
}

/// All items are one block; there is none without items.
fn block(items: usize, to: &mut Vec<u8>) {
    if items > 0 {
        length(items, to);
    }
}

fn end(to: &mut Vec<u8>) {
    long(0, to);
}

/// No value in memory is as long as an `i64` counts.
fn length(count: usize, to: &mut Vec<u8>) {
    long(count.cast_signed() as i64, to);
}

/// Zigzag, then seven bits a byte from the lowest on.
fn long(number: i64, to: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        to.push((rest as u8) | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Malformed> {
        if depth > MAX_DEPTH {
            return Err(Malformed::Depth);
        }
        Ok(match self.long()? {
            0 => Value::Null,
            1 => match self.take(1)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return Err(Malformed::Datum),
            },
            2 => self.long()?.into(),
            3 => {
                let bytes = self.take(8)?.try_into().map_err(|_| Malformed::Datum)?;
                let number = Number::from_f64(f64::from_le_bytes(bytes));
                Value::Number(number.ok_or(Malformed::Datum)?)
            }
            4 => Value::String(BASE64_STANDARD.encode(self.bytes()?)),
            5 => Value::String(self.string()?),
            6 => {
                let mut items = Vec::new();
                self.blocks(|reader| {
                    items.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Value::Array(items)
            }
            7 => {
                let mut entries = Map::new();
                self.blocks(|reader| {
                    let key = reader.string()?;
                    entries.insert(key, reader.value(depth + 1)?);
                    Ok(())
                })?;
                Value::Object(entries)
            }
            _ => return Err(Malformed::Datum),
        })
    }

    /// Each item takes at least a byte, so that a count that lies ends at the end of the bytes.
    fn blocks(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // The size of the block, for those who skip it.
                self.long()?;
                count = count.checked_neg().ok_or(Malformed::Datum)?;
            }
            for _ in 0..count {
                item(self)?;
            }
        }
    }

    fn string(&mut self) -> Result<String, Malformed> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Datum)?;
        Ok(text.to_owned())
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.long()?).map_err(|_| Malformed::Datum)?;
        self.take(length)
    }

    fn long(&mut self) -> Result<i64, Malformed> {
        let mut number: u64 = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else {
                return Err(Malformed::Datum);
            };
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed::Datum);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()));
            }
        }
        Err(Malformed::Datum)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Datum)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_comes_back_as_it_was() {
        for value in [
            json!(null),
            json!([true, false, 0, -1, i64::MIN, i64::MAX, 1.5, "ä", [], {}]),
            json!({"a": [1, {"b": null}], "": "x".repeat(300)}),
        ] {
            assert_eq!(decode(&encode(&value)), Ok(value));
        }
    }

    /// What the published Python SDK, version 2.12.0, makes of `[1, "a", null, {"k": 2.5}]`.
    const PUBLISHED: &str = "wwHioz3/VYAiNwwIBAIKAmEADgICawYAAAAAAAAEQAAA";

    #[test]
    fn a_payload_of_the_published_sdk_reads_and_is_written_as_it_writes_it() {
        let value = json!([1, "a", null, {"k": 2.5}]);

        assert_eq!(decode(PUBLISHED), Ok(value.clone()));
        assert_eq!(encode(&value), PUBLISHED);
    }

    fn framed(datum: &[u8]) -> String {
        BASE64_STANDARD.encode([&MAGIC[..], &FINGERPRINT, datum].concat())
    }

    #[test]
    fn bytes_that_are_no_value_are_refused() {
        for (blob, why) in [
            ("not base64!".to_owned(), Malformed::Framing),
            (BASE64_STANDARD.encode("{}"), Malformed::Framing),
            (
                BASE64_STANDARD.encode(b"\xc3\x01otherschema"),
                Malformed::Schema,
            ),
            (framed(&[]), Malformed::Datum),
            (framed(&[0, 0]), Malformed::Datum),
            (framed(&[16]), Malformed::Datum),
            // A string, and an array, of which nearly nothing is there.
            (
                framed(&[10, 0xfe, 0xff, 0xff, 0xff, 0x0f]),
                Malformed::Datum,
            ),
            (
                framed(&[12, 0xfe, 0xff, 0xff, 0xff, 0x0f]),
                Malformed::Datum,
            ),
            (framed(&[12, 2].repeat(200)), Malformed::Depth),
        ] {
            assert_eq!(decode(&blob), Err(why), "{blob}");
        }
    }

    #[test]
    fn an_array_in_blocks_with_their_sizes_reads() {
        // Two blocks of one item each, the first with its size.
        let datum = [12, 1, 4, 4, 2, 2, 4, 4, 0];

        assert_eq!(decode(&framed(&datum)), Ok(json!([1, 2])));
    }

    #[test]
    fn bytes_become_base64_and_numbers_beyond_64_bits_the_nearest_double() {
        assert_eq!(decode(&framed(&[8, 4, 1, 2])), Ok(json!("AQI=")));
        assert_eq!(
            decode(&encode(&json!(u64::MAX))),
            Ok(json!(u64::MAX as f64))
        );
    }
}
