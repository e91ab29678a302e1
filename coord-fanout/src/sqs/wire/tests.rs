use std::collections::HashSet;

use coord_core::ErrorKind;
use proptest::prelude::*;

use super::*;
use crate::queue::MAX_BODY_BYTES;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn name_of(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

/// What SQS hands out of what it was sent.
fn delivered(outgoing: &Outgoing) -> aws_sdk_sqs::types::builders::MessageBuilder {
    let entry = outgoing.entry(0);
    Received::builder()
        .message_id("sqs-1")
        .receipt_handle("handle")
        .set_body(Some(entry.message_body))
        .set_message_attributes(entry.message_attributes)
        .attributes(MessageSystemAttributeName::ApproximateReceiveCount, "3")
        .attributes(MessageSystemAttributeName::SentTimestamp, "1700000000000")
}

fn read(outgoing: &Outgoing) -> Incoming {
    Incoming::read(&delivered(outgoing).build()).expect("all is there")
}

#[test]
fn a_message_comes_back_as_it_was_sent() {
    let bodies: [&[u8]; 5] = [b"plain", b"", b"\0", "\u{1f980}".as_bytes(), &[0xff, 0xfe]];
    for body in bodies {
        for id in ["a", "with\u{1}control", "\u{1f980}"] {
            let mut message = Message::new(name_of(id), body).group(name_of("g h"));
            message.trace = TraceContext::parse(PARENT, Some("a=1"));

            let incoming = read(&Outgoing::new(&message));

            assert!(incoming.is_ours);
            assert_eq!(incoming.message, message);
            assert_eq!((incoming.count, incoming.sent), (3, 1_700_000_000_000));
        }
    }
}

#[test]
fn a_trace_that_does_not_read_costs_the_trace_and_not_the_message() {
    let message = Message::new(name_of("a"), "body");
    let sent = delivered(&Outgoing::new(&message));

    let odd = sent.message_attributes(TRACE, text("nothing")).build();

    assert_eq!(Incoming::read(&odd).expect("all is there").message, message);
}

#[test]
fn a_dead_letter_tells_its_attempts_and_its_reason() {
    let message = Message::new(name_of("a"), "body");
    let reason = format!("no\u{0}such {}", "customer".repeat(200));

    let letter = Outgoing::dead(&message, "sqs-1", 4, &reason);
    let incoming = read(&letter);

    assert_eq!((incoming.message, incoming.attempts), (message, 4));
    assert!(incoming.reason.starts_with("no\u{fffd}such customer"));
    assert!(incoming.reason.len() <= REASON_BYTES + 2);
}

#[test]
fn what_is_not_ours_keeps_its_body_under_the_id_that_sqs_gave_it() {
    let received = delivered(&Outgoing::new(&Message::new(name_of("a"), "hello")));

    let foreign = Incoming::read(&received.set_message_attributes(None).build());

    let foreign = foreign.expect("it can be handed on");
    assert!(!foreign.is_ours);
    assert_eq!(foreign.message, Message::new(name_of("sqs-1"), "hello"));
}

#[test]
fn a_message_without_what_sqs_adds_is_corrupt() {
    let read = Incoming::read(&Received::builder().message_id("sqs-1").build());

    assert_eq!(read.expect_err("no handle").kind(), ErrorKind::Corrupt);
}

#[test]
fn the_largest_message_fits_what_a_queue_is_checked_for() {
    let long = "\u{1f980}".repeat(128);
    let mut message =
        Message::new(name_of(&long), vec![0xff; MAX_BODY_BYTES]).group(name_of(&long));
    let state = format!("a={0},b={0}", "x".repeat(253));
    message.trace = TraceContext::parse(PARENT, Some(&state));
    let reason = "\0".repeat(REASON_BYTES);

    let letter = Outgoing::dead(&message, "sqs-1", u32::MAX, &reason);

    assert!(letter.bytes <= 360 * 1024, "{}", letter.bytes);
}

#[test]
fn a_token_is_the_name_where_it_may_be() {
    assert_eq!(token(Role::Id, "job:org:17"), "i=job:org:17");
    assert_eq!(token(Role::Group, &"x".repeat(126)).len(), TOKEN_BYTES);
    assert_eq!(token(Role::Group, &"x".repeat(127)).len(), 2 + 64);
    assert!(token(Role::Alone, "with space").starts_with("a#"));
}

proptest! {
    #[test]
    fn tokens_are_what_sqs_takes_and_differ_where_names_do(
        names in prop::collection::hash_set("(?s).{1,160}", 1..20)
    ) {
        let roles = [Role::Id, Role::Group, Role::Alone, Role::Dead, Role::Replayed];
        let tokens: HashSet<_> = names
            .iter()
            .flat_map(|name| roles.map(|role| token(role, name)))
            .collect();

        prop_assert_eq!(tokens.len(), names.len() * roles.len());
        for token in tokens {
            prop_assert!(token.len() <= TOKEN_BYTES);
            prop_assert!(token.bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }
}
