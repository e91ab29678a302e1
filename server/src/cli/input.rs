//! Values that the command line carries.

use std::fs;
use std::io::Read as _;
use std::time::Duration;

use coord_core::{Error, Result};
use coord_engine::model::Timestamp;
use serde_json::Value;

/// The id that a word is.
pub(super) fn id<T: TryFrom<String, Error = Error>>(text: &str) -> Result<T, String> {
    T::try_from(text.to_owned()).map_err(|error| error.message().to_owned())
}

/// A span with its unit: `90s`, `1h 30m`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "a span carries its units, such as 90s or 1h 30m".to_owned())?;
    span.try_into()
        .map_err(|_| "a span does not go back in time".to_owned())
}

/// An instant, as RFC 3339 has it.
pub(super) fn instant(text: &str) -> Result<Timestamp, String> {
    let at: jiff::Timestamp = text
        .parse()
        .map_err(|_| "an instant reads as 2030-03-31T01:00:00Z".to_owned())?;
    Ok(Timestamp::from_micros(at.as_microsecond()))
}

/// A JSON value: itself, `@file`, or `-` for standard input. Nothing is `null`.
pub(super) fn value(text: Option<&str>) -> Result<Value> {
    let read = |what: &str, error: std::io::Error| {
        Error::invalid(format!("reading {what}")).with_source(error)
    };
    let text = match text {
        None => return Ok(Value::Null),
        Some("-") => {
            let mut text = String::new();
            let all = std::io::stdin().read_to_string(&mut text);
            all.map_err(|error| read("standard input", error))?;
            text
        }
        Some(text) => match text.strip_prefix('@') {
            Some(file) => fs::read_to_string(file).map_err(|error| read(file, error))?,
            None => text.to_owned(),
        },
    };
    serde_json::from_str(&text).map_err(|error| {
        let shown: String = text.chars().take(60).collect();
        let message = format!("the input {shown} is no JSON: text stands in double quotes, within the quotes of the shell");
        Error::invalid(message).with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_instants_are_read_and_others_are_refused() {
        assert_eq!(span("1h 30m"), Ok(Duration::from_mins(90)));
        assert_eq!(span("250ms"), Ok(Duration::from_millis(250)));
        assert!(span("90").is_err());
        assert!(span("-5s").is_err());
        let read = instant("1970-01-01T00:00:01.5Z");
        assert_eq!(read, Ok(Timestamp::from_micros(1_500_000)));
        assert!(instant("tomorrow").is_err());
    }

    #[test]
    fn text_without_quotes_is_no_value_and_the_message_says_what_to_do() {
        assert_eq!(value(None).expect("nothing"), Value::Null);
        assert_eq!(value(Some("[1]")).expect("a list"), serde_json::json!([1]));
        let error = value(Some("ann")).expect_err("no JSON");
        assert!(error.message().contains("double quotes"), "{error}");
    }
}
