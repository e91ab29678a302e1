//! What one emit writes: a log line in JSON, as operators filter it, and a metric, as Prometheus
//! scrapes it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coord_core::signals::{BUCKETS, Detail, register};
use coord_core::trace::{Span, SpanKind};
use coord_core::{Error, Name, TraceContext};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use serde_json::{Value, json};

enum Loss {
    Expired,
    Taken,
}
coord_core::labels! { Loss { Expired => "expired", Taken => "taken" } }

enum Mode {
    Fair,
    Plain,
}
coord_core::labels! { Mode { Fair => "fair", Plain => "plain" } }

enum Signal {
    Lost { cause: Loss, mode: Mode, lock: Name },
    Dropped { count: u64, error: Detail },
    Held { locks: u64 },
    Wait { elapsed_ms: Duration, mode: Mode },
}
coord_core::declare! { "test.lock.", "test.channel.";
    Lost { cause, mode, lock } => "test.lock.lost", "A held lock expired or was taken.",
        Counter, Error, Page(Any(FIVE_MINUTES), Runbook("lock-lost"));
    Dropped { count, error } => "test.channel.dropped", "Messages were dropped.",
        Counter, Warn, Ticket(MoreThan(10, FIFTEEN_MINUTES), Runbook("channel-dropped"));
    Held { locks } => "test.lock.held", "How many locks this process holds.",
        Gauge, Info, Ticket(Above(100, Window::minutes(10)), Runbook("lock-held"));
    Wait { elapsed_ms, mode } => "test.lock.wait", "Time from the first attempt to the grant.",
        Duration, Debug, Unmonitored("test.lock.timeout is what callers feel");
}

/// What `act` logs, a JSON value a line, and what Prometheus would scrape afterwards.
fn written(act: impl FnOnce()) -> (Vec<Value>, String) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::TRACE)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), BUCKETS)
        .expect("the bounds are not empty")
        .build_recorder();
    tracing::subscriber::with_default(subscriber, || {
        metrics::with_local_recorder(&recorder, act);
    });
    let log = log.0.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = std::str::from_utf8(&log).expect("UTF-8").lines();
    let lines = lines.map(|line| serde_json::from_str(line).expect("JSON"));
    (lines.collect(), recorder.handle().render())
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines of `scraped` that show the metric `name`.
fn shown<'a>(scraped: &'a str, name: &str) -> Vec<&'a str> {
    let lines = scraped.lines().filter(|line| line.starts_with(name));
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

fn name(text: &'static str) -> Name {
    Name::new(text).expect("a valid name")
}

#[test]
fn one_emit_writes_one_log_line_with_its_key_and_fields() {
    let (lines, _) = written(|| {
        let (cause, mode) = (Loss::Taken, Mode::Fair);
        Signal::Lost {
            cause,
            mode,
            lock: name("orders"),
        }
        .emit();
    });

    let [line] = &lines[..] else {
        panic!("not one line: {lines:?}")
    };
    let mut fields = line.as_object().expect("an object").clone();
    fields.remove("timestamp").expect("a time");
    assert_eq!(
        Value::Object(fields),
        json!({
            "level": "ERROR", "target": "coord", "key": "test.lock.lost",
            "cause": "taken", "mode": "fair", "lock": "orders",
        })
    );
}

#[test]
fn a_line_that_belongs_to_a_trace_says_to_which() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let parent = TraceContext::parse(parent, None);
    let span = Span::of(parent.as_ref(), SpanKind::Server, format_args!("a"));

    let (lines, _) = written(|| {
        let _entered = span.enter();
        Signal::Held { locks: 3 }.emit();
    });

    assert_eq!(lines[0]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
}

#[test]
fn the_level_and_the_values_of_a_line_are_those_of_its_row_and_fields() {
    let (lines, _) = written(|| {
        let cut = std::io::Error::other("connection cut");
        let error = Detail::error(&Error::timeout("publish").with_source(cut));
        Signal::Dropped { count: 7, error }.emit();
        Signal::Held { locks: 3 }.emit();
        Signal::Wait {
            elapsed_ms: Duration::from_micros(2_900),
            mode: Mode::Plain,
        }
        .emit();
    });

    let levels: Vec<_> = lines.iter().map(|line| &line["level"]).collect();
    assert_eq!(levels, ["WARN", "INFO", "DEBUG"]);
    assert_eq!(lines[0]["count"], 7);
    assert_eq!(lines[0]["error"], "timeout: publish: connection cut");
    assert_eq!(lines[1]["locks"], 3);
    assert_eq!(lines[2]["elapsed_ms"], 2);
}

