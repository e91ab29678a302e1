//! Which servers will do.

/// Numbers of a version.
type Version = (u32, u32, u32);

/// The first that the tests have run on.
const OLDEST_MARIADB: Version = (10, 5, 0);
/// The first with `JSON_TABLE` and with `SKIP LOCKED`.
const WHOLE_MARIADB: Version = (10, 6, 0);
/// The first whose `JSON_TABLE` may stand in every join that the statements have.
const OLDEST_MYSQL: Version = (8, 0, 19);

/// Why a server will not do that says this of itself. What cannot be read is left to the statements.
pub(super) fn too_old(said: &str) -> Option<String> {
    let (product, oldest) = if is_mariadb(said) {
        ("MariaDB", OLDEST_MARIADB)
    } else {
        ("MySQL", OLDEST_MYSQL)
    };
    let version = version(said).filter(|version| *version < oldest)?;
    let text = |(major, minor, patch)| format!("{product} {major}.{minor}.{patch}");
    let (version, oldest) = (text(version), text(oldest));
    Some(format!(
        "{version} is too old, the engine needs {oldest} or newer"
    ))
}

/// Whether the server that says this of itself knows tables of JSON, and how to skip what is locked.
pub(super) fn knows_rows(said: &str) -> bool {
    !is_mariadb(said) || version(said).is_none_or(|version| version >= WHOLE_MARIADB)
}

fn is_mariadb(said: &str) -> bool {
    said.contains("MariaDB")
}

fn version(said: &str) -> Option<Version> {
    // For clients that know no version above 5.
    let said = said.strip_prefix("5.5.5-").unwrap_or(said);
    let mut numbers = said.splitn(3, '.').map(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_digit());
        part[..end.unwrap_or(part.len())].parse().ok()
    });
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_version_does_and_the_one_before_it_is_refused_by_name() {
        for (before, oldest, name) in [
            (
                "10.4.34-MariaDB-1:10.4.34+maria~deb10",
                "10.5.0-MariaDB",
                "MariaDB 10.4.34",
            ),
            (
                "5.5.5-10.4.34-MariaDB",
                "5.5.5-10.5.0-MariaDB-log",
                "MariaDB 10.4.34",
            ),
            ("8.0.18", "8.0.19-log", "MySQL 8.0.18"),
            ("5.7.44-log", "9.7.4", "MySQL 5.7.44"),
        ] {
            let why = too_old(before).expect(before);
            assert!(why.starts_with(name), "{why}");
            assert_eq!(too_old(oldest), None);
        }
    }

    #[test]
    fn mariadb_before_10_6_knows_no_rows() {
        for old in ["10.5.29-MariaDB-0+deb11u1", "5.5.5-10.5.29-MariaDB"] {
            assert!(!knows_rows(old), "{old}");
        }
        for whole in [
            "10.6.0-MariaDB",
            "11.8.2-MariaDB",
            "8.0.19-log",
            "9.7.4",
            "edge",
        ] {
            assert!(knows_rows(whole), "{whole}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_statements() {
        for unreadable in ["", "edge", "8", "8.0"] {
            assert_eq!(too_old(unreadable), None);
        }
    }
}
