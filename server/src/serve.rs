//! The HTTP server of a node.

use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response_with_state;
use axum::response::Response;
use coord_core::{Error, Result};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::beside::Beside;
use crate::{Node, router};

/// How long a connection may take for the head of a request, and how long it may stay without one:
/// longer than proxies keep idle connections (nginx: 60 s), so that it is they who close them, and no
/// request meets a closing connection.
const HEAD: Duration = Duration::from_secs(75);
/// So many bytes without the end of a head are refused: as much as other servers take. One that comes
/// with its end in the same read is taken up to twice that.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 100;
/// How long it is before connections are accepted again after that failed, as it does without free
/// file descriptors.
const BREATH: Duration = Duration::from_millis(100);

/// The part of the time to end in which connections without a request are left to their clients: of
/// the usual 25 s five, and longer than the nginx of deploy/ keeps one that it does not use.
const IDLE_SHARE: u32 = 5;

/// What each step of the end gets at least, when those before it have used the time up: with the usual
/// 25 s all is over when orchestrators lose their patience, after 30 s.
const LEAST: Duration = Duration::from_secs(1);

/// Serves `node` on `listener` until `end` is ready, or what runs beside it fails. Then the node ends,
/// in this order, in about the time of `drain`:
///
/// 1. It says that it is not ready, and accepts no more connections.
/// 2. What arrives on those that there are is answered, for at most `drain`.
/// 3. What runs [beside](crate::NodeBuilder::beside) it ends: consumers finish their batch, workers
///    what they have, or give it back.
/// 4. The engine gives up its roles, and others know that it has ended.
/// 5. Socket.IO clients are sent elsewhere.
/// 6. Leases and locks whose release was under way are released, and connections to Redis closed.
///
/// Its answers say from the first step on that the connection closes. A connection on which nothing
/// arrives is closed after a fifth of `drain`: proxies keep connections for their next request, which
/// is lost when it meets one that closes, and may not be repeated.
///
/// # Errors
/// `Timeout` when requests or work beside were still under way after `drain`: their connections are
/// closed, and what they held ends by its TTL. Otherwise those of what failed first; every step is
/// taken all the same.
///
/// # Cancel safety
/// Dropped, all connections are closed, and what it had ends by its TTL.
pub async fn serve(
    node: &Node,
    listener: TcpListener,
    end: impl Future<Output = ()>,
    drain: Duration,
) -> Result<()> {
    let router = router(node).layer(map_response_with_state(node.clone(), farewell));
    let service = TowerToHyperService::new(router);
    let http = http();
    let (ending, told) = watch::channel(false);
    let mut connections = JoinSet::new();
    let begin = |stream: TcpStream, connections: &mut JoinSet<()>| {
        // Answers are small and waited for.
        _ = stream.set_nodelay(true);
        let connection = http.serve_connection(TokioIo::new(stream), service.clone());
        let connection = connection.with_upgrades();
        let mut told = told.clone();
        // A connection that breaks is the business of its client, which knows.
        connections.spawn(async move {
            let mut connection = pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = told.wait_for(|is_ending| *is_ending) => {}
            }
            tokio::select! {
                _ = connection.as_mut() => return,
                () = tokio::time::sleep(drain / IDLE_SHARE) => {}
            }
            connection.as_mut().graceful_shutdown();
            _ = connection.await;
        });
    };

    let mut beside = Beside::begin(node.take_beside());
    tokio::pin!(end);
    let served = loop {
        tokio::select! {
            () = &mut end => break Ok(()),
            error = beside.fails() => break Err(error),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => begin(stream, &mut connections),
                Err(error) if is_of_the_connection(&error) => {}
                Err(_) => tokio::time::sleep(BREATH).await,
            }
        }
    };

    let by = Instant::now() + drain;
    node.drain();
    drop(listener);
    ending.send_replace(true);
    let finish = async { while connections.join_next().await.is_some() {} };
    let finished = tokio::time::timeout_at(by, finish).await.map_err(|_| {
        Error::timeout(format!(
            "ending: requests were still under way after {drain:?}"
        ))
    });
    drop(connections);
    let rest = end_of(node, beside, by).await;
    served.and(finished).and(rest)
}

/// Ends what `node` has, once nobody asks it for anything any more.
async fn end_of(node: &Node, beside: Beside, by: Instant) -> Result<()> {
    let left = || by.saturating_duration_since(Instant::now()).max(LEAST);
    let ended = beside.end(left()).await;
    let late = |_| Error::timeout("ending: the database did not answer");
    let leaving = node.engine().clone().shutdown();
    let gone = tokio::time::timeout(left(), leaving).await.map_err(late);
    #[cfg(feature = "realtime")]
    if let Some(realtime) = node.realtime() {
        realtime.end(left()).await;
    }
    let closed = match node.redis() {
        Some(redis) => redis.shutdown(left()).await,
        None => Ok(()),
    };
    ended.and(gone.and_then(|gone| gone)).and(closed)
}

/// Tells the client of a node that ends to take another connection for its next request.
async fn farewell(State(node): State<Node>, mut response: Response) -> Response {
    // One that changes protocols is no HTTP any more.
    if node.is_draining() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// How connections are served.
fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    http
}

/// Whether it is the connection that failed, and not the listener.
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::fmt::Write as _;

    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::time::Instant;

    use super::*;

    /// Serves a connection with words for every request, until it ends.
    async fn served(connection: DuplexStream) -> hyper::Result<()> {
        let words =
            |_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new("words".to_owned())) };
        let connection = TokioIo::new(connection);
        http().serve_connection(connection, service_fn(words)).await
    }

    /// The status line of the answer to a request with this head, but for its last lines.
    async fn answered(head: &str) -> String {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let request = format!("GET / HTTP/1.1\r\n{head}connection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        let (_, read) = tokio::join!(served(server), client.read_to_string(&mut answer));
        read.expect("an answer");
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn a_head_has_so_many_headers_and_no_more() {
        let headers = |count| {
            (0..count).fold(String::new(), |mut head, number| {
                _ = write!(head, "x-{number}: 1\r\n");
                head
            })
        };

        // With that which closes the connection.
        let most = answered(&headers(MAX_HEADERS - 1)).await;
        let more = answered(&headers(MAX_HEADERS)).await;

        assert!(most.starts_with("HTTP/1.1 200"), "{most}");
        assert!(more.starts_with("HTTP/1.1 431"), "{more}");
    }

    #[tokio::test]
    async fn a_head_is_so_large_and_no_larger() {
        let header = |bytes| format!("x: {}\r\n", "x".repeat(bytes));

        let large = answered(&header(MAX_HEAD_BYTES - 1024)).await;
        let too_large = answered(&header(2 * MAX_HEAD_BYTES)).await;

        assert!(large.starts_with("HTTP/1.1 200"), "{large}");
        assert!(too_large.starts_with("HTTP/1.1 431"), "{too_large}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_no_whole_head_is_waited_for_and_then_no_longer() {
        for begun in ["", "GET / HTTP/1.1\r\nhost: "] {
            let (mut client, server) = tokio::io::duplex(1024);
            client.write_all(begun.as_bytes()).await.expect("sent");
            let began = Instant::now();

            let ended = served(server).await;

            assert!(ended.expect_err("it is closed").is_timeout(), "{begun}");
            let waited = began.elapsed();
            assert!(HEAD <= waited && waited < HEAD * 2, "{begun}: {waited:?}");
        }
    }
}
