//! What goes over the wire: `1:epoch:sequence:origin:body`.
//!
//! The script that publishes writes it. The 1 is its version: another one is not read.

use crate::position::{Position, from_hexadecimal, read_sequence};
use crate::signals::Skip;

const VERSION: &[u8] = b"1";

/// One message as it was published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) position: Position,
    /// Who published it.
    pub(crate) origin: u64,
    pub(crate) body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame, or says why it is none of ours.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Skip> {
        let mut parts = bytes.splitn(5, |&byte| byte == b':');
        let version = parts.next().unwrap_or_default();
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        let mut read = || {
            let epoch = from_hexadecimal(text()?)?;
            let sequence = read_sequence(text()?).filter(|sequence| *sequence > 0)?;
            let origin = from_hexadecimal(text()?)?;
            Some((Position { epoch, sequence }, origin))
        };
        if version != VERSION {
            let is_version = !version.is_empty() && version.iter().all(u8::is_ascii_digit);
            return Err(if is_version && version.len() < bytes.len() {
                Skip::Version
            } else {
                Skip::Foreign
            });
        }
        let (position, origin) = read().ok_or(Skip::Foreign)?;
        let body = parts.next().ok_or(Skip::Foreign)?;
        Ok(Self {
            position,
            origin,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_is_read_with_whatever_its_body_contains() {
        let frame = Frame::read(b"1:00000000000000ab:7:00000000000000cd:{\"a\":[1:2]}");

        let expected = Frame {
            position: Position {
                epoch: 0xab,
                sequence: 7,
            },
            origin: 0xcd,
            body: b"{\"a\":[1:2]}",
        };
        assert_eq!(frame, Ok(expected));
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
            _ = Frame::read(&bytes);
        }
    }
}
