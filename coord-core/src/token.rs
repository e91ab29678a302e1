//! Who may act: the secret of one claim, and the number that outlives it.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::{Error, Result};

/// A number that is larger at every grant of one name.
///
/// Send it along with every write that the lease protects and let the resource refuse a smaller
/// one than it has seen: this is the only guard against a holder that was paused past its TTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The token with this value, which the server granted.
    ///
    /// # Errors
    /// `Corrupt` for zero: no grant carries it.
    pub fn new(value: u64) -> Result<Self> {
        NonZeroU64::new(value)
            .map(Self)
            .ok_or_else(|| Error::corrupt("a fencing token of zero was never granted"))
    }

    /// The value to send along with a protected write.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for FencingToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse()
            .map_err(|_| Error::corrupt("a stored fencing token is no number"))
            .and_then(Self::new)
    }
}

/// The secret of one claim: 128 random bits, as 32 hexadecimal digits.
///
/// It decides whether a key is "already mine": the same claim retried finds its own token, and
/// another process with the same owner name does not.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClaimToken([u8; 32]);

impl ClaimToken {
    /// A fresh token from the operating system's generator (reseeded thread-local `ChaCha`).
    pub fn random() -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bits: u128 = rand::random();
        let mut text = [0; 32];
        for (index, digit) in text.iter_mut().enumerate() {
            *digit = DIGITS[(bits >> (4 * index)) as usize & 0xf];
        }
        Self(text)
    }

    /// The token as it is stored.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

impl fmt::Debug for ClaimToken {
    /// Shows the first digits only: whoever holds a token may release its lease.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClaimToken({}…)", &self.as_str()[..6])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn claim_tokens_are_32_digits_and_differ() {
        let (one, other) = (ClaimToken::random(), ClaimToken::random());

        assert!(one.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(one.as_str().len(), 32);
        assert_ne!(one, other);
    }

    #[test]
    fn a_claim_token_does_not_print_its_secret() {
        let token = ClaimToken::random();

        assert!(!format!("{token:?}").contains(token.as_str()));
    }

    #[test]
    fn a_stored_fence_that_is_no_positive_number_is_corrupt() {
        for text in ["", "0", "-1", "1.7e+15", "abc"] {
            let error = text.parse::<FencingToken>().expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
        }
        assert_eq!("7".parse::<FencingToken>().expect("a number").get(), 7);
    }
}
