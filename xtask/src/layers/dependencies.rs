//! The rules on dependencies.

use super::Violation;

/// Which crates of this workspace each one depends on. The table and the manifests must agree:
/// a dependency that is not here is a new edge of the design, and one that is only here is a
/// permission nobody uses.
pub(super) const LAYERS: &[(&str, &[&str])] = &[
    ("coord-core", &[]),
    ("coord-redis", &["coord-core"]),
    ("coord-lease", &["coord-core", "coord-redis"]),
    ("coord-lock", &["coord-core", "coord-lease", "coord-redis"]),
    ("coord-ratelimit", &["coord-core", "coord-redis"]),
    ("coord-broadcast", &["coord-core", "coord-redis"]),
    ("coord-cache", &["coord-core", "coord-redis"]),
    (
        "coord-fanout",
        &["coord-core", "coord-lease", "coord-redis"],
    ),
    // Through Redis go hints alone; coord-redis says where it is.
    (
        "coord-engine",
        &["coord-broadcast", "coord-core", "coord-redis"],
    ),
    (
        "coord-server",
        &[
            "coord-broadcast",
            "coord-core",
            "coord-engine",
            "coord-lease",
            "coord-lock",
            "coord-ratelimit",
            "coord-redis",
        ],
    ),
    // It tests them all, and its binaries collect what they declare.
    (
        "coord-tests",
        &[
            "coord-broadcast",
            "coord-cache",
            "coord-core",
            "coord-engine",
            "coord-fanout",
            "coord-lease",
            "coord-lock",
            "coord-ratelimit",
            "coord-redis",
            "coord-server",
        ],
    ),
    // It must start fast, also when one of the others does not compile.
    ("xtask", &[]),
];

/// Where the table is, for messages.
const TABLE: &str = "LAYERS in xtask/src/layers/dependencies.rs";

/// Crates from outside that only one crate of the workspace may use.
struct Reservation {
    crates: &'static [&'static str],
    owner: &'static str,
    exempt: &'static [&'static str],
    instead: &'static str,
}

const RESERVATIONS: &[Reservation] = &[
    Reservation {
        crates: &["redis", "deadpool-redis"],
        owner: "coord-redis",
        exempt: &[],
        instead: "use what coord-redis offers, or add there what is missing",
    },
    Reservation {
        crates: &["aws-sdk-sqs"],
        owner: "coord-fanout",
        // It creates the queues that the tests use, and puts into them what is not ours.
        exempt: &["coord-tests"],
        instead: "use the queue of coord-fanout",
    },
    Reservation {
        crates: &["tracing", "metrics", "log"],
        owner: "coord-core",
        // Neither is shipped, so neither can send an operator an undeclared signal: the tests
        // record what the crates emit, and this package talks to a terminal.
        exempt: &["coord-tests", "xtask"],
        instead: "declare a signal in the crate's signals.rs and emit that",
    },
    Reservation {
        crates: &["metrics-exporter-prometheus", "tracing-subscriber"],
        // Its program is a whole process; a library leaves where signals go to whoever links it.
        owner: "coord-server",
        // Its nodes are processes of their own, too.
        exempt: &["coord-tests"],
        instead: "emit signals, and leave to the program where they go",
    },
];

/// Crates of which one version may be in the tree: two of them do not understand each other's
/// types, or run two runtimes, or make two choices of a TLS provider.
const SINGLE: [&str; 4] = ["redis", "rustls", "sqlx", "tokio"];

/// A crate of the workspace.
pub(super) struct Member {
    pub(super) name: String,
    /// The path of its manifest from the root.
    pub(super) manifest: String,
    pub(super) text: String,
    pub(super) dependencies: Vec<Dependency>,
}

/// A dependency that a manifest declares.
pub(super) struct Dependency {
    pub(super) package: String,
    /// What the manifest calls it.
    pub(super) key: String,
    /// Whether it is neither for development nor for building only.
    pub(super) is_normal: bool,
}

impl Member {
    fn violation(&self, key: &str, rule: &'static str, what: String) -> Violation {
        Violation {
            path: self.manifest.clone(),
            line: line_of(&self.text, key),
            rule,
            what,
        }
    }

    fn depends_on(&self, package: &str) -> bool {
        self.dependencies
            .iter()
            .any(|dependency| dependency.package == package)
    }
}

