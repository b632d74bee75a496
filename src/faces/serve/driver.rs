//! Accepts connections and drives them: limits, back-off and drain in one place for every listener.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::handover::{self, WaitingAnswer};
use super::listener::{Listener, Stream};
use super::llm::Llm;
use super::places::{ConnectionSlot, Entered, Origin, Places, STRANGERS};
use crate::identity::Peer;

const HEADERS_BYTES_MAX: u32 = 16 * 1024;
const STREAMS_MAX: u32 = 256;
const RESETS_MAX: usize = 32;
const BACKOFF_MIN: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Headers of one HTTP/1.1 request, and bytes that are read ahead.
const HEADERS_MAX: usize = 64;
const BUFFER_BYTES: usize = 64 * 1024;
/// Between two requests; headers that have begun must end sooner, the listener's stream sees to it.
const IDLE: Duration = Duration::from_secs(75);
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Where answers have no end. A browser closes one at each change of the page; if its client could still read, its place
/// would be free only after the next sign of life failed.
const FEEDS: [&str; 2] = ["/v1/live", "/console/live/events"];

/// Bounds of one listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections with a known credential at the same time: see [`Places`].
    pub(crate) connections: usize,
    /// Connections at the same time that did not.
    pub(crate) unknown: usize,
    /// How long connections may take to end after shutdown.
    pub(crate) drain: Duration,
}

impl Limits {
    /// So many connections that showed a credential, and the usual pool of strangers.
    pub(crate) const fn of(connections: usize, drain: Duration) -> Self {
        Self { connections, unknown: STRANGERS, drain }
    }
}

/// Accepts until `shutdown`, gives each connection to `serve`, then waits for them to end.
///
/// A newcomer gets a place, if need be that of another stranger ([`Places`]). A failing `accept`
/// (no descriptors left) is tried again with growing pauses; it never ends the listener.
pub(crate) async fn run<S, F>(
    listener: Listener,
    limits: Limits,
    shutdown: CancellationToken,
    serve: S,
) where
    S: Fn(Stream, Peer, CancellationToken) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    tracing::info!(place = listener.place(), "listening");
    let places = Places::new(limits.connections, limits.unknown);
    let mut open = JoinSet::new();
    let mut backoff = BACKOFF_MIN;
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = open.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer, origin)) => {
                backoff = BACKOFF_MIN;
                let Some(slot) = placed(&places, origin, &shutdown).await else { break };
                let served = serve(stream.placed(slot.clone()), peer, shutdown.clone());
                open.spawn(async move {
                    tokio::select! {
                        biased;
                        () = served => {}
                        () = slot.over() => tracing::debug!("closed a connection that showed no credential"),
                    }
                });
            }
            Err(error) if of_one_connection(&error) => {
                tracing::debug!(%error, "a connection ended before its first request");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections; trying again");
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => break,
                    () = tokio::time::sleep(backoff) => {}
                }
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
    }
    drop(listener);
    let ended = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, ended).await.is_err() {
        tracing::warn!(connections = open.len(), "closing connections that did not end in time");
    }
    open.shutdown().await;
}

/// Waits for a place for a newcomer; `None` after `shutdown`.
async fn placed(
    places: &Arc<Places>,
    origin: Origin,
    shutdown: &CancellationToken,
) -> Option<ConnectionSlot> {
    loop {
        let until = match places.enter(origin) {
            Entered::Placed(slot) => return Some(slot),
            Entered::Full(until) => until,
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

/// Answers a request in the name of its connection.
async fn answered<F: Future>(slot: Option<ConnectionSlot>, answer: F) -> F::Output {
    match slot {
        Some(slot) => slot.serve(answer).await,
        None => answer.await,
    }
}

fn of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as K;
    [
        K::ConnectionAborted,
        K::ConnectionReset,
        K::ConnectionRefused,
        K::Interrupted,
        K::NotConnected,
    ]
    .contains(&error.kind())
}

/// Drives one connection of either protocol to its end: the client's first bytes say which.
///
/// A half-closed connection is still in use: the client may have sent its whole request and wait
/// for the answer. Only who asks a model or follows a feed, and ends its side, has left: a model must
/// not go on for no reader, and a feed has no end to wait for. A client that reads nothing of an
/// answer loses its connection.
pub(crate) async fn either<S, B>(stream: Stream, service: S, closing: CancellationToken)
where
    S: hyper::service::Service<
            http::Request<Incoming>,
            Response = http::Response<B>,
            Error = Infallible,
        > + Send,
    S::Future: Send + 'static,
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let waiting = Arc::<WaitingAnswer>::default();
    let (of_connection, slot) = (Arc::clone(&waiting), stream.slot());
    let half_close = stream.half_close();
    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
        let is_http2 = request.version() == http::Version::HTTP_2;
        let path = request.uri().path();
        let stays = !is_http2 && !Llm::claims(path) && !FEEDS.contains(&path);
        let half_close = stays.then(|| half_close.allow());
        let (answer, waiting) = (service.call(request), Arc::clone(&of_connection));
        let answer = answered(slot.clone(), answer);
        async move {
            let answer = answer.await?;
            Ok::<_, Infallible>(handover::handed(answer, is_http2.then_some(&waiting), half_close))
        }
    });
    tokio::select! {
        biased;
        () = to_its_end(builder.serve_connection(TokioIo::new(stream.http()), service), closing) => {}
        () = waiting.stalled() => tracing::debug!("closed a connection: the client stopped reading the answer"),
    }
}

