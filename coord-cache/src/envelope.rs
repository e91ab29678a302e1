//! How an entry is stored: a head that tells what it is and which write it is of, then the value.
//!
//! ```text
//! 0       1       2     3         5         21         25          33
//! | 0xC5  | 1     | kind| schema  | stamp   | load_ms  | stale_ms  | payload
//! | magic | format|     | u16 LE  | 16 bytes| u32 LE   | u64 LE    |
//! ```
//! A placeholder ends after its head. The stamp is random and new with every write, so that the
//! head alone tells whether an entry is still the one that was read.

use coord_core::{Error, Result};

/// No JSON, no text and no number begins with it.
const MAGIC: u8 = 0xC5;
const FORMAT: u8 = 1;

/// What stands before everything else, in bytes.
pub(crate) const HEAD: usize = 21;
const BODY: usize = 33;

const PLACEHOLDER: u8 = b'P';
const NEGATIVE: u8 = b'N';
const PLAIN: u8 = b'V';
const COMPRESSED: u8 = b'Z';

/// The head of an entry: what a compare-and-set compares.
pub(crate) type Head = [u8; HEAD];

/// What tells one write from every other.
pub(crate) type Stamp = u128;

/// A stored entry, as far as it can be told without its codec.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Envelope<'a> {
    /// Somebody is loading the value.
    Placeholder(Stamp),
    Entry(Entry<'a>),
    /// One of ours, but of another format or schema: a release before this one, or after it.
    Outdated,
    /// Nothing that this cache writes.
    Foreign,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) head: Head,
    /// How long the load took.
    pub(crate) load_ms: u32,
    /// For how long before its end the entry counts as stale.
    pub(crate) stale_ms: u64,
    pub(crate) payload: Payload<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    /// The loader found that there is nothing.
    Negative,
    Plain(&'a [u8]),
    Compressed(&'a [u8]),
}

impl Payload<'_> {
    /// The encoded value, or nothing for a negative entry.
    ///
    /// # Errors
    /// `Corrupt` when it cannot be decompressed, or would have more than `max_bytes`.
    pub(crate) fn bytes(&self, max_bytes: usize) -> Result<Option<std::borrow::Cow<'_, [u8]>>> {
        match self {
            Self::Negative => Ok(None),
            Self::Plain(bytes) => Ok(Some((*bytes).into())),
            Self::Compressed(bytes) => {
                let broken = || Error::corrupt("a compressed value cannot be read");
                let (size, block) = bytes.split_first_chunk().ok_or_else(broken)?;
                let size = u32::from_le_bytes(*size) as usize;
                // What is stored does not decide how much memory is taken.
                if size > max_bytes {
                    return Err(broken());
                }
                let bytes = lz4_flex::block::decompress(block, size);
                Ok(Some(
                    bytes.map_err(|error| broken().with_source(error))?.into(),
                ))
            }
        }
    }
}

/// The placeholder with this stamp; it is its own head.
pub(crate) fn placeholder(schema: u16, stamp: Stamp) -> Head {
    head(PLACEHOLDER, schema, stamp)
}

/// What is written of every value of one load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) schema: u16,
    pub(crate) stamp: Stamp,
    pub(crate) load_ms: u32,
    pub(crate) stale_ms: u64,
}

impl Write {
    /// An entry that says that there is nothing.
    pub(crate) fn negative(self) -> Vec<u8> {
        self.opened(NEGATIVE)
    }

