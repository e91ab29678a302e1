//! What goes over the wire: `1:epoch:sequence:origin:body`.
//!
//! The script that publishes writes it. The 1 is its version: another one is not read.

use crate::position::{Position, from_hexadecimal, read_sequence};
use crate::signals::Skip;

const VERSION: &[u8] = b"1:";

/// What stands before the body of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) position: Position,
    /// Who published it.
    pub(crate) origin: u64,
    /// Where the body begins.
    pub(crate) body: usize,
}

impl Frame {
    /// Reads a frame, or says why it is none of ours.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Skip> {
        let Some(rest) = bytes.strip_prefix(VERSION) else {
            let version = bytes.split(|&byte| byte == b':').next().unwrap_or_default();
            let is_version = !version.is_empty() && version.iter().all(u8::is_ascii_digit);
            return Err(if is_version && version.len() < bytes.len() {
                Skip::Version
            } else {
                Skip::Foreign
            });
        };
        Self::parts(bytes.len(), rest).ok_or(Skip::Foreign)
    }

    fn parts(length: usize, rest: &[u8]) -> Option<Self> {
        let (epoch, rest) = rest.split_first_chunk()?;
        let rest = rest.strip_prefix(b":")?;
        let (sequence, rest) = rest.split_at(rest.iter().position(|&byte| byte == b':')?);
        let (origin, rest) = rest.strip_prefix(b":")?.split_first_chunk()?;
        let position = Position {
            epoch: from_hexadecimal(epoch)?,
            sequence: read_sequence(sequence).filter(|sequence| *sequence > 0)?,
        };
        Some(Self {
            position,
            origin: from_hexadecimal(origin)?,
            body: length - rest.strip_prefix(b":")?.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_is_read_with_whatever_its_body_contains() {
        let bytes = b"1:00000000000000ab:7:00000000000000cd:{\"a\":[1:2]}";
        let frame = Frame::read(bytes).expect("it is one");

        let expected = Frame {
            position: Position {
                epoch: 0xab,
                sequence: 7,
            },
            origin: 0xcd,
            body: 38,
        };
        assert_eq!(frame, expected);
        assert_eq!(&bytes[frame.body..], b"{\"a\":[1:2]}");
    }

    #[test]
    fn another_version_is_told_from_what_is_no_frame() {
        let read = |text: &'static str| Frame::read(text.as_bytes()).unwrap_err();

        assert_eq!(read("2:anything"), Skip::Version);
        for text in [
            "",
            "1",
            "2",
            "hello",
            "1:",
            "{}",
            ":",
            "1:00000000000000ab:7:cd:x",
        ] {
            assert_eq!(read(text), Skip::Foreign, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_message_of_anybody_breaks_the_reader(bytes: Vec<u8>) {
            if let Ok(frame) = Frame::read(&bytes) {
                prop_assert!(frame.body <= bytes.len());
            }
        }
    }
}
