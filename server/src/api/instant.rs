//! Instants and spans as the wire has them: RFC 3339, and the words of humans and ISO 8601.

use std::time::Duration;

use coord_engine::model::Timestamp;
use jiff::SignedDuration;

use super::problem::Problem;

/// An instant in UTC, to the microsecond; `None` for one that does not come. Always with six digits
/// of it: Python reads three or six before 3.11, and no others.
pub(crate) fn shown(instant: Timestamp) -> Option<String> {
    if !instant.comes() {
        return None;
    }
    let instant = jiff::Timestamp::from_microsecond(instant.as_micros()).ok()?;
    Some(format!("{instant:.6}"))
}

/// The instant that `text` says in RFC 3339.
pub(super) fn read(field: &str, text: &str) -> Result<Timestamp, Problem> {
    let instant: jiff::Timestamp = text.parse().map_err(|error: jiff::Error| {
        Problem::field(field, format!("it is no instant of RFC 3339: {error}"))
    })?;
    Ok(Timestamp::from_micros(instant.as_microsecond()))
}

/// The span that `text` says, as `90s`, `1h 30m` or `PT90S`.
pub(super) fn read_span(field: &str, text: &str) -> Result<Duration, Problem> {
    let why = || Problem::field(field, "it is no span such as 90s, 1h 30m or PT90S");
    let span: SignedDuration = text.parse().map_err(|_: jiff::Error| why())?;
    Duration::try_from(span).map_err(|_| why())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_comes_back_as_it_was() {
        let instant = Timestamp::from_micros(1_900_000_000_123_456);

        let text = shown(instant).expect("it comes");

        assert_eq!(text, "2030-03-17T17:46:40.123456Z");
        assert_eq!(read("at", &text).expect("an instant"), instant);
        assert_eq!(shown(Timestamp::NEVER), None);
        for (micros, fraction) in [(0, "000000"), (500_000, "500000"), (120, "000120")] {
            let text = shown(Timestamp::from_micros(1_900_000_000_000_000 + micros));
            let expected = format!("2030-03-17T17:46:40.{fraction}Z");
            assert_eq!(text, Some(expected), "{micros}");
        }
    }

    #[test]
    fn a_span_is_read_as_people_and_standards_write_it() {
        for text in ["90s", "1m 30s", "PT90S", "PT1M30S"] {
            assert_eq!(
                read_span("every", text).expect(text),
                Duration::from_secs(90)
            );
        }
        for text in ["", "90", "-90s", "soon"] {
            assert!(read_span("every", text).is_err(), "{text}");
        }
    }
}
