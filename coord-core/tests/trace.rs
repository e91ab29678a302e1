//! What becomes of spans: where they belong, and who gets them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coord_core::TraceContext;
use coord_core::trace::{Ended, Note, Sampler, Span, SpanKind, collect, stop_collecting};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// There is one collector a process, so one test at a time has it.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parent() -> TraceContext {
    TraceContext::parse(PARENT, Some("vendor=1")).expect("it reads")
}

/// The spans that end while `work` is done.
fn collected(sampler: Sampler, work: impl FnOnce()) -> Vec<Ended> {
    let spans = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&spans);
    collect(sampler, move |span| {
        kept.lock().expect("no panic").push(span);
    });
    work();
    stop_collecting();
    std::mem::take(&mut spans.lock().expect("no panic"))
}

#[test]
fn a_context_is_passed_on_as_it_is_where_nobody_collects() {
    let _alone = alone();

    let span = Span::of(Some(&parent()), SpanKind::Server, format_args!("a"));
    let entered = span.enter();

    assert_eq!(TraceContext::current(), Some(parent()));
    drop(entered);
    assert_eq!(TraceContext::current(), None);
    assert!(
        Span::root(SpanKind::Internal, format_args!("a"))
            .context()
            .is_none()
    );
}

#[test]
fn a_span_is_of_the_trace_of_its_parent_and_what_is_begun_in_it_is_under_it() {
    let _alone = alone();

    let spans = collected(Sampler::always(), || {
        let mut outer = Span::of(Some(&parent()), SpanKind::Server, format_args!("outer"));
        outer.note("who", "ann");
        outer.number("count", 3);
        outer.fail("out of paper");
        let _entered = outer.enter();
        let current = TraceContext::current();
        let inner = Span::of(
            current.as_ref(),
            SpanKind::Internal,
            format_args!("in{}", "ner"),
        );
        let _entered = inner.enter();
        assert_eq!(TraceContext::current().as_ref(), inner.context());
    });

    let [inner, outer] = spans.as_slice() else {
        panic!("{spans:?}");
    };
    for span in [inner, outer] {
        assert_eq!(span.context.trace_id(), parent().trace_id());
        assert_eq!(span.context.tracestate(), Some("vendor=1"));
        assert!(span.began_at <= span.ended_at);
    }
    assert_eq!(
        (&*outer.name, outer.parent),
        ("outer", Some(parent().span_id()))
    );
    assert_eq!(
        (&*inner.name, inner.parent),
        ("inner", Some(outer.context.span_id()))
    );
    assert_eq!(
        outer.notes,
        [
            ("who", Note::Text("ann".to_owned())),
            ("count", Note::Number(3))
        ]
    );
    assert_eq!(outer.failure.as_deref(), Some("out of paper"));
}

#[test]
fn what_is_not_sampled_is_not_recorded_and_those_who_follow_hear_of_it() {
    let _alone = alone();

    let spans = collected(Sampler::never(), || {
        let span = Span::of(Some(&parent()), SpanKind::Server, format_args!("a"));
        assert!(!span.context().expect("of the parent").is_sampled());
        let root = Span::root(SpanKind::Internal, format_args!("b"));
        assert!(!root.context().expect("its own").is_sampled());
    });

    assert!(spans.is_empty(), "{spans:?}");
}

#[test]
fn a_root_begins_a_trace_of_its_own() {
    let _alone = alone();

    let spans = collected(Sampler::always().parent_based(), || {
        let outer = Span::root(SpanKind::Internal, format_args!("a"));
        let _entered = outer.enter();
        drop(Span::root(SpanKind::Internal, format_args!("b")));
        drop(Span::of(None, SpanKind::Internal, format_args!("none")));
    });

    let [inner, outer] = spans.as_slice() else {
        panic!("{spans:?}");
    };
    assert_ne!(inner.context.trace_id(), outer.context.trace_id());
    assert_eq!((inner.parent, outer.parent), (None, None));
}

#[test]
fn work_is_within_its_span_wherever_it_is_polled_and_others_are_not() {
    let _alone = alone();
    let span = Span::of(Some(&parent()), SpanKind::Server, format_args!("a"));
    let mut polls = 0;
    let work = std::future::poll_fn(|_| {
        assert_eq!(TraceContext::current(), Some(parent()));
        polls += 1;
        if polls < 2 {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    });

    let mut within = Box::pin(span.within(work));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());

    assert!(within.as_mut().poll(&mut cx).is_pending());
    assert_eq!(TraceContext::current(), None);
    assert!(within.as_mut().poll(&mut cx).is_ready());
}
