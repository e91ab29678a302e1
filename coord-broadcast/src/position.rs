//! Where a message stands among those of its topic.

use std::fmt;
use std::str::FromStr;

use coord_core::{Error, Result};
use coord_redis::Reply;

/// The place of a message: the epoch of its topic, and the sequence in that.
///
/// Sequences count from 1 without a hole. An epoch lasts as long as the server knows the sequence;
/// it ends when that is lost (a failover, a flush, an eviction) or after a week without a message.
/// Its text, `epoch:sequence`, may be stored and read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

impl Position {
    /// The number of the message in its epoch, from 1.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The place that an epoch and a sequence make, as the server writes them.
    ///
    /// # Errors
    /// `Corrupt` for what is no position.
    pub(crate) fn of(epoch: &[u8], sequence: &[u8]) -> Result<Self> {
        let read = || {
            Some(Self {
                epoch: from_hexadecimal(epoch.try_into().ok()?)?,
                sequence: read_sequence(sequence)?,
            })
        };
        read().ok_or_else(|| Error::corrupt("the position of a topic is something else"))
    }

    /// The place that the server has stored; nothing while nothing is.
    pub(crate) fn stored(reply: &Reply) -> Result<Option<Self>> {
        match reply.clone().optional() {
            None => Ok(None),
            Some(reply) => reply.text()?.parse().map(Some),
        }
    }
}

/// An epoch or an origin as it is stored and sent.
pub(crate) fn hexadecimal(id: u64) -> String {
    format!("{id:016x}")
}

/// The 64 bits of an epoch or an origin.
pub(crate) fn from_hexadecimal(digits: &[u8; 16]) -> Option<u64> {
    digits.iter().try_fold(0, |id, &digit| {
        Some(id << 4 | u64::from(char::from(digit).to_digit(16)?))
    })
}

/// A sequence; Lua counts exactly up to 2^53 and no further.
pub(crate) fn read_sequence(digits: &[u8]) -> Option<u64> {
    const MOST: u64 = 1 << 53;
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0, |sequence, &digit| {
        let sequence = sequence * 10 + u64::from(char::from(digit).to_digit(10)?);
        (sequence <= MOST).then_some(sequence)
    })
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}:{}", self.epoch, self.sequence)
    }
}

impl FromStr for Position {
    type Err = Error;

    /// # Errors
    /// `Corrupt` for what is no position.
    fn from_str(text: &str) -> Result<Self> {
        // Without a colon there is no epoch of the right length either.
        let (epoch, sequence) = text.split_once(':').unwrap_or_default();
        Self::of(epoch.as_bytes(), sequence.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;

    use super::*;

    #[test]
    fn a_position_is_read_back_from_its_text() {
        let position = Position {
            epoch: 0xab,
            sequence: 7,
        };

        assert_eq!(position.to_string(), "00000000000000ab:7");
        assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
    }

    #[test]
    fn what_is_no_position_is_corrupt() {
        for text in [
            "",
            "7",
            "ab:7",
            "00000000000000ab:",
            "00000000000000ab:-1",
            "00000000000000ab:+1",
            "00000000000000ab:9007199254740993",
            "+0000000000000ab:7",
            "00000000000000ab:18446744073709551615",
        ] {
            let error = text.parse::<Position>().expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
        }
    }
}
