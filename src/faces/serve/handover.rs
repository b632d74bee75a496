//! Answers on their way to a client: a place is free again when the client has taken its answer,
//! and a client that takes nothing loses its connection.
//!
//! Over HTTP/1.1 the connection shows whether a client reads (`listener`). Over HTTP/2 it may read
//! the connection, answer pings, and still give an answer no window (RFC 9113, 5.2): that answer
//! waits in memory, and nothing on the connection shows it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, MissedTickBehavior};

use super::listener::{HalfCloseGuard, STALLS_MAX};

/// Bytes of an answer that are handed over at a time: a client that reads slowly keeps its
/// connection. A frame is larger only at the client's request (RFC 9113, 4.2).
const PIECE_BYTES: usize = 16 * 1024;

/// Bytes of the last piece of a longer answer. The client may not have taken this piece when the
/// slot is free, since the connection asks for no piece after it; so it is a small one.
const LAST_BYTES: usize = 1024;

/// A request's place among the answers in memory. It is kept until the answer is taken, which
/// limits those answers.
#[derive(Clone, Debug)]
pub(super) struct AnswerSlot {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl AnswerSlot {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: Arc::new(permit) }
    }

    /// Keeps the place for as long as there is something of this answer.
    pub(super) fn keep<B>(self, answer: &mut http::Response<B>) {
        answer.extensions_mut().insert(self);
    }
}

/// The answers of one connection with unread pieces, with the time since when.
#[derive(Debug, Default)]
pub(super) struct WaitingAnswer(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    since: BTreeMap<u64, Instant>,
    answers: u64,
}

impl WaitingAnswer {
    /// Returns when the client has taken nothing of an answer for too long: half as long again at
    /// most.
    pub(super) async fn stalled(&self) {
        let mut ticks = tokio::time::interval(STALLS_MAX / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            let is_over = |since: &Instant| now.saturating_duration_since(*since) >= STALLS_MAX;
            if self.0.lock().since.values().any(is_over) {
                return;
            }
        }
    }

    fn begin(self: &Arc<Self>) -> Watched {
        let mut state = self.0.lock();
        state.answers += 1;
        Watched { waiting: Arc::clone(self), answer: state.answers }
    }
}

/// One such answer.
#[derive(Debug)]
struct Watched {
    waiting: Arc<WaitingAnswer>,
    answer: u64,
}

impl Watched {
    fn waits(&self) {
        self.waiting.0.lock().since.insert(self.answer, Instant::now());
    }

    fn taken(&self) {
        self.waiting.0.lock().since.remove(&self.answer);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.taken();
    }
}

/// An answer as it is handed over: piece by piece where the wire does not show whether it is taken.
pub(super) struct PiecewiseAnswer<B> {
    inner: B,
    /// The rest of a frame.
    rest: Bytes,
    begun: bool,
    watched: Option<Watched>,
    _place: Option<AnswerSlot>,
    _half_close: Option<HalfCloseGuard>,
}

/// The answer on its way; `waiting` is its connection's, if that is one of HTTP/2. With
/// `half_close` the client may end its side of the connection until it has the answer.
pub(super) fn handed<B>(
    mut answer: http::Response<B>,
    waiting: Option<&Arc<WaitingAnswer>>,
    half_close: Option<HalfCloseGuard>,
) -> http::Response<PiecewiseAnswer<B>> {
    let slot = answer.extensions_mut().remove();
    let watched = waiting.map(WaitingAnswer::begin);
    answer.map(|inner| PiecewiseAnswer {
        inner,
        rest: Bytes::new(),
        begun: false,
        watched,
        _place: slot,
        _half_close: half_close,
    })
}

