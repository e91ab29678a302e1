//! The observability contract of this workspace: who is in it, its files, and its check.

mod configuration;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use coord_core::Variable;
use coord_core::signals::{self, Alarm, Contract, Declaration, Finding, Observed};

/// Every crate that emits, with its signals.
pub const CRATES: &[(&str, &[Declaration])] = &[
    ("coord-redis", coord_redis::SIGNALS),
    ("coord-lease", coord_lease::SIGNALS),
    ("coord-lock", coord_lock::SIGNALS),
    ("coord-broadcast", coord_broadcast::SIGNALS),
    ("coord-ratelimit", coord_ratelimit::SIGNALS),
    ("coord-fanout", coord_fanout::SIGNALS),
    ("coord-cache", coord_cache::SIGNALS),
    ("coord-engine", coord_engine::SIGNALS),
    ("coord-server", coord_server::SIGNALS),
    ("coord-server: traces", coord_server::TRACES_SIGNALS),
];

/// Every crate that reads the environment, with its variables.
pub const VARIABLES: &[(&str, &[Variable])] = &[
    ("coord-redis", coord_redis::VARIABLES),
    ("coord-engine", coord_engine::VARIABLES),
    ("coord-server", coord_server::VARIABLES),
    ("coord-server: traces", coord_server::TRACES_VARIABLES),
];

/// How the files end into which test processes write the keys they saw.
pub(crate) const OBSERVED: &str = "keys";

const CONTRACT: Contract<'_> = Contract {
    name: "coord",
    folder: "observability",
    crates: CRATES,
    test: "cargo xtask test",
    generate: "cargo xtask generate",
};

/// The page on the environment, under the root.
const CONFIGURATION: &str = "docs/CONFIGURATION.md";

/// The document of the HTTP interface, under the root.
const INTERFACE: &str = "server/openapi.json";

/// What the check found.
#[derive(Debug)]
pub struct Report {
    /// What does not hold.
    pub findings: Vec<Finding>,
    /// How many keys the observed run emitted.
    observed: usize,
    /// Which run that was.
    run: Option<String>,
    /// How many of its processes saw any.
    processes: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(formatter, "{finding}")?;
        }
        if let Some(run) = &self.run {
            writeln!(
                formatter,
                "observed in {run}, processes: {}",
                self.processes
            )?;
        }
        let declarations = || CRATES.iter().flat_map(|(_, signals)| *signals);
        let (signals, reasons) = (
            declarations().count(),
            declarations()
                .filter(|declaration| matches!(declaration.alarm, Alarm::Unmonitored(_)))
                .count(),
        );
        write!(
            formatter,
            "contract: {signals} signals, {} alarms, {reasons} reasons, {} observed, {} findings",
            signals - reasons,
            self.observed,
            self.findings.len()
        )
    }
}

/// Writes every generated file under `root`, and returns those that were not current.
///
/// # Errors
/// When a file cannot be read or written.
pub fn generate(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (name, text) in expected() {
        let file = root.join(&name);
        if read(&file)?.as_deref() != Some(text.as_str()) {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&file, text)?;
            written.push(name);
        }
    }
    Ok(written)
}

/// Checks the contract of the files under `root` and of the run whose keys lie in `observed`.
/// Writes nothing.
///
/// # Errors
/// When something that is there cannot be read.
pub fn check(root: &Path, observed: &Path) -> io::Result<Report> {
    let files = files(&root.join(CONTRACT.folder))?;
    let run = Run::read(observed)?;
    let observation = run.as_ref().map(|run| Observed {
        run: &run.name,
        keys: &run.keys,
    });
    let mut findings = signals::check(&CONTRACT, &files, observation);
    for (name, text) in written() {
        let found = read(&root.join(name))?;
        let remedy = format!("run `{}` and commit what it writes", CONTRACT.generate);
        let stale = signals::stale(name, found.as_deref(), &text, &remedy);
        findings.extend(stale);
    }
    Ok(Report {
        findings,
        observed: run.as_ref().map_or(0, |run| run.keys.len()),
        processes: run.as_ref().map_or(0, |run| run.processes),
        run: run.map(|run| run.name),
    })
}

/// What is generated beside the observability files, by its path from the root.
fn written() -> [(&'static str, String); 2] {
    [
        (
            CONFIGURATION,
            configuration::render(VARIABLES, CONTRACT.generate),
        ),
        (INTERFACE, coord_server::document()),
    ]
}

/// Every generated file, by its path from the root.
fn expected() -> BTreeMap<PathBuf, String> {
    let files = signals::render(&CONTRACT).into_iter();
    let mut files: BTreeMap<_, _> = files
        .map(|(name, text)| (Path::new(CONTRACT.folder).join(name), text))
        .collect();
    files.extend(written().map(|(name, text)| (name.into(), text)));
    files
}

/// The files in a folder and those below it, by their path from there; none if it is not there.
fn files(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        if path.is_dir() {
            let below = files(&path)?.into_iter();
            found.extend(below.map(|(file, text)| (format!("{name}/{file}"), text)));
        } else if let Some(text) = read(&path)? {
            found.insert(name, text);
        }
    }
    Ok(found)
}

/// What is in a folder; nothing if it is not there.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| at(folder, &error))?,
    };
    let paths = entries.map(|entry| Ok(entry.map_err(|error| at(folder, &error))?.path()));
    paths.collect()
}

/// The text of a file, if there is one.
fn read(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(file, &error)),
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// What the processes of a test run saw.
struct Run {
    /// Which run it was, for people.
    name: String,
    keys: BTreeSet<String>,
    processes: usize,
}

impl Run {
    /// The run whose keys lie in `folder`, if there was one.
    fn read(folder: &Path) -> io::Result<Option<Self>> {
        let mut keys = BTreeSet::new();
        let mut last: Option<SystemTime> = None;
        let mut processes = 0;
        for file in entries(folder)? {
            if file.extension().is_none_or(|end| end != OBSERVED) {
                continue;
            }
            processes += 1;
            last = last.max(Some(fs::metadata(&file)?.modified()?));
            let text = read(&file)?.unwrap_or_default();
            keys.extend(text.lines().map(str::to_owned));
        }
        Ok(last.map(|last| Self {
            name: format!("the run of {}", humantime::format_rfc3339_seconds(last)),
            keys,
            processes,
        }))
    }
}