/// The workspace's own edges are those of the table, and the other way round.
pub(super) fn layers(members: &[Member], table: &[(&str, &[&str])]) -> Vec<Violation> {
    const RULE: &str = "layer";
    let mut violations = Vec::new();
    for member in members {
        let name = &member.name;
        let Some((_, allowed)) = table.iter().find(|(row, _)| row == name) else {
            let what = format!("{name} has no row in {TABLE}: add one that says what it may use");
            violations.push(member.violation("name", RULE, what));
            continue;
        };
        for dependency in &member.dependencies {
            let package = &dependency.package;
            let is_ours = members.iter().any(|other| other.name == *package);
            if is_ours && !allowed.contains(&package.as_str()) {
                let what = format!(
                    "{name} may not depend on {package}: move the code down to where both can \
                     reach it, or change the design and {TABLE} together"
                );
                violations.push(member.violation(&dependency.key, RULE, what));
            }
        }
        for unused in allowed.iter().filter(|package| !member.depends_on(package)) {
            let what = format!("{name} no longer depends on {unused}: delete that from {TABLE}");
            violations.push(member.violation("[dependencies]", RULE, what));
        }
    }
    let gone = table
        .iter()
        .filter(|(row, _)| members.iter().all(|member| member.name != *row));
    violations.extend(gone.map(|(row, _)| Violation {
        path: "Cargo.toml".into(),
        line: 1,
        rule: RULE,
        what: format!("there is no crate {row} any more: delete its row from {TABLE}"),
    }));
    violations
}

/// What is reserved for one crate is used by no other.
pub(super) fn reserved(members: &[Member]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for member in members {
        let normal = member
            .dependencies
            .iter()
            .filter(|dependency| dependency.is_normal);
        for dependency in normal {
            let package = dependency.package.as_str();
            let reservation = RESERVATIONS
                .iter()
                .find(|one| one.crates.contains(&package));
            let Some(Reservation {
                owner,
                exempt,
                instead,
                ..
            }) = reservation
            else {
                continue;
            };
            if member.name != *owner && !exempt.contains(&member.name.as_str()) {
                let what = format!("only {owner} may depend on {package}: {instead}");
                violations.push(member.violation(&dependency.key, "reserved", what));
            }
        }
    }
    violations
}

/// The lock file, which is the resolved graph, has one version of what must be single.
pub(super) fn single_versions(lock: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in SINGLE {
        let header = format!("name = \"{package}\"");
        let lines: Vec<_> = lock.lines().collect();
        let found = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| **line == header);
        let versions: Vec<_> = found
            .map(|(index, _)| {
                let version = lines.get(index + 1).and_then(|line| line.split('"').nth(1));
                (index + 1, version.unwrap_or("without a version"))
            })
            .collect();
        for (line, version) in versions.iter().skip(1) {
            let (_, first) = versions[0];
            violations.push(Violation {
                path: "Cargo.lock".into(),
                line: *line,
                rule: "single version",
                what: format!(
                    "{package} {version} is in the tree beside {first}: see who wants it with \
                     cargo tree --workspace --all-features -i {package}@{version}, and align the two"
                ),
            });
        }
    }
    violations
}

