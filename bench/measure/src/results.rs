//! What stands in `bench/results.json`: the last run of each benchmark.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use crate::Result;
use crate::machine::Machine;
use crate::table::Table;

/// The file, as it is and as it becomes.
#[derive(Serialize)]
pub struct Results {
    machine: Machine,
    benchmarks: BTreeMap<String, Value>,
}

impl Results {
    /// What earlier runs found, so that a run of one benchmark keeps the others.
    pub fn open() -> Self {
        let text = fs::read_to_string(path()).unwrap_or_default();
        let mut results: Value = serde_json::from_str(&text).unwrap_or_default();
        let benchmarks = results.get_mut("benchmarks").map(Value::take);
        Self {
            machine: Machine::here(),
            benchmarks: serde_json::from_value(benchmarks.unwrap_or_default()).unwrap_or_default(),
        }
    }

    /// Prints `table`, and keeps it as that of the benchmark `name`.
    pub fn add(&mut self, name: &str, table: &Table) -> Result<()> {
        println!("{}", table.text());
        let table = serde_json::to_value(table)?;
        self.benchmarks.insert(name.to_owned(), table);
        fs::write(path(), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }

    /// Says where it is.
    pub fn close(self) {
        println!("bench: {}", path().display());
    }
}

fn path() -> PathBuf {
    let bench: PathBuf = [env!("CARGO_MANIFEST_DIR"), ".."].iter().collect();
    let bench = bench.canonicalize().unwrap_or(bench);
    bench.join("results.json")
}

/// Runs `work` on a runtime with `workers` threads.
pub fn block_on(workers: usize, work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// Says what went wrong, with its causes.
pub fn finished(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}
