//! What the compiler must refuse of a signals declaration, and one that it must accept.
//!
//! Each file in `tests/signals/` is a program of its own. Its first line says what becomes of it:
//! `// accepted`, or `// rejected: ` and the texts that the compiler's message must hold, apart by
//! commas. They are our own words or error codes, since the compiler's wording changes with its
//! version.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const PACKAGE: &str = "signals-fixtures";

#[test]
fn the_compiler_refuses_what_breaks_the_contract_and_accepts_what_keeps_it() {
    let fixtures = fixtures();
    assert!(fixtures.len() > 15, "{fixtures:?}");

    let said = check(&package(&fixtures));

    let mut wrong = String::new();
    for (name, file) in &fixtures {
        let text = fs::read_to_string(file).expect("a readable fixture");
        let expected = text.lines().next().unwrap_or_default();
        let verdict = said.get(name).map_or("neither", String::as_str);
        if let Err(why) = judge(expected, verdict) {
            let _ = writeln!(wrong, "{name}: {why}; the compiler said: {verdict}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whether `said`, what the compiler said of a fixture, is what its first line expects.
fn judge(expected: &str, said: &str) -> Result<(), String> {
    if expected == "// accepted" {
        return if said.is_empty() {
            Ok(())
        } else {
            Err("it must compile".into())
        };
    }
    let texts = expected
        .strip_prefix("// rejected: ")
        .ok_or("its first line must say accepted or rejected")?;
    if said.is_empty() {
        return Err("it compiled".into());
    }
    match texts.split(", ").find(|text| !said.contains(text)) {
        None => Ok(()),
        Some(text) => Err(format!("nothing said {text:?}")),
    }
}

/// The fixtures by name.
fn fixtures() -> BTreeMap<String, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/signals");
    let files = fs::read_dir(folder).expect("the folder of the fixtures");
    let files = files.map(|file| file.expect("a readable folder").path());
    let named = files.map(|file| {
        let name = file.file_stem().expect("a file has a name");
        (name.to_str().expect("UTF-8").to_owned(), file)
    });
    named.collect()
}

/// A package under the target folder with a program for each fixture.
///
/// It takes the workspace's lock file along, so that it needs nothing that is not there already.
fn package(fixtures: &BTreeMap<String, PathBuf>) -> PathBuf {
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join(PACKAGE);
    fs::create_dir_all(&package).expect("a writable target folder");
    let mut manifest = format!(
        "[package]\nname = {PACKAGE:?}\nedition = \"2024\"\nautobins = false\n\n[workspace]\n\n\
         [dependencies]\ncoord-core = {{ path = '{}' }}\n\n[lints.rust]\ndead_code = \"deny\"\n",
        core.display()
    );
    for (name, file) in fixtures {
        let _ = write!(
            manifest,
            "\n[[bin]]\nname = {name:?}\npath = '{}'\n",
            file.display()
        );
    }
    fs::write(package.join("Cargo.toml"), manifest).expect("a writable target folder");
    let lock = core.parent().expect("a workspace above").join("Cargo.lock");
    fs::copy(lock, package.join("Cargo.lock")).expect("the workspace's lock file");
    package
}

/// What the compiler said of each program of `package`: nothing where it compiled.
fn check(package: &Path) -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--bins", "--keep-going"])
        .args(["--message-format", "json"])
        .arg("--target-dir")
        .arg(package.join("target"))
        .current_dir(package)
        .output()
        .expect("cargo runs");
    let mut said = BTreeMap::<String, String>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).expect("cargo writes JSON");
        let Some(name) = message["target"]["name"].as_str() else {
            continue;
        };
        let entry = match message["reason"].as_str() {
            Some("compiler-artifact") => "",
            Some("compiler-message") if message["message"]["level"] == "error" => {
                message["message"]["rendered"].as_str().unwrap_or_default()
            }
            _ => continue,
        };
        let said = said.entry(name.to_owned()).or_default();
        said.push_str(entry);
        said.push_str(
            message["message"]["code"]["code"]
                .as_str()
                .unwrap_or_default(),
        );
    }
    assert!(
        said.contains_key("coord_core"),
        "cargo could not begin: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}
