//! Which ways to a server may be taken.

use crate::env;
use crate::error::{Failure, Result};

/// Takes one way alone, whatever else there is.
pub(super) const FROM: &str = "COORD_TEST_SERVERS_FROM";

/// Where a server that nobody named may come from, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It runs here, or is installed here.
    Here,
    /// From a container.
    Docker,
    /// From the system's packages.
    Package,
}

impl Way {
    /// Checks that the caller has not chosen another way.
    ///
    /// # Errors
    /// The outer one is `Missing`, if what was chosen is no way; the inner one is why this way may
    /// not be taken.
    pub(super) fn is_open(self) -> Result<std::result::Result<(), String>> {
        Ok(match chosen(env::text(FROM)?.as_deref())? {
            Some(way) if way != self => Err(format!("{FROM} wants servers {}", way.described())),
            _ => Ok(()),
        })
    }

    fn described(self) -> &'static str {
        match self {
            Self::Here => "that are here",
            Self::Docker => "in Docker",
            Self::Package => "from packages",
        }
    }
}

fn chosen(value: Option<&str>) -> Result<Option<Way>> {
    Ok(Some(match value {
        None => return Ok(None),
        Some("here") => Way::Here,
        Some("docker") => Way::Docker,
        Some("package") => Way::Package,
        Some(other) => {
            let known = "here, docker, package";
            return Err(Failure::Missing(format!(
                "{FROM}={other} is none of {known}; unset it to have each tried in this order"
            )));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_named_by_one_word_and_every_other_word_is_refused() {
        for (word, way) in [
            ("here", Way::Here),
            ("docker", Way::Docker),
            ("package", Way::Package),
        ] {
            assert_eq!(chosen(Some(word)).expect(word), Some(way));
        }
        assert_eq!(chosen(None).expect("none"), None);
        let refused = chosen(Some("podman")).expect_err("no way").to_string();
        assert!(refused.contains("here, docker, package"), "{refused}");
    }
}
