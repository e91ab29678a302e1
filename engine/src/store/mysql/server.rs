//! Which servers will do.

use coord_core::{Error, Result};

/// Numbers of a version.
type Version = (u32, u32, u32);

/// The first with `JSON_TABLE`, as which every statement gets its rows, and with `SKIP LOCKED`.
const OLDEST_MARIADB: Version = (10, 6, 0);
/// The first whose `JSON_TABLE` may stand in every join that the statements have.
const OLDEST_MYSQL: Version = (8, 0, 19);

/// Checks what the server at `place` says of itself. What cannot be read is left to the statements.
///
/// # Errors
/// `Invalid` when it is too old.
pub(super) fn check(said: &str, place: impl FnOnce() -> String) -> Result<()> {
    let is_mariadb = said.contains("MariaDB");
    let (product, oldest) = if is_mariadb {
        ("MariaDB", OLDEST_MARIADB)
    } else {
        ("MySQL", OLDEST_MYSQL)
    };
    // For clients that know no version above 5.
    let said = said.strip_prefix("5.5.5-").unwrap_or(said);
    match version(said) {
        Some(version) if version < oldest => {
            let text = |(major, minor, patch)| format!("{product} {major}.{minor}.{patch}");
            let (version, oldest) = (text(version), text(oldest));
            Err(Error::invalid(format!(
                "{version} at {} is too old, the engine needs {oldest} or newer",
                place()
            )))
        }
        _ => Ok(()),
    }
}

fn version(said: &str) -> Option<Version> {
    let mut numbers = said.splitn(3, '.').map(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_digit());
        part[..end.unwrap_or(part.len())].parse().ok()
    });
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use coord_core::ErrorKind;

    use super::*;

    #[test]
    fn the_oldest_version_does_and_the_one_before_it_is_refused_by_name() {
        for (before, oldest, name) in [
            (
                "10.5.29-MariaDB-0+deb11u1",
                "10.6.0-MariaDB",
                "MariaDB 10.5.29",
            ),
            (
                "5.5.5-10.5.29-MariaDB",
                "5.5.5-10.6.0-MariaDB-log",
                "MariaDB 10.5.29",
            ),
            ("8.0.18", "8.0.19-log", "MySQL 8.0.18"),
            ("5.7.44-log", "9.7.4", "MySQL 5.7.44"),
        ] {
            let refused = check(before, || "db:3306".to_owned()).expect_err(before);
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            let named = format!("{name} at db:3306 ");
            assert!(refused.message().starts_with(&named), "{refused}");
            check(oldest, String::new).expect(oldest);
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_statements() {
        for unreadable in ["", "edge", "8", "8.0"] {
            check(unreadable, String::new).expect("not refused");
        }
    }
}
