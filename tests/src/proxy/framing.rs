//! Cutting a stream of bytes into what passes as one piece.

use crate::resp::frame::{self, Length};

/// A complete RESP frame, or some bytes of another protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    is_resp: bool,
}

impl Piece {
    /// Whether a server will answer it with one reply.
    pub(super) fn is_command(&self) -> bool {
        self.is_resp && self.bytes.starts_with(b"*")
    }

    /// Whether a server sent it without being asked.
    pub(super) fn is_push(&self) -> bool {
        self.is_resp && self.bytes.starts_with(b">")
    }
}

/// What was read in one direction and is not passed on yet.
#[derive(Default)]
pub(super) struct Framing {
    pub(super) bytes: Vec<u8>,
    /// Bytes of another protocol can look like the start of a frame whose end never comes.
    is_foreign: bool,
}

impl Framing {
    /// Takes the next piece off the bytes that were read.
    pub(super) fn next(&mut self) -> Option<Piece> {
        let length = frame::length(&self.bytes);
        self.is_foreign |= length == Length::Foreign;
        match length {
            _ if self.is_foreign && self.bytes.is_empty() => None,
            _ if self.is_foreign => Some(Piece {
                bytes: std::mem::take(&mut self.bytes),
                is_resp: false,
            }),
            Length::Complete(length) => Some(Piece {
                bytes: self.bytes.drain(..length).collect(),
                is_resp: true,
            }),
            Length::Partial | Length::Foreign => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_pass_one_by_one_and_only_when_complete() {
        let mut framing = Framing {
            bytes: b"*1\r\n$4\r\nPING\r\n*1\r\n$4".to_vec(),
            is_foreign: false,
        };

        let ping = framing.next().unwrap();
        assert!(ping.is_command());
        assert_eq!(ping.bytes, b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(framing.next(), None);

        framing.bytes.extend_from_slice(b"\r\nPING\r\n");
        assert!(framing.next().unwrap().is_command());
        assert_eq!(framing.next(), None);
    }

    #[test]
    fn another_protocol_passes_even_where_it_looks_like_a_frame() {
        let mut framing = Framing {
            bytes: b"\x16\x03\x01".to_vec(),
            is_foreign: false,
        };
        assert!(framing.next().is_some());

        framing.bytes.extend_from_slice(b"*7");

        let piece = framing.next().unwrap();
        assert!(!piece.is_command());
        assert_eq!(piece.bytes, b"*7");
    }
}
