//! Where in a trace something is.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use tracing::field::{DisplayValue, display};

/// The longest `tracestate` that is passed on: what the standard asks for at least.
const STATE_BYTES: usize = 512;
/// The most members of a `tracestate`, by the standard.
const STATE_MEMBERS: usize = 32;
/// The longest key and the longest value of a member, by the standard.
const MEMBER_BYTES: usize = 256;

/// Which trace something belongs to, and under which span of it: W3C Trace Context.
///
/// Its text ([`Display`](fmt::Display), [`from_text`](Self::from_text)) is that of `traceparent`,
/// and after a space that of `tracestate` where there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceContext {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) is_sampled: bool,
    pub(super) state: Option<Arc<str>>,
}

thread_local! {
    static CURRENT: RefCell<Option<TraceContext>> = const { RefCell::new(None) };
}

impl TraceContext {
    /// What the headers `traceparent` and `tracestate` say; nothing where the first one does not
    /// read. A second one that does not read, or is longer than 512 bytes, is left out.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let (version, rest) = traceparent.split_at_checked(2)?;
        let (known, later) = rest.split_at_checked(53)?;
        let version = hex(version)?;
        let may_be_longer = version != 0 && later.starts_with('-');
        if version == 0xff || !(later.is_empty() || may_be_longer) {
            return None;
        }
        let mut parts = known.strip_prefix('-')?.split('-');
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        if (trace.len(), span.len(), flags.len()) != (32, 16, 2) {
            return None;
        }
        let (trace, span, flags) = (hex(trace)?, hex(span)?, hex(flags)?);
        let state = tracestate.filter(|state| is_state(state)).map(Arc::from);
        (trace != 0 && span != 0).then_some(Self {
            trace,
            span: span as u64,
            is_sampled: flags & 1 == 1,
            state,
        })
    }

    /// What [`Display`](fmt::Display) wrote; nothing for any other text.
    pub fn from_text(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            None => Self::parse(text, None),
            Some((parent, state)) => Self::parse(parent, Some(state)),
        }
    }

    /// The context in which this code runs, if it runs in one: for the headers of a request to
    /// somebody else, say.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// As the header `traceparent` has it.
    pub fn traceparent(&self) -> String {
        let Self { trace, span, .. } = self;
        format!("00-{trace:032x}-{span:016x}-0{}", u8::from(self.is_sampled))
    }

    /// As the header `tracestate` has it.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The id of the trace.
    pub const fn trace_id(&self) -> u128 {
        self.trace
    }

    /// The id of the span.
    pub const fn span_id(&self) -> u64 {
        self.span
    }

    /// Whether the trace is recorded.
    pub const fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Makes it current, and gives back what was.
    pub(super) fn swap(new: Option<Self>) -> Option<Self> {
        CURRENT.replace(new)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.traceparent())?;
        match &self.state {
            None => Ok(()),
            Some(state) => write!(formatter, " {state}"),
        }
    }
}

/// The id of the current trace for a log line. Called by what [`declare!`](crate::declare) makes.
#[doc(hidden)]
pub fn current_id() -> Option<DisplayValue<impl fmt::Display>> {
    struct Id(u128);
    impl fmt::Display for Id {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "{:032x}", self.0)
        }
    }
    let trace = CURRENT.with_borrow(|current| current.as_ref().map(|current| current.trace));
    trace.map(|trace| display(Id(trace)))
}

/// The number that lower-case digits write.
fn hex(digits: &str) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = digits.bytes().all(is_digit);
    is_number.then(|| u128::from_str_radix(digits, 16).ok())?
}

/// Whether it is a list of members `key=value` that the standard allows.
fn is_state(state: &str) -> bool {
    let members = state
        .split(',')
        .map(|member| member.trim_matches([' ', '\t']));
    let mut count = 0;
    let mut is_member = |member: &str| {
        count += usize::from(!member.is_empty());
        // The standard allows members with nothing in them.
        member.is_empty() || member.split_once('=').is_some_and(is_pair)
    };
    state.len() <= STATE_BYTES
        && members.into_iter().all(&mut is_member)
        && (1..=STATE_MEMBERS).contains(&count)
}

fn is_pair((key, value): (&str, &str)) -> bool {
    let in_key =
        |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let in_value = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    let fits = |text: &str| (1..=MEMBER_BYTES).contains(&text.len());
    let begins = key.starts_with(|one: char| one.is_ascii_lowercase() || one.is_ascii_digit());
    fits(key) && fits(value) && begins && key.bytes().all(in_key) && value.bytes().all(in_value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_the_standard_allows_reads_and_nothing_else_does() {
        let read = |text: &str| TraceContext::parse(text, None);
        let good = read(PARENT).expect("the example of the standard");
        assert_eq!(good.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(good.span_id(), 0x00f0_67aa_0ba9_02b7);
        assert!(good.is_sampled());
        assert_eq!(good.traceparent(), PARENT);
        let later = PARENT.replacen("00", "01", 1);
        assert_eq!(read(&format!("{later}-more")), Some(good.clone()));
        assert_eq!(read(&later), Some(good));
        assert!(
            !read(&PARENT.replace("-01", "-02"))
                .expect("flags")
                .is_sampled()
        );

        for bad in [
            "",
            "00",
            "é0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "ff", 1),
            &format!("{PARENT}-more"),
            &format!("{later}more"),
            &PARENT[..54],
            &PARENT.replace('-', "_"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_state_that_is_none_is_left_out_and_keeps_nothing_back() {
        let state = |text: &str| {
            let read = TraceContext::parse(PARENT, Some(text)).expect("the parent reads");
            read.tracestate().map(str::to_owned)
        };
        for good in [
            "a=1",
            "a=1,b@c=x y",
            "0=~, ,b=2",
            &format!("a={}", "x".repeat(256)),
        ] {
            assert_eq!(state(good).as_deref(), Some(good));
        }
        let many = |count| {
            (0..count)
                .map(|n| format!("k{n}=1"))
                .collect::<Vec<_>>()
                .join(",")
        };
        assert!(state(&many(32)).is_some());
        for bad in [
            "",
            ",",
            "a",
            "A=1",
            "a=",
            "a=b=c",
            "a=é",
            "_a=1",
            "a=1\n",
            &many(33),
            &format!("a={}", "x".repeat(257)),
            &format!("a={0},b={0},c=1", "x".repeat(254)),
        ] {
            assert_eq!(state(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_an_error(parent in "(?s).{0,80}", state in proptest::option::of("(?s).{0,40}")) {
            _ = TraceContext::parse(&parent, state.as_deref());
            _ = TraceContext::from_text(&parent);
        }

        #[test]
        fn the_text_comes_back_as_it_was(trace in 1_u128.., span in 1_u64.., is_sampled: bool, state in "([a-z]=[!-+]{1,9}( ?,))*") {
            let parent = TraceContext { trace, span, is_sampled, state: None };
            let read = TraceContext::parse(&parent.traceparent(), Some(&state));
            let context = read.expect("the parent reads");

            prop_assert_eq!(TraceContext::from_text(&context.to_string()), Some(context));
        }
    }
}
