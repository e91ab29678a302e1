//! Log lines and metrics of this process: the program is the one place that installs where they go.

use coord_core::{Error, Result};
use coord_engine::LogLevel;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

/// From here on signals of `level` and above are JSON on standard error, their fields on top, and
/// metrics are counted for the handle to render.
///
/// # Errors
/// `Invalid` when something else in this process has taken either.
pub(crate) fn install(level: LogLevel) -> Result<PrometheusHandle> {
    let taken = |error| Error::invalid("metrics go elsewhere").with_source(error);
    json(level)?;
    PrometheusBuilder::new()
        .set_buckets_for_metric(
            Matcher::Suffix("_seconds".to_owned()),
            coord_core::signals::BUCKETS,
        )
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(taken)
}

/// From here on what a command does to others is JSON on standard error, whatever the environment
/// says of levels: it is on record.
///
/// # Errors
/// As [`install`].
pub(crate) fn audit() -> Result<()> {
    json(LogLevel::Info)
}

fn json(level: LogLevel) -> Result<()> {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::new(level.as_str()))
        .try_init()
        .map_err(|error| Error::invalid("log lines go elsewhere").with_source(error))
}

/// From here on what somebody has to see to is text on standard error.
///
/// # Errors
/// As [`install`].
pub(crate) fn for_people() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::new("warn"))
        .try_init()
        .map_err(|error| Error::invalid("log lines go elsewhere").with_source(error))
}