impl<B> PiecewiseAnswer<B> {
    /// The next piece of the frame at hand.
    fn piece(&mut self) -> Bytes {
        let before_last = self.rest.len().saturating_sub(LAST_BYTES);
        let bytes = if before_last == 0 { self.rest.len() } else { before_last.min(PIECE_BYTES) };
        self.rest.split_to(bytes)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for PiecewiseAnswer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let Some(watched) = &this.watched else { return Pin::new(&mut this.inner).poll_frame(cx) };
        // Polling for more shows that the client has taken the piece before.
        watched.taken();
        if this.rest.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(cx)?) else {
                return Poll::Ready(None);
            };
            this.begun = true;
            match frame.into_data() {
                Ok(data) => this.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        watched.waits();
        Poll::Ready(Some(Ok(Frame::data(this.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        // WHY: the connection asks for nothing after the end, and would not show whether the last
        // piece was taken.
        let known = self.watched.is_none() || !self.begun;
        known && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), u64::try_from(self.rest.len()).unwrap_or(0));
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(inner.lower().saturating_add(rest));
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http_body_util::{BodyExt as _, Full, StreamBody};
    use hyper::body::Incoming;
    use hyper::client::conn::http2::{Builder, SendRequest};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::net::UnixStream;
    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;
    use tokio_util::sync::CancellationToken;
    use tonic::body::Body as Any;

    use super::*;
    use crate::serve::{driver, listener};

    /// A server whose every answer is `made` and has a place.
    struct TestServer {
        folder: tempfile::TempDir,
        permits: Arc<Semaphore>,
        shutdown: CancellationToken,
    }

    impl TestServer {
        async fn answering<F>(made: F) -> Self
        where
            F: Fn() -> Any + Clone + Send + Sync + 'static,
        {
            let folder = tempfile::tempdir().unwrap();
            let socket = listener::socket(&folder.path().join("s")).await.unwrap();
            let (permits, shutdown) = (Arc::new(Semaphore::new(8)), CancellationToken::new());
            let limits = driver::Limits::of(8, Duration::ZERO);
            let places = Arc::clone(&permits);
            tokio::spawn(driver::run(socket, limits, shutdown.clone(), move |io, _, closing| {
                let (made, places) = (made.clone(), Arc::clone(&places));
                let answer = move |_: http::Request<Incoming>| {
                    let permit = Arc::clone(&places).try_acquire_owned().unwrap();
                    let mut answer = http::Response::new(made());
                    AnswerSlot::new(permit).keep(&mut answer);
                    async move {
                        // Strangers have only seconds; these clients are agents.
                        crate::serve::places::proved();
                        Ok::<_, Infallible>(answer)
                    }
                };
                driver::either(io, hyper::service::service_fn(answer), closing)
            }));
            Self { folder, permits, shutdown }
        }

        /// A client whose initial window for each answer has so many bytes.
        async fn client(&self, window: u32) -> (SendRequest<Full<Bytes>>, JoinHandle<()>) {
            let stream = UnixStream::connect(self.folder.path().join("s")).await.unwrap();
            let (client, connection) = Builder::new(TokioExecutor::new())
                .initial_stream_window_size(window)
                .handshake(TokioIo::new(stream))
                .await
                .unwrap();
            (client, tokio::spawn(async move { drop(connection.await) }))
        }
    }

    impl Drop for TestServer {
        fn drop(&mut self) {
            self.shutdown.cancel();
        }
    }

    async fn ask(client: &mut SendRequest<Full<Bytes>>) -> http::Response<Incoming> {
        let request = http::Request::get("http://gate/").body(Full::default()).unwrap();
        client.send_request(request).await.unwrap()
    }

    fn full(bytes: usize) -> Any {
        Any::new(Full::new(Bytes::from(vec![7; bytes])))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_opens_no_window_is_hung_up_on_and_its_places_are_free_again() {
        for (window, bytes) in [(0, 1), (0, 100_000), (1, 2 * LAST_BYTES), (65_535, 100_000)] {
            let server = TestServer::answering(move || full(bytes)).await;
            let (mut client, connection) = server.client(window).await;
            let pending = [ask(&mut client).await, ask(&mut client).await];
            assert_eq!(server.permits.available_permits(), 6, "{window} {bytes}");
            tokio::time::timeout(STALLS_MAX * 2, connection).await.unwrap().unwrap();
            drop(server.permits.acquire_many(8).await.unwrap());
            for answer in pending {
                assert!(answer.into_body().collect().await.is_err(), "{window} {bytes}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_all_of_it() {
        let bytes = 20 * PIECE_BYTES;
        let server = TestServer::answering(move || full(bytes)).await;
        let (mut client, _connection) = server.client(16_384).await;
        let mut body = ask(&mut client).await.into_body();
        let mut taken = 0;
        while let Some(frame) = body.frame().await {
            taken += frame.unwrap().into_data().unwrap().len();
            tokio::time::sleep(STALLS_MAX / 2).await;
        }
        assert_eq!(taken, bytes);
        drop(server.permits.acquire_many(8).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_its_time_is_waited_for() {
        let server = TestServer::answering(|| {
            let late = futures_util::stream::once(async {
                tokio::time::sleep(STALLS_MAX * 10).await;
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"late")))
            });
            Any::new(StreamBody::new(late))
        })
        .await;
        let (mut client, _connection) = server.client(65_535).await;
        let answer = ask(&mut client).await.into_body().collect().await.unwrap();
        assert_eq!(answer.to_bytes(), "late");
    }

    #[tokio::test]
    async fn a_text_is_handed_over_whole_in_pieces_of_which_the_last_is_small() {
        for bytes in [0, 1, LAST_BYTES, LAST_BYTES + 1, PIECE_BYTES + LAST_BYTES, 50_000] {
            let text: Vec<u8> = (0..bytes).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let answer = http::Response::new(Full::new(Bytes::from(text.clone())));
            let mut body = handed(answer, Some(&Arc::default()), None).into_body();
            let (mut pieces, mut whole) = (Vec::new(), Vec::new());
            assert_eq!(body.size_hint().exact(), Some(u64::try_from(bytes).unwrap()));
            while let Some(frame) = body.frame().await {
                let data = frame.unwrap().into_data().unwrap();
                pieces.push(data.len());
                whole.extend_from_slice(&data);
            }
            assert_eq!(whole, text);
            assert!(pieces.iter().all(|piece| *piece <= PIECE_BYTES), "{pieces:?}");
            assert!(pieces.last().is_none_or(|last| *last <= LAST_BYTES), "{pieces:?}");
        }
    }
}
