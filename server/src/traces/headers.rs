//! Lists of `name=value`, as the variables of OpenTelemetry have them.

use coord_core::{Env, Error, Result, Variable};
use percent_encoding::percent_decode_str;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// The headers that `variable` lists. Their values are never shown.
///
/// # Errors
/// `Invalid` when they are no headers.
pub(super) fn read(env: &Env, variable: &Variable) -> Result<HeaderMap> {
    let header = |(name, value): (String, String)| {
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::try_from(name).ok()?, value))
    };
    let headers: Option<_> = pairs(env, variable)?.into_iter().map(header).collect();
    headers.ok_or_else(|| unfit(env, variable))
}

/// What `variable` lists, its values decoded.
///
/// # Errors
/// `Invalid` when it is no such list.
pub(super) fn pairs(env: &Env, variable: &Variable) -> Result<Vec<(String, String)>> {
    let Some(text) = env.text(variable)? else {
        return Ok(Vec::new());
    };
    let members = text.split(',').map(str::trim).filter(|one| !one.is_empty());
    let pairs: Option<_> = members.map(pair).collect();
    pairs.ok_or_else(|| unfit(env, variable))
}

fn pair(member: &str) -> Option<(String, String)> {
    let (name, value) = member.split_once('=')?;
    let decoded = |text: &str| {
        Some(
            percent_decode_str(text.trim())
                .decode_utf8()
                .ok()?
                .into_owned(),
        )
    };
    Some((
        decoded(name).filter(|name| !name.is_empty())?,
        decoded(value)?,
    ))
}

fn unfit(env: &Env, variable: &Variable) -> Error {
    Error::invalid(format!(
        "{} must be name=value, separated by commas, with values percent-encoded",
        env.name_of(variable)
    ))
}
