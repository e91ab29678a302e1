//! What the programs that operators use make of the rendered files.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use coord_core::signals::render;

use super::CONTRACT;

#[test]
fn prometheus_reads_the_rules_and_each_alert_fires_beyond_its_limit_and_not_at_it() {
    let folder = folder("promtool");
    for arguments in [
        ["check", "rules", "prometheus-rules.yml"],
        ["test", "rules", "prometheus-rules.test.yml"],
    ] {
        judged("promtool", &arguments, &folder);
    }
}

#[test]
fn aws_reads_the_template() {
    judged("cfn-lint", &["cloudwatch.yml"], &folder("cfn-lint"));
}

/// The rendered files in a folder of this name.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a writable target folder");
    for (name, text) in render(&CONTRACT) {
        fs::write(folder.join(name), text).expect("a writable target folder");
    }
    folder
}

/// Lets `tool` judge the files, on machines that have it.
fn judged(tool: &str, arguments: &[&str], folder: &Path) {
    match Command::new(tool)
        .args(arguments)
        .current_dir(folder)
        .output()
    {
        Ok(output) => assert!(output.status.success(), "{output:#?}"),
        Err(missing) if missing.kind() == ErrorKind::NotFound => {
            eprintln!("{tool} is not installed, so the files were not judged by it");
        }
        Err(error) => panic!("{tool}: {error}"),
    }
}
