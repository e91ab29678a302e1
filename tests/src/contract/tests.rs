use super::*;

/// A root with every generated file, and the folder of a run in it.
fn generated() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    generate(root.path()).unwrap();
    let observed = root.path().join("observed");
    fs::create_dir(&observed).unwrap();
    (root, observed)
}

/// The findings that are about `what`.
fn about(report: &Report, what: &str) -> Vec<String> {
    let findings = report.findings.iter().map(ToString::to_string);
    findings.filter(|line| line.contains(what)).collect()
}

#[test]
fn what_is_generated_is_current_and_is_not_written_again() {
    let (root, observed) = generated();

    assert_eq!(generate(root.path()).unwrap(), Vec::<PathBuf>::new());
    let report = check(root.path(), &observed).unwrap();
    assert_eq!(about(&report, "generate"), Vec::<String>::new());
}

#[test]
fn an_edited_file_is_found_and_left_as_it_is_until_it_is_generated_again() {
    let (root, observed) = generated();
    let files = [CONFIGURATION, "observability/cloudwatch.yml", INTERFACE];
    for file in files {
        fs::write(root.path().join(file), "edited\n").unwrap();
    }

    let report = check(root.path(), &observed).unwrap();

    for file in files {
        let [line] = &about(&report, file)[..] else {
            panic!("not one finding about {file}: {report}")
        };
        assert!(
            line.starts_with(&format!("{file}:1: the file is not current")),
            "{line}"
        );
        assert_eq!(
            fs::read_to_string(root.path().join(file)).unwrap(),
            "edited\n"
        );
    }
    assert_eq!(generate(root.path()).unwrap(), files.map(PathBuf::from));
}

#[test]
fn a_run_is_what_all_its_processes_saw() {
    let (root, observed) = generated();
    let [one, other] = ["redis.connection.lost", "redis.command.timeout"];
    fs::write(observed.join("suite-1.keys"), format!("{one}\n")).unwrap();
    fs::write(observed.join("suite-2.keys"), format!("{one}\n{other}\n")).unwrap();
    fs::write(observed.join("skipped"), "a test\ta server\n").unwrap();

    let report = check(root.path(), &observed).unwrap();

    assert_eq!(report.observed, 2);
    assert!(report.to_string().contains(", processes: 2\n"), "{report}");
    assert_eq!(
        about(&report, &format!(" {one}: declared")),
        Vec::<String>::new()
    );
    let unseen = CRATES
        .iter()
        .map(|(_, signals)| signals.len())
        .sum::<usize>()
        - 2;
    assert_eq!(about(&report, "not emitted in the run of 2").len(), unseen);
}

#[test]
fn no_run_is_a_finding_that_says_what_to_run() {
    let (root, observed) = generated();

    for folder in [observed, root.path().join("nowhere")] {
        let report = check(root.path(), &folder).unwrap();
        assert_eq!(about(&report, "run `cargo xtask test` first").len(), 1);
    }
}

#[test]
fn a_hand_written_file_in_a_folder_below_is_read_too() {
    let (root, observed) = generated();
    let below = root.path().join("observability/own");
    fs::create_dir(&below).unwrap();
    fs::write(
        below.join("rules.yml"),
        "expr: redis_connection_mislaid_total > 0\n",
    )
    .unwrap();

    let report = check(root.path(), &observed).unwrap();

    let found = about(&report, "observability/own/rules.yml:1");
    assert_eq!(found.len(), 1, "{report}");
}