/// Drives one HTTP/1.1 connection to its end.
pub(crate) async fn http1<S, B>(stream: Stream, service: S, closing: CancellationToken)
where
    S: hyper::service::Service<
            http::Request<Incoming>,
            Response = http::Response<B>,
            Error = Infallible,
        >,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let slot = stream.slot();
    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
        answered(slot.clone(), service.call(request))
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_headers(HEADERS_MAX);
    to_its_end(builder.serve_connection(TokioIo::new(stream.http()), service), closing).await;
}

/// Lets a connection end; once `closing`, it finishes the current request and takes no other.
async fn to_its_end<C>(connection: C, closing: CancellationToken)
where
    C: GracefulConnection,
    C::Error: std::fmt::Display,
{
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;
    use tokio::sync::{Notify, mpsc};

    use super::*;
    use crate::operator::api::{Route as _, route};
    use crate::serve::listener;

    #[test]
    fn the_feeds_are_a_route_and_a_page() {
        assert_eq!(route::Live::ROW.path, FEEDS[0]);
        #[cfg(feature = "console")]
        assert!(crate::serve::console::PAGES.iter().any(|page| page.path == FEEDS[1]));
    }

    /// Reports when it is dropped.
    struct Dropped(mpsc::Sender<()>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.try_send(());
        }
    }

    /// Answers each request with so many bytes once `answer` is notified.
    async fn serving(bytes: usize, answer: Arc<Notify>) -> (tempfile::TempDir, mpsc::Receiver<()>) {
        let folder = tempfile::tempdir().unwrap();
        let socket = listener::socket(&folder.path().join("s")).await.unwrap();
        let (sender, receiver) = mpsc::channel(8);
        let limits = Limits::of(8, Duration::ZERO);
        tokio::spawn(run(socket, limits, CancellationToken::new(), move |io, _, closing| {
            let (answer, sender) = (Arc::clone(&answer), sender.clone());
            let service = move |_: http::Request<Incoming>| {
                let (answer, dropped) = (Arc::clone(&answer), Dropped(sender.clone()));
                async move {
                    let _dropped = dropped;
                    answer.notified().await;
                    let body = Full::new(Bytes::from(vec![b'x'; bytes]));
                    Ok::<_, Infallible>(http::Response::new(body))
                }
            };
            either(io, hyper::service::service_fn(service), closing)
        }));
        (folder, receiver)
    }

    async fn asked(folder: &tempfile::TempDir, path: &str) -> UnixStream {
        let mut client = UnixStream::connect(folder.path().join("s")).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }

    #[tokio::test]
    async fn a_client_that_ends_its_side_has_left_a_model_or_a_feed_and_else_gets_its_answer() {
        let bytes = 4 << 20;
        let answer = Arc::new(Notify::new());
        let (folder, mut dropped) = serving(bytes, Arc::clone(&answer)).await;
        for path in ["/v1/messages", "/r/a/v1/responses"].into_iter().chain(FEEDS) {
            let mut client = asked(&folder, path).await;
            client.shutdown().await.unwrap();
            dropped.recv().await.unwrap();
            let mut left = Vec::new();
            client.read_to_end(&mut left).await.unwrap();
            assert!(left.is_empty(), "{path}");
        }
        for path in ["/mcp", "/gate/v1/run", "/v10"] {
            let mut client = asked(&folder, path).await;
            client.shutdown().await.unwrap();
            answer.notify_one();
            let mut whole = Vec::new();
            client.read_to_end(&mut whole).await.unwrap();
            assert!(whole.len() > bytes, "{path}: {}", whole.len());
            dropped.recv().await.unwrap();
        }
    }
}
