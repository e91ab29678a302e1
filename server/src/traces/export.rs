//! The task that sends spans, many together.

use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, StatusCode, Url};
use tokio::sync::{mpsc, oneshot};

use super::config::Config;
use super::signals::Dropped;
use super::{Pending, Timed, drop_spans, encode};

/// The longest answer that is read of a collector: a few lines are usual.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

pub(super) struct Exporter {
    client: Client,
    url: Url,
    resource: Vec<(String, String)>,
    delay: Duration,
    batch: usize,
}

/// Spans that the collector did not take, and why.
struct Loss {
    spans: u64,
    cause: Dropped,
    error: String,
}

impl Exporter {
    /// # Errors
    /// Those of the HTTP client.
    pub(super) fn new(config: Config) -> reqwest::Result<Self> {
        let mut headers = config.headers;
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        // Proxies are for what is far; redirects would take the headers along.
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(config.timeout)
            .default_headers(headers);
        Ok(Self {
            client: client.build()?,
            url: config.url,
            resource: config.resource,
            delay: config.delay,
            batch: config.batch,
        })
    }

    /// Sends what comes of `spans` until it is told to close, and then what is left.
    pub(super) async fn run(
        self,
        mut spans: mpsc::Receiver<Timed>,
        mut closing: oneshot::Receiver<()>,
        pending: Arc<Pending>,
    ) {
        let mut is_closing = false;
        while !is_closing {
            let mut batch = Vec::with_capacity(self.batch);
            let mut delay = std::pin::pin!(tokio::time::sleep(self.delay));
            while batch.len() < self.batch && !is_closing {
                let room = self.batch - batch.len();
                tokio::select! {
                    biased;
                    _ = &mut closing => is_closing = true,
                    () = &mut delay => break,
                    _ = spans.recv_many(&mut batch, room) => {}
                }
            }
            pending.tell_overflown();
            let sent = self.export(batch, &pending).await;
            if is_closing && sent {
                self.finish(&mut spans, &pending).await;
            }
        }
    }

    /// Sends what is left, as long as it is taken.
    async fn finish(&self, spans: &mut mpsc::Receiver<Timed>, pending: &Pending) {
        spans.close();
        loop {
            let mut batch = Vec::with_capacity(self.batch);
            let count = spans.recv_many(&mut batch, self.batch).await;
            if count == 0 || !self.export(batch, pending).await {
                return;
            }
        }
    }

    /// Sends `batch`, and says whether the collector is there.
    async fn export(&self, batch: Vec<Timed>, pending: &Pending) -> bool {
        let count = batch.len() as u64;
        if count == 0 {
            return true;
        }
        let sent = self.send(batch).await;
        pending.settle(count);
        match sent {
            Ok(None) => true,
            Ok(Some(refused)) => {
                let refused_spans = refused.spans.min(count);
                drop_spans(refused_spans, refused.cause, &refused.error);
                true
            }
            Err(error) => {
                let error = Detail::error(&error).to_string();
                drop_spans(count, Dropped::Failed, &error);
                false
            }
        }
    }

    /// Sends `batch`; what the collector refused of it.
    async fn send(&self, batch: Vec<Timed>) -> reqwest::Result<Option<Loss>> {
        let count = batch.len() as u64;
        let body = encode::request(&self.resource, batch).encode_to_vec();
        let request = self.client.post(self.url.clone()).body(body);
        let mut response = request.send().await?;
        let status = response.status();
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if answer.len() + chunk.len() > MAX_ANSWER_BYTES {
                break;
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(judged(status, &answer, count))
    }
}

/// What a collector refused of `count` spans.
fn judged(status: StatusCode, answer: &[u8], count: u64) -> Option<Loss> {
    if status.is_success() {
        let answer = ExportTraceServiceResponse::decode(answer).ok()?;
        let partly = answer.partial_success?;
        let spans = u64::try_from(partly.rejected_spans).ok()?;
        return (spans > 0).then_some(Loss {
            spans,
            cause: Dropped::Refused,
            error: partly.error_message,
        });
    }
    let passes = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    Some(Loss {
        spans: count,
        cause: if passes {
            Dropped::Failed
        } else {
            Dropped::Refused
        },
        error: format!("the collector answers {status}"),
    })
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn an_answer_says_what_was_not_taken_and_why() {
        let judged =
            |status, answer: &[u8]| judged(status, answer, 7).map(|loss| (loss.spans, loss.cause));
        let partly = |rejected_spans| {
            let partial_success = ExportTracePartialSuccess {
                rejected_spans,
                error_message: "too old".to_owned(),
            };
            let answer = ExportTraceServiceResponse {
                partial_success: Some(partial_success),
            };
            answer.encode_to_vec()
        };

        assert_eq!(judged(StatusCode::OK, &[]), None);
        assert_eq!(judged(StatusCode::OK, b"no protobuf"), None);
        assert_eq!(judged(StatusCode::OK, &partly(0)), None);
        assert_eq!(
            judged(StatusCode::OK, &partly(3)),
            Some((3, Dropped::Refused))
        );
        let refused = judged(StatusCode::BAD_REQUEST, &[]);
        assert_eq!(refused, Some((7, Dropped::Refused)));
        for passing in [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ] {
            assert_eq!(
                judged(passing, &[]),
                Some((7, Dropped::Failed)),
                "{passing}"
            );
        }
    }
}
