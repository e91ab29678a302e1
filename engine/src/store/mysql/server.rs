//! Which servers will do.

/// Numbers of a version.
type Version = (u32, u32, u32);

/// The first with `JSON_TABLE`, as which every statement gets its rows, and with `SKIP LOCKED`.
const OLDEST_MARIADB: Version = (10, 6, 0);
/// The first whose `JSON_TABLE` may stand in every join that the statements have.
const OLDEST_MYSQL: Version = (8, 0, 19);

/// Why a server will not do that says this of itself. What cannot be read is left to the statements.
pub(super) fn too_old(said: &str) -> Option<String> {
    let is_mariadb = said.contains("MariaDB");
    let (product, oldest) = if is_mariadb {
        ("MariaDB", OLDEST_MARIADB)
    } else {
        ("MySQL", OLDEST_MYSQL)
    };
    // For clients that know no version above 5.
    let said = said.strip_prefix("5.5.5-").unwrap_or(said);
    let version = version(said).filter(|version| *version < oldest)?;
    let text = |(major, minor, patch)| format!("{product} {major}.{minor}.{patch}");
    let (version, oldest) = (text(version), text(oldest));
    Some(format!(
        "{version} is too old, the engine needs {oldest} or newer"
    ))
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
            let why = too_old(before).expect(before);
            assert!(why.starts_with(name), "{why}");
            assert_eq!(too_old(oldest), None);
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_statements() {
        for unreadable in ["", "edge", "8", "8.0"] {
            assert_eq!(too_old(unreadable), None);
        }
    }
}