/// The line of a manifest that starts with a key or a table header; the first one if none does.
fn line_of(manifest: &str, key: &str) -> usize {
    let starts = |line: &str| {
        let table = line
            .strip_suffix(']')
            .and_then(|line| line.rsplit('.').next());
        let assigned = line.strip_prefix(key);
        table == Some(key)
            || assigned.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.', '=']))
    };
    manifest
        .lines()
        .position(|line| starts(line.trim()))
        .map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, dependencies: &[&str]) -> Member {
        let lines: String = dependencies
            .iter()
            .flat_map(|package| [*package, ".workspace = true\n"])
            .collect();
        let text = format!("[package]\nname = \"{name}\"\n\n[dependencies]\n{lines}");
        let dependency = |package: &&str| Dependency {
            package: (*package).into(),
            key: (*package).into(),
            is_normal: true,
        };
        Member {
            name: name.into(),
            manifest: format!("{name}/Cargo.toml"),
            text,
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    fn shown(violations: &[Violation]) -> Vec<String> {
        violations
            .iter()
            .map(|one| format!("{}:{} {}", one.path, one.line, one.rule))
            .collect()
    }

    #[test]
    fn a_workspace_that_agrees_with_its_table_is_accepted() {
        let members = [member("low", &["serde"]), member("high", &["low", "serde"])];

        assert_eq!(layers(&members, &[("low", &[]), ("high", &["low"])]), []);
    }

    #[test]
    fn a_dependency_that_is_not_in_the_table_is_found_at_its_line() {
        let members = [member("low", &["serde", "high"]), member("high", &[])];

        let found = layers(&members, &[("low", &[]), ("high", &[])]);

        assert_eq!(shown(&found), ["low/Cargo.toml:6 layer"]);
    }

    #[test]
    fn a_development_dependency_counts_as_an_edge() {
        let mut low = member("low", &["high"]);
        low.dependencies[0].is_normal = false;

        let found = layers(&[low, member("high", &[])], &[("low", &[]), ("high", &[])]);

        assert_eq!(shown(&found), ["low/Cargo.toml:5 layer"]);
    }

    #[test]
    fn a_permission_nobody_uses_is_found() {
        let members = [member("low", &[]), member("high", &[])];

        let found = layers(&members, &[("low", &[]), ("high", &["low"])]);

        assert_eq!(shown(&found), ["high/Cargo.toml:4 layer"]);
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let found = layers(&[member("new", &[])], &[("old", &[])]);

        assert_eq!(
            shown(&found),
            ["new/Cargo.toml:2 layer", "Cargo.toml:1 layer"]
        );
    }

    #[test]
    fn this_package_may_use_none_of_the_crates() {
        let members = [member("xtask", &["coord-core"]), member("coord-core", &[])];

        let found = layers(&members, LAYERS);

        assert!(
            shown(&found).contains(&"xtask/Cargo.toml:5 layer".into()),
            "{found:?}"
        );
    }

    #[test]
    fn the_redis_client_belongs_to_one_crate() {
        for package in ["redis", "deadpool-redis"] {
            for (name, expected) in [
                ("coord-lock", 1),
                ("xtask", 1),
                ("coord-redis", 0),
                ("coord-tests", 1),
            ] {
                let found = reserved(&[member(name, &[package])]);
                assert_eq!(found.len(), expected, "{name} on {package}");
            }
        }
    }

    #[test]
    fn emitting_belongs_to_one_crate() {
        for package in ["tracing", "metrics", "log"] {
            for (name, expected) in [
                ("coord-redis", 1),
                ("coord-core", 0),
                ("coord-tests", 0),
                ("xtask", 0),
            ] {
                let found = reserved(&[member(name, &[package])]);
                assert_eq!(found.len(), expected, "{name} on {package}");
            }
        }
    }

    #[test]
    fn where_signals_go_is_the_business_of_programs() {
        for package in ["metrics-exporter-prometheus", "tracing-subscriber"] {
            for (name, expected) in [("coord-engine", 1), ("coord-server", 0), ("coord-tests", 0)] {
                let found = reserved(&[member(name, &[package])]);
                assert_eq!(found.len(), expected, "{name} on {package}");
            }
        }
    }

    #[test]
    fn a_development_dependency_on_a_reserved_crate_is_accepted() {
        let mut member = member("coord-lock", &["tracing"]);
        member.dependencies[0].is_normal = false;

        assert_eq!(reserved(&[member]), []);
    }

    #[test]
    fn a_second_version_is_found_at_its_line() {
        let one = "[[package]]\nname = \"tokio\"\nversion = \"1.54.1\"\n";
        let two = "[[package]]\nname = \"tokio\"\nversion = \"0.2.0\"\n";
        let other = "[[package]]\nname = \"tokio-util\"\nversion = \"0.7.0\"\n";

        assert_eq!(single_versions(&format!("{one}{other}")), []);
        let found = single_versions(&format!("{one}{other}{two}"));

        assert_eq!(shown(&found), ["Cargo.lock:8 single version"]);
        assert!(found[0].what.contains("tokio 0.2.0") && found[0].what.contains("1.54.1"));
    }

    #[test]
    fn a_renamed_dependency_is_found_by_the_name_in_the_manifest() {
        let text = "[dependencies]\nclient = { package = \"redis\" }\n\n[dependencies.log]\n";

        assert_eq!(line_of(text, "client"), 2);
        assert_eq!(line_of(text, "log"), 4);
        assert_eq!(line_of(text, "[dependencies]"), 1);
        assert_eq!(line_of(text, "absent"), 1);
    }
}
