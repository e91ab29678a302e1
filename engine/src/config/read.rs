//! Single values, each with the rule that it has to keep.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use coord_core::{Env, Error, Result, Variable};

use super::variables::{
    ARCHIVE, ARCHIVE_AFTER, HEARTBEAT, LOCAL_LEASE, LOG_LEVEL, REPAIR_EVERY, RETENTION,
    SKIP_RECOVERY, STICKY, STICKY_CAPACITY, TASK_LEASE, TERM, TTL, UPDATE_WAIT,
};
use crate::recovery::Recovery;
use crate::retention::RETENTION as KEPT;
use crate::worker::{CACHED_RUNS, LEASE};

/// Long enough that whoever looks at what has just happened finds it where it did.
const AFTER: Duration = Duration::from_hours(7 * 24);

/// What is logged by a program that sets up a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What somebody has to see to.
    Error,
    /// And what may become that.
    Warn,
    /// And what happens now and then.
    #[default]
    Info,
    /// And what happens all the time.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// Its word, as log filters take it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl FromStr for LogLevel {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        Ok(match word.to_ascii_lowercase().as_str() {
            "off" | "none" => Self::Off,
            "error" | "critical" | "alert" | "emergency" => Self::Error,
            "warn" | "warning" => Self::Warn,
            "info" | "notice" => Self::Info,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => return Err(Error::invalid("no level of a log")),
        })
    }
}

/// `variable` is set to something else than it must be.
pub(super) fn refused(env: &Env, variable: &Variable, form: &str) -> Error {
    let refused = env.parsed::<Nothing>(variable, form);
    refused
        .err()
        .unwrap_or_else(|| Error::invalid(format!("{} must be {form}", variable.name)))
}

/// What no text reads as.
struct Nothing;

impl FromStr for Nothing {
    type Err = ();

    fn from_str(_: &str) -> std::result::Result<Self, ()> {
        Err(())
    }
}

/// What is called by an id.
pub(super) fn id<T>(
    env: &Env,
    variable: &Variable,
    make: impl FnOnce(String) -> Result<T>,
) -> Result<Option<T>> {
    let Some(text) = env.text(variable)? else {
        return Ok(None);
    };
    let made = make(text.to_owned());
    made.map(Some).map_err(|error| {
        let name = env.name_of(variable);
        Error::invalid(format!("{name} is {text:?}: {}", error.message()))
    })
}

fn seconds(env: &Env, variable: &Variable) -> Result<Option<Duration>> {
    const FORM: &str = "a whole number of seconds from 1 to 31536000, a year";
    match env.parsed::<u64>(variable, FORM)? {
        None => Ok(None),
        Some(seconds @ 1..=31_536_000) => Ok(Some(Duration::from_secs(seconds))),
        Some(_) => Err(refused(env, variable, FORM)),
    }
}

pub(super) fn recovery(env: &Env) -> Result<Recovery> {
    let mut recovery = Recovery::default();
    if let Some(every) = seconds(env, &REPAIR_EVERY)? {
        recovery.every = every;
    }
    for (variable, field) in [
        (&TTL, &mut recovery.ttl),
        (&HEARTBEAT, &mut recovery.heartbeat),
        (&TERM, &mut recovery.term),
    ] {
        if let Some(value) = env.duration(variable)? {
            *field = value;
        }
    }
    recovery.check().map_err(|error| {
        let names = [&TTL, &HEARTBEAT, &TERM, &REPAIR_EVERY];
        let values = names.map(|variable| {
            let text = env.text(variable).ok().flatten();
            let value = text.unwrap_or(variable.default);
            format!("{} {value}", env.name_of(variable))
        });
        Error::invalid(format!("{} ({})", error.message(), values.join(", ")))
    })?;
    Ok(recovery)
}

pub(super) fn retention(env: &Env) -> Result<Duration> {
    Ok(env.duration(&RETENTION)?.unwrap_or(KEPT))
}

/// Where histories of closed runs go, and after how long.
pub(super) fn archive(env: &Env) -> Result<Option<(PathBuf, Duration)>> {
    let after = env.duration(&ARCHIVE_AFTER)?.unwrap_or(AFTER);
    let folder = env.text(&ARCHIVE)?;
    Ok(folder.map(|folder| (PathBuf::from(folder), after)))
}

pub(super) fn lease(env: &Env) -> Result<Duration> {
    Ok(seconds(env, &TASK_LEASE)?.unwrap_or(LEASE))
}

pub(super) fn local_lease(env: &Env) -> Result<Option<Duration>> {
    seconds(env, &LOCAL_LEASE)
}

pub(super) fn recovers(env: &Env) -> Result<bool> {
    Ok(!env.flag(&SKIP_RECOVERY)?.unwrap_or(false))
}

pub(super) fn cached_runs(env: &Env) -> Result<usize> {
    let capacity = env.parsed(&STICKY_CAPACITY, "a whole number of runs")?;
    Ok(match env.flag(&STICKY)? {
        Some(false) => 0,
        _ => capacity.unwrap_or(CACHED_RUNS),
    })
}

pub(super) fn update_wait(env: &Env) -> Result<Duration> {
    Ok(seconds(env, &UPDATE_WAIT)?.unwrap_or(Duration::from_secs(10)))
}

pub(super) fn log_level(env: &Env) -> Result<LogLevel> {
    const FORM: &str = "off, error, warn, info, debug or trace";
    Ok(env.parsed(&LOG_LEVEL, FORM)?.unwrap_or_default())
}
