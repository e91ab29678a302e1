//! Where spans go and which, as the variables of OpenTelemetry say.

use std::fmt;
use std::time::Duration;

use coord_core::trace::Sampler;
use coord_core::{ClaimToken, Env, Error, Result, Variable};
use reqwest::Url;
use reqwest::header::HeaderMap;

use super::headers;

/// Every variable that says where spans go, and which: those of OpenTelemetry.
pub const VARIABLES: &[Variable] = &[
    ENDPOINT,
    TRACES_ENDPOINT,
    HEADERS,
    TIMEOUT,
    PROTOCOL,
    EXPORTER,
    DISABLED,
    SERVICE,
    ATTRIBUTES,
    SAMPLER,
    SAMPLER_ARG,
    DELAY,
    QUEUE,
    BATCH,
];

const ENDPOINT: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "",
    "Where the collector takes OTLP over plain HTTP, such as `http://127.0.0.1:4318`; `/v1/traces` is added. Without it no traces are recorded, and contexts are passed on all the same.",
)
.url();
const TRACES_ENDPOINT: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "",
    "The same for traces alone, taken as it is.",
)
.url();
const HEADERS: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "",
    "Headers for the collector: `name=value`, separated by commas, values percent-encoded.",
)
.or("OTEL_EXPORTER_OTLP_HEADERS")
.secret();
const TIMEOUT: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "10000",
    "For how many milliseconds a request to the collector is waited for.",
)
.or("OTEL_EXPORTER_OTLP_TIMEOUT");
const PROTOCOL: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "http/protobuf",
    "How the collector is spoken to; there is no other way, and one that is set is reported.",
)
.or("OTEL_EXPORTER_OTLP_PROTOCOL");
const EXPORTER: Variable = Variable::new(
    "OTEL_TRACES_EXPORTER",
    "otlp",
    "`otlp`, or `none` to send no traces.",
);
const DISABLED: Variable = Variable::new(
    "OTEL_SDK_DISABLED",
    "false",
    "Whether no traces are sent, whatever else is set.",
);
const SERVICE: Variable = Variable::new(
    "OTEL_SERVICE_NAME",
    "coord",
    "What this service is called in traces; all its nodes alike.",
);
const ATTRIBUTES: Variable = Variable::new(
    "OTEL_RESOURCE_ATTRIBUTES",
    "",
    "What else is said of this process in each trace: `name=value`, separated by commas, values percent-encoded.",
);
const SAMPLER: Variable = Variable::new(
    "OTEL_TRACES_SAMPLER",
    "parentbased_always_on",
    "Which traces are recorded: `always_on`, `always_off`, `traceidratio`, or the same after `parentbased_`, by which those that began elsewhere are recorded as was decided there.",
);
const SAMPLER_ARG: Variable = Variable::new(
    "OTEL_TRACES_SAMPLER_ARG",
    "1",
    "Which part of the traces a sampler by `traceidratio` records, from 0 to 1.",
);
const DELAY: Variable = Variable::new(
    "OTEL_BSP_SCHEDULE_DELAY",
    "5000",
    "After how many milliseconds spans are sent that fill no batch.",
);
const QUEUE: Variable = Variable::new(
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "2048",
    "How many spans wait to be sent; those beyond are dropped, and counted.",
);
const BATCH: Variable = Variable::new(
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "512",
    "How many spans are sent together.",
);

const MILLISECONDS: &str = "a whole number of milliseconds above 0";
const COUNT: &str = "a whole number from 1 to 1000000";

/// Where spans go, and which.
pub(super) struct Config {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) timeout: Duration,
    /// What is said of this process in each batch.
    pub(super) resource: Vec<(String, String)>,
    pub(super) sampler: Sampler,
    pub(super) delay: Duration,
    pub(super) queue: usize,
    pub(super) batch: usize,
}

impl Config {
    /// What the environment says; nothing when no traces are to be sent.
    ///
    /// # Errors
    /// `Invalid`, naming the variable and what it must be.
    pub(super) fn from_env(env: &Env) -> Result<Option<Self>> {
        if off(env)?.is_some() {
            return Ok(None);
        }
        let Some(url) = url(env)? else {
            return Ok(None);
        };
        let queue = count(env, &QUEUE, 2048)?;
        Ok(Some(Self {
            url,
            headers: headers::read(env, &HEADERS)?,
            timeout: milliseconds(env, &TIMEOUT, 10_000)?,
            resource: resource(env)?,
            sampler: sampler(env)?,
            delay: milliseconds(env, &DELAY, 5000)?,
            queue,
            batch: count(env, &BATCH, 512)?.min(queue),
        }))
    }
}

impl fmt::Debug for Config {
    /// Shows no headers, which are secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = (self.queue, self.batch, self.delay, self.timeout);
        formatter
            .debug_struct("Config")
            .field("sampler", &self.sampler)
            .field("bounds", &bounds)
            .finish_non_exhaustive()
    }
}

