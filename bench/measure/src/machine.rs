//! The machine, and what this process spends on it.

use std::fs;
use std::time::Duration;

use serde::Serialize;

/// What the figures depend on.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    cores: usize,
    cpu: String,
}

impl Machine {
    pub fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "model name").then(|| value.trim().to_owned())
        });
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: model.unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

/// The load averages of one, five and fifteen minutes.
pub fn load() -> Vec<f64> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let fields = text.split_whitespace().take(3);
    fields.filter_map(|field| field.parse().ok()).collect()
}

/// The CPU time of this process's living threads, or of those named `name`.
pub fn cpu(name: Option<&str>) -> Duration {
    spent("self", name)
}

/// The CPU time of the living threads of process `id`.
pub fn cpu_of(id: u32) -> Duration {
    spent(&id.to_string(), None)
}

fn spent(process: &str, name: Option<&str>) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Duration::ZERO;
    };
    let nanos = threads.flatten().filter_map(|thread| {
        let path = thread.path();
        if let Some(name) = name {
            let called = fs::read_to_string(path.join("comm")).ok()?;
            if called.trim() != name {
                return None;
            }
        }
        let times = fs::read_to_string(path.join("schedstat")).ok()?;
        times.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