    /// An entry whose value `encode` appends; it is compressed from `compress_from` bytes on, if
    /// that makes it smaller. The number of the value's own bytes comes along.
    pub(crate) fn value(
        self,
        compress_from: usize,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<(Vec<u8>, usize)> {
        let mut entry = self.opened(PLAIN);
        encode(&mut entry)?;
        let raw = entry.len() - BODY;
        let Ok(size) = u32::try_from(raw) else {
            return Ok((entry, raw));
        };
        if raw >= compress_from {
            let mut smaller = self.opened(COMPRESSED);
            smaller.extend(size.to_le_bytes());
            smaller.extend(lz4_flex::block::compress(&entry[BODY..]));
            if smaller.len() < entry.len() {
                return Ok((smaller, raw));
            }
        }
        Ok((entry, raw))
    }

    fn opened(self, kind: u8) -> Vec<u8> {
        let mut entry = Vec::with_capacity(128);
        entry.extend(head(kind, self.schema, self.stamp));
        entry.extend(self.load_ms.to_le_bytes());
        entry.extend(self.stale_ms.to_le_bytes());
        entry
    }
}

fn head(kind: u8, schema: u16, stamp: Stamp) -> Head {
    let mut head = [0; HEAD];
    head[..3].copy_from_slice(&[MAGIC, FORMAT, kind]);
    head[3..5].copy_from_slice(&schema.to_le_bytes());
    head[5..].copy_from_slice(&stamp.to_le_bytes());
    head
}

/// What `bytes` are to a cache whose values have this `schema`.
pub(crate) fn open(bytes: &[u8], schema: u16) -> Envelope<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
        return Envelope::Foreign;
    };
    if head[0] != MAGIC {
        return Envelope::Foreign;
    }
    if head[1] != FORMAT {
        return Envelope::Outdated;
    }
    let (kind, stamp) = (
        head[2],
        u128::from_le_bytes(head[5..].try_into().expect("16 bytes")),
    );
    // Whoever fills an entry for another release still fills it.
    if kind == PLACEHOLDER {
        return Envelope::Placeholder(stamp);
    }
    if head[3..5] != schema.to_le_bytes() {
        return Envelope::Outdated;
    }
    let Some((load_ms, rest)) = rest.split_first_chunk() else {
        return Envelope::Foreign;
    };
    let Some((stale_ms, payload)) = rest.split_first_chunk() else {
        return Envelope::Foreign;
    };
    let payload = match kind {
        NEGATIVE => Payload::Negative,
        PLAIN => Payload::Plain(payload),
        COMPRESSED => Payload::Compressed(payload),
        _ => return Envelope::Outdated,
    };
    Envelope::Entry(Entry {
        head: *head,
        load_ms: u32::from_le_bytes(*load_ms),
        stale_ms: u64::from_le_bytes(*stale_ms),
        payload,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITE: Write = Write {
        schema: 7,
        stamp: 42,
        load_ms: 12,
        stale_ms: 34_000,
    };

    fn stored(value: &[u8], compress_from: usize) -> Vec<u8> {
        let encode = |out: &mut Vec<u8>| {
            out.extend(value);
            Ok(())
        };
        WRITE.value(compress_from, encode).expect("it fits").0
    }

    fn entry(bytes: &[u8]) -> Entry<'_> {
        match open(bytes, 7) {
            Envelope::Entry(entry) => entry,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_placeholder_a_negative_and_an_empty_value_are_told_apart() {
        let placeholder = placeholder(7, 42);
        assert_eq!(open(&placeholder, 7), Envelope::Placeholder(42));
        // Also for a release with another schema: it waits like all others.
        assert_eq!(open(&placeholder, 8), Envelope::Placeholder(42));
        assert_eq!(entry(&WRITE.negative()).payload, Payload::Negative);
        assert_eq!(entry(&stored(b"", 10)).payload, Payload::Plain(b""));
    }

    #[test]
    fn another_schema_and_another_format_are_outdated() {
        let mut bytes = stored(b"old", 10);
        assert_eq!(open(&bytes, 8), Envelope::Outdated);
        bytes[1] = FORMAT + 1;
        assert_eq!(open(&bytes, 7), Envelope::Outdated);
    }

    #[test]
    fn what_others_store_is_foreign() {
        for foreign in [
            "",
            "1",
            "{\"id\":1}",
            "a text that is longer than a head is",
        ] {
            assert_eq!(open(foreign.as_bytes(), 0), Envelope::Foreign, "{foreign}");
        }
    }

    #[test]
    fn a_value_is_compressed_from_the_limit_on_if_that_helps() {
        let long = [b'a'; 1000];
        assert!(stored(&long, 1000).len() < 200);
        assert_eq!(stored(&long, 1001).len(), BODY + 1000);
        let compressed = stored(&long, 1000);
        assert!(entry(&compressed).payload.bytes(999).is_err());
        assert!(entry(&compressed).payload.bytes(1000).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_stored_is_read_back(
            value in proptest::collection::vec(0_u8..4, 0..3000), compress_from in 0_usize..2000,
        ) {
            let bytes = stored(&value, compress_from);
            let entry = entry(&bytes);

            prop_assert_eq!((entry.load_ms, entry.stale_ms), (12, 34_000));
            prop_assert_eq!(&bytes[..HEAD], &entry.head[..]);
            let read = entry.payload.bytes(3000).expect("its own").expect("a value");
            prop_assert_eq!(&*read, &value[..]);
        }

        #[test]
        fn no_bytes_whatever_break_the_reader(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), ours in any::<bool>(),
        ) {
            let mut bytes = bytes;
            if ours && bytes.len() > 2 {
                bytes[..3].copy_from_slice(&[MAGIC, FORMAT, COMPRESSED]);
            }
            if let Envelope::Entry(entry) = open(&bytes, 0) {
                _ = entry.payload.bytes(1 << 20);
            }
        }
    }
}
