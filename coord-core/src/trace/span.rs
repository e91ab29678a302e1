//! Pieces of work within a trace.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use super::{Sampler, TraceContext};

/// A piece of work within a trace. It ends when it is dropped, and is then handed to whoever
/// collects spans.
///
/// Where nobody does, or the trace is not recorded, it is nothing but the context of its parent.
#[must_use = "it ends when it is dropped"]
pub struct Span {
    context: Option<TraceContext>,
    recording: Option<Box<Recording>>,
}

struct Recording {
    span: Ended,
    collecting: Arc<Collecting>,
}

/// A span that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// Its trace, and itself in it.
    pub context: TraceContext,
    /// The span that it is a part of.
    pub parent: Option<u64>,
    /// What was done, without what tells one such piece of work from another.
    pub name: Cow<'static, str>,
    /// On which side of a hand-over it is.
    pub kind: SpanKind,
    /// When it began.
    pub began_at: Instant,
    /// When it ended.
    pub ended_at: Instant,
    /// What was noted of it.
    pub notes: Vec<(&'static str, Note)>,
    /// Spans of other traces, or of other parts of its own, that it goes on from as well.
    pub links: Vec<TraceContext>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// On which side of a hand-over a span is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanKind {
    /// It answers a request.
    Server,
    /// It hands work over that somebody does later.
    Producer,
    /// It does what was handed over.
    Consumer,
    /// Neither.
    Internal,
}

/// Something noted of a span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

struct Collecting {
    sampler: Sampler,
    sink: Box<dyn Fn(Ended) + Send + Sync>,
}

static COLLECTING: RwLock<Option<Arc<Collecting>>> = RwLock::new(None);

/// From here on spans of this process are recorded, as `sampler` says, and each is handed to `sink`
/// when it ends, on the thread that ends it: it must neither wait nor begin spans itself. Whoever
/// collected before gets no more.
pub fn collect(sampler: Sampler, sink: impl Fn(Ended) + Send + Sync + 'static) {
    let sink = Box::new(sink);
    set(Some(Arc::new(Collecting { sampler, sink })));
}

/// From here on no span of this process is recorded; those under way are still handed over.
pub fn stop_collecting() {
    set(None);
}

fn set(collecting: Option<Arc<Collecting>>) {
    *COLLECTING.write().unwrap_or_else(PoisonError::into_inner) = collecting;
}

impl Span {
    /// No span, in no trace.
    pub const fn none() -> Self {
        Self {
            context: None,
            recording: None,
        }
    }

    /// A span under `parent`; without one it is none.
    pub fn of(parent: Option<&TraceContext>, kind: SpanKind, name: fmt::Arguments<'_>) -> Self {
        parent.map_or_else(Self::none, |parent| Self::begin(Some(parent), kind, name))
    }

    /// The first span of a new trace; none where nobody collects spans.
    pub fn root(kind: SpanKind, name: fmt::Arguments<'_>) -> Self {
        Self::begin(None, kind, name)
    }

    fn begin(parent: Option<&TraceContext>, kind: SpanKind, name: fmt::Arguments<'_>) -> Self {
        let collecting = COLLECTING.read().unwrap_or_else(PoisonError::into_inner);
        let Some(collecting) = collecting.clone() else {
            return Self {
                context: parent.cloned(),
                recording: None,
            };
        };
        let trace = parent.map_or_else(|| rand::random::<u128>().max(1), |parent| parent.trace);
        let is_sampled = parent.map(|parent| parent.is_sampled);
        let is_sampled = collecting.sampler.samples(trace, is_sampled);
        let context = TraceContext {
            trace,
            span: rand::random::<u64>().max(1),
            is_sampled,
            state: parent.and_then(|parent| parent.state.clone()),
        };
        let recording = is_sampled.then(|| {
            let began_at = Instant::now();
            let name = name
                .as_str()
                .map_or_else(|| name.to_string().into(), Cow::Borrowed);
            let span = Ended {
                context: context.clone(),
                parent: parent.map(|parent| parent.span),
                name,
                kind,
                began_at,
                ended_at: began_at,
                notes: Vec::new(),
                links: Vec::new(),
                failure: None,
            };
            Box::new(Recording { span, collecting })
        });
        Self {
            context: Some(context),
            recording,
        }
    }

    /// What follows from it belongs under this.
    pub const fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    /// Notes a text of it: ids and names, and no values of users.
    pub fn note(&mut self, key: &'static str, value: impl fmt::Display) {
        if let Some(recording) = &mut self.recording {
            let value = Note::Text(value.to_string());
            recording.span.notes.push((key, value));
        }
    }

    /// Notes a number of it.
    pub fn number(&mut self, key: &'static str, value: i64) {
        if let Some(recording) = &mut self.recording {
            recording.span.notes.push((key, Note::Number(value)));
        }
    }

    /// It goes on from `other` as well.
    pub fn link(&mut self, other: &TraceContext) {
        if let Some(recording) = &mut self.recording {
            recording.span.links.push(other.clone());
        }
    }

    /// It failed, for this reason.
    pub fn fail(&mut self, why: impl fmt::Display) {
        if let Some(recording) = &mut self.recording {
            recording.span.failure = Some(why.to_string());
        }
    }

    /// Makes it current on this thread until the value is dropped. Not across an `.await`: that is
    /// [`within`](Self::within).
    pub fn enter(&self) -> Entered {
        Entered {
            before: TraceContext::swap(self.context.clone()),
            thread: PhantomData,
        }
    }

    /// Does `work` with it current, wherever it is polled. What `work` spawns is not within it.
    ///
    /// # Cancel safety
    /// As `work`.
    pub async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let _entered = self.enter();
            work.as_mut().poll(cx)
        })
        .await
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(recording) = self.recording.take() {
            let Recording {
                mut span,
                collecting,
            } = *recording;
            span.ended_at = Instant::now();
            (collecting.sink)(span);
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Span").field(&self.context).finish()
    }
}

/// A span that is current on this thread.
#[must_use = "the span is current until this is dropped"]
pub struct Entered {
    before: Option<TraceContext>,
    /// It is current on this thread and no other.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        _ = TraceContext::swap(self.before.take());
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Entered").finish_non_exhaustive()
    }
}
