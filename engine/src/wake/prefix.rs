//! What the names of one application begin with at a server that others use as well.

use coord_core::{Error, Result};

/// Leaves room for what follows within the 250 bytes of a key of memcached.
const LONGEST: usize = 100;

/// `prefix`, if it can stand in a key of memcached and in a subject of NATS.
///
/// # Errors
/// `Invalid` when it cannot.
pub(super) fn checked(prefix: &str) -> Result<&str> {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-_:".contains(&letter);
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_plain);
    if prefix.len() <= LONGEST && prefix.split('.').all(is_word) {
        return Ok(prefix);
    }
    Err(Error::invalid(format!(
        "the prefix of hints is {prefix:?}, and must be at most {LONGEST} letters, digits, \
         hyphens, underscores and colons, with dots between them"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_what_stands_in_a_key_and_in_a_subject() {
        for good in ["coord", "shop.eu-1", "a:b_c", &"x".repeat(LONGEST)] {
            assert_eq!(checked(good).expect("valid"), good);
        }
        for bad in [
            "",
            "a b",
            "a.*",
            "a.>",
            ".a",
            "a.",
            "a..b",
            "ä",
            &"x".repeat(LONGEST + 1),
        ] {
            let error = checked(bad).expect_err(bad);
            assert_eq!(error.kind(), coord_core::ErrorKind::Invalid);
        }
    }
}