/// The names that are set and have no effect, each with the reason.
///
/// # Errors
/// `Invalid` when what decides that does not read.
pub(super) fn without_effect(env: &Env) -> Result<Vec<(String, &'static str)>> {
    let unknown = env.unknown("OTEL_", VARIABLES).into_iter();
    let mut found: Vec<_> = unknown
        .map(|name| (name.to_owned(), "nothing here reads it"))
        .collect();
    let mut note = |variable: &Variable, reason| {
        found.push((env.name_of(variable).to_owned(), reason));
    };
    let is_set = |variable: &Variable| env.text(variable).map(|text| text.is_some());
    let off = off(env)?;
    let nowhere = !is_set(&ENDPOINT)? && !is_set(&TRACES_ENDPOINT)?;
    if let Some(reason) = off.or_else(|| nowhere.then_some("no collector is named")) {
        for variable in VARIABLES {
            let decides = [DISABLED, EXPORTER].contains(variable);
            if is_set(variable)? && !decides {
                note(variable, reason);
            }
        }
        return Ok(found);
    }
    if is_set(&ENDPOINT)? && is_set(&TRACES_ENDPOINT)? {
        note(&ENDPOINT, "the endpoint for traces alone wins");
    }
    if env
        .text(&PROTOCOL)?
        .is_some_and(|it| it != PROTOCOL.default)
    {
        note(&PROTOCOL, "collectors are spoken to by http/protobuf alone");
    }
    let by_ratio = env.text(&SAMPLER)?.is_some_and(|it| it.ends_with("ratio"));
    if is_set(&SAMPLER_ARG)? && !by_ratio {
        note(&SAMPLER_ARG, "the sampler takes no argument");
    }
    Ok(found)
}

/// Why no traces are to be sent although a collector may be named.
fn off(env: &Env) -> Result<Option<&'static str>> {
    let is_disabled = env.flag(&DISABLED)? == Some(true);
    Ok(match env.text(&EXPORTER)? {
        _ if is_disabled => Some("OTEL_SDK_DISABLED is true"),
        None | Some("otlp") => None,
        Some("none") => Some("OTEL_TRACES_EXPORTER is none"),
        Some(other) => {
            let name = EXPORTER.name;
            let message = format!("{name} is {other:?}, but must be otlp or none");
            return Err(Error::invalid(message));
        }
    })
}

fn url(env: &Env) -> Result<Option<Url>> {
    let (variable, text) = match env.text(&TRACES_ENDPOINT)? {
        Some(text) => (&TRACES_ENDPOINT, text.to_owned()),
        None => match env.text(&ENDPOINT)? {
            Some(text) => (
                &ENDPOINT,
                format!("{}/v1/traces", text.trim_end_matches('/')),
            ),
            None => return Ok(None),
        },
    };
    let url = Url::parse(&text).ok().filter(|url| url.scheme() == "http");
    let plain = "a URL of plain HTTP, such as http://127.0.0.1:4318: who has TLS takes a collector beside the node";
    let unfit = || Error::invalid(format!("{} must be {plain}", variable.name));
    url.ok_or_else(unfit).map(Some)
}

/// What is said of this process: its service, which of its processes it is, and what was set.
fn resource(env: &Env) -> Result<Vec<(String, String)>> {
    let mut resource = headers::pairs(env, &ATTRIBUTES)?;
    if let Some(service) = env.text(&SERVICE)? {
        resource.retain(|(name, _)| name != "service.name");
        resource.push(("service.name".to_owned(), service.to_owned()));
    }
    let defaults = [
        ("service.name", SERVICE.default.to_owned()),
        (
            "service.instance.id",
            ClaimToken::random().as_str().to_owned(),
        ),
    ];
    for (name, value) in defaults {
        if resource.iter().all(|(set, _)| set != name) {
            resource.push((name.to_owned(), value));
        }
    }
    Ok(resource)
}

fn sampler(env: &Env) -> Result<Sampler> {
    let name = env.text(&SAMPLER)?.unwrap_or(SAMPLER.default);
    let part = || {
        let form = "a number from 0 to 1";
        let part: f64 = env.parsed(&SAMPLER_ARG, form)?.unwrap_or(1.0);
        if (0.0..=1.0).contains(&part) {
            return Ok(part);
        }
        Err(Error::invalid(format!(
            "{} is {part}, but must be {form}",
            SAMPLER_ARG.name
        )))
    };
    let (parent_based, rule) = match name.strip_prefix("parentbased_") {
        Some(rule) => (true, rule),
        None => (false, name),
    };
    let sampler = match rule {
        "always_on" => Sampler::always(),
        "always_off" => Sampler::never(),
        "traceidratio" => Sampler::ratio(part()?),
        _ => {
            return Err(Error::invalid(format!(
                "{} is {name:?}, but must be always_on, always_off or traceidratio, each also \
                 after parentbased_",
                SAMPLER.name
            )));
        }
    };
    Ok(if parent_based {
        sampler.parent_based()
    } else {
        sampler
    })
}

fn milliseconds(env: &Env, variable: &Variable, default: u64) -> Result<Duration> {
    let set: Option<std::num::NonZeroU32> = env.parsed(variable, MILLISECONDS)?;
    Ok(Duration::from_millis(
        set.map_or(default, |set| set.get().into()),
    ))
}

fn count(env: &Env, variable: &Variable, default: usize) -> Result<usize> {
    let set: Option<usize> = env.parsed(variable, COUNT)?;
    match set {
        None => Ok(default),
        Some(set @ 1..=1_000_000) => Ok(set),
        Some(set) => {
            let name = variable.name;
            Err(Error::invalid(format!(
                "{name} is {set}, but must be {COUNT}"
            )))
        }
    }
}

#[cfg(test)]
mod tests;
