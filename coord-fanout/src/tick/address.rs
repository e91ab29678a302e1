//! What the messages of a tick are called.

use coord_core::{Error, Name, Result};

use crate::job::Tick;
use crate::queue::Message;
use crate::schedule::TickTime;

/// Gives a record its id and group in the queue.
pub(super) fn address(tick: &Tick, record: &mut Message) -> Result<()> {
    let id = joined(&[tick.job.as_str(), tick.org.as_str(), record.id.as_str()]);
    record.id = id.map_err(|error| {
        let Tick { job, org, .. } = tick;
        Error::invalid(format!("the id of record {} of {job} for {org}", record.id))
            .with_source(error)
    })?;
    if let Some(group) = &record.group {
        record.group = Some(joined(&[tick.org.as_str(), group.as_str()])?);
    }
    Ok(())
}

/// The id of the message of one instant. No record's id has an empty part.
pub(super) fn tick_id(tick: &Tick, instant: TickTime) -> Result<Name> {
    let instant = instant.as_millis().to_string();
    joined(&[tick.job.as_str(), tick.org.as_str(), "", &instant])
}

/// The parts with colons between them, and those within them escaped: different parts give
/// different names.
fn joined(parts: &[&str]) -> Result<Name> {
    let mut text = String::with_capacity(64);
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            text.push(':');
        }
        for character in part.chars() {
            match character {
                '%' => text.push_str("%25"),
                ':' => text.push_str("%3A"),
                other => text.push(other),
            }
        }
    }
    Name::new(text)
}

#[cfg(test)]
mod tests {
    use coord_core::{ErrorKind, FencingToken};
    use proptest::prelude::*;

    use super::*;

    fn tick(job: &str, org: &str) -> Tick {
        let name = |text| Name::new(text).expect("a valid name");
        Tick {
            job: name(job),
            org: name(org),
            instants: Vec::new(),
            fence: FencingToken::new(1).expect("not zero"),
        }
    }

    fn record(name: &str) -> Message {
        Message::new(Name::new(name).expect("a valid name"), "")
    }

    #[test]
    fn the_id_of_a_record_does_not_tell_the_tick_and_its_group_tells_the_tenant() {
        let mut record = record("42").group(Name::new("g").expect("a valid name"));

        address(&tick("reminders", "acme"), &mut record).expect("short enough");

        assert_eq!(record.id.as_str(), "reminders:acme:42");
        assert_eq!(record.group.expect("kept").as_str(), "acme:g");
    }

    #[test]
    fn the_id_of_a_message_without_records_tells_the_instant() {
        let id = tick_id(&tick("reminders", "acme"), TickTime::from_millis(1_000));

        assert_eq!(id.expect("short enough").as_str(), "reminders:acme::1000");
    }

    #[test]
    fn a_record_whose_id_gets_too_long_is_invalid() {
        let mut record = record(&"x".repeat(512));

        let error = address(&tick("reminders", "acme"), &mut record).expect_err("too long");

        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    proptest! {
        #[test]
        fn two_different_records_never_share_an_id(
            one in ("[a:%]{1,3}", "[a:%]{1,3}", "[a:%]{1,3}"),
            other in ("[a:%]{1,3}", "[a:%]{1,3}", "[a:%]{1,3}"),
        ) {
            let id = |(job, org, name): &(String, String, String)| {
                let mut record = record(name);
                address(&tick(job, org), &mut record).expect("short enough");
                record.id
            };

            prop_assert_eq!(one == other, id(&one) == id(&other));
        }
    }
}