#[test]
fn one_emit_reaches_the_metric_with_labels_and_without_details() {
    let (_, scraped) = written(|| {
        let (cause, mode) = (Loss::Expired, Mode::Plain);
        Signal::Lost {
            cause,
            mode,
            lock: name("orders"),
        }
        .emit();
    });

    assert_eq!(
        shown(&scraped, "test_lock_lost_total"),
        ["test_lock_lost_total{cause=\"expired\",mode=\"plain\"} 1"]
    );
}

#[test]
fn a_counter_with_an_integer_adds_it_up() {
    let (_, scraped) = written(|| {
        for count in [7, 5] {
            Signal::Dropped {
                count,
                error: Detail::new("full"),
            }
            .emit();
        }
    });

    assert_eq!(
        shown(&scraped, "test_channel_dropped_total"),
        ["test_channel_dropped_total 12"]
    );
}

#[test]
fn a_gauge_shows_its_last_value() {
    let (_, scraped) = written(|| {
        Signal::Held { locks: 3 }.emit();
        Signal::Held { locks: 2 }.emit();
    });

    assert_eq!(shown(&scraped, "test_lock_held"), ["test_lock_held 2"]);
}

#[test]
fn a_duration_becomes_a_histogram_in_seconds() {
    let (_, scraped) = written(|| {
        Signal::Wait {
            elapsed_ms: Duration::from_millis(250),
            mode: Mode::Fair,
        }
        .emit();
    });

    let shown = shown(&scraped, "test_lock_wait_seconds");
    for line in [
        "test_lock_wait_seconds_bucket{mode=\"fair\",le=\"0.1\"} 0",
        "test_lock_wait_seconds_bucket{mode=\"fair\",le=\"0.25\"} 1",
        "test_lock_wait_seconds_bucket{mode=\"fair\",le=\"+Inf\"} 1",
        "test_lock_wait_seconds_sum{mode=\"fair\"} 0.25",
        "test_lock_wait_seconds_count{mode=\"fair\"} 1",
    ] {
        assert!(shown.contains(&line), "{line} is not in {shown:#?}");
    }
    assert_eq!(shown.len(), BUCKETS.len() + 3);
}

#[test]
fn counters_and_durations_are_exported_at_zero_with_every_label_value_before_the_first_emit() {
    let (lines, scraped) = written(|| register(SIGNALS));

    assert_eq!(lines, Vec::<Value>::new());
    assert_eq!(
        shown(&scraped, "test_lock_lost_total"),
        [
            "test_lock_lost_total{cause=\"expired\",mode=\"fair\"} 0",
            "test_lock_lost_total{cause=\"expired\",mode=\"plain\"} 0",
            "test_lock_lost_total{cause=\"taken\",mode=\"fair\"} 0",
            "test_lock_lost_total{cause=\"taken\",mode=\"plain\"} 0",
        ]
    );
    assert_eq!(
        shown(&scraped, "test_channel_dropped_total"),
        ["test_channel_dropped_total 0"]
    );
    assert_eq!(
        shown(&scraped, "test_lock_wait_seconds_count"),
        [
            "test_lock_wait_seconds_count{mode=\"fair\"} 0",
            "test_lock_wait_seconds_count{mode=\"plain\"} 0",
        ]
    );
    assert_eq!(shown(&scraped, "test_lock_held"), Vec::<&str>::new());
}

#[test]
fn registering_again_takes_nothing_back() {
    let (_, scraped) = written(|| {
        register(SIGNALS);
        Signal::Dropped {
            count: 1,
            error: Detail::new("full"),
        }
        .emit();
        Signal::Wait {
            elapsed_ms: Duration::ZERO,
            mode: Mode::Fair,
        }
        .emit();
        register(SIGNALS);
    });

    assert_eq!(
        shown(&scraped, "test_channel_dropped_total"),
        ["test_channel_dropped_total 1"]
    );
    assert_eq!(
        shown(&scraped, "test_lock_wait_seconds_count{mode=\"fair\"}"),
        ["test_lock_wait_seconds_count{mode=\"fair\"} 1"]
    );
}
