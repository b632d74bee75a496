//! The answer of a model on its way to the client.
//!
//! What the client is sent of it is a `Piece` or a `Last` of the road, as it came. An answer that
//! breaks off ends with an event that says so: to many clients a stream that just ends is a whole
//! answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tonic::body::Body;

use super::{frames, reply};
use crate::catalog::llm::framing::StreamFraming;
use crate::domain::code::Code;
use crate::domain::dialect::Dialect;
use crate::enforce::{FlowPart, Flowing, ModelReply, Released};
use crate::ledger::flow::FlowHead;
use crate::ledger::permit::Receipt;
use crate::serve::dialect::{BegunResponse, spoken};
use crate::serve::problem::{Problem, receipt_line};
use reply::LlmResponse;

/// How long a client of a stream waits for its status. Until then an error has a status of its own;
/// after that, clients and load balancers would give up.
const FIRST_BYTE_WAIT: Duration = Duration::from_secs(10);

/// Between two signs of life. Only writing to a stream shows whether the client is still there.
const BEAT: Duration = Duration::from_secs(1);

/// The road's answer to one request.
pub(super) type Asking = Pin<Box<dyn Future<Output = Result<StreamReply, Problem>> + Send>>;

/// What comes of an answer, in order.
pub(super) type StreamParts = Pin<Box<dyn Stream<Item = StreamPart> + Send>>;

/// How an answer reaches the client.
pub(super) enum StreamReply {
    /// In one piece, with headers of the provider.
    Whole(Box<Released>, HeaderMap),
    /// As it comes.
    Begun(StreamHead, StreamParts),
}

/// The beginning of an answer.
pub(super) struct StreamHead {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The receipt of the entry that allows the call.
    pub receipt: String,
}

/// One part of an answer.
pub(super) enum StreamPart {
    /// Bytes of it.
    Bytes(Bytes),
    /// Its end, and the receipt of the outcome.
    End(Bytes, Option<Receipt>),
    /// It has none.
    Broken(Box<Problem>),
}

/// What the answer of one request needs besides the road.
pub(super) struct AnswerForm {
    pub dialect: Dialect,
    pub framing: StreamFraming,
    /// Its place among the streams, if the client asks for one.
    pub place: Option<OwnedSemaphorePermit>,
}

impl From<ModelReply> for StreamReply {
    fn from(reply: ModelReply) -> Self {
        match reply {
            ModelReply::Whole(released, headers) => {
                Self::Whole(Box::new(released), header_map(&headers))
            }
            ModelReply::Begun(flowing) => {
                Self::Begun(StreamHead::of(&flowing.head), parts(flowing))
            }
        }
    }
}

impl StreamHead {
    /// The head of an answer of the gate's own loop, which has a receipt for each of its calls.
    pub(super) fn of_the_gate() -> Self {
        Self { status: StatusCode::OK, headers: HeaderMap::new(), receipt: String::new() }
    }

    fn of(head: &FlowHead) -> Self {
        Self {
            status: StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY),
            headers: header_map(&head.headers),
            receipt: receipt_line(&head.receipt),
        }
    }
}

/// Headers of a provider; those that are none are left out.
fn header_map(headers: &[(String, String)]) -> HeaderMap {
    let header = |(name, value): &(String, String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    };
    headers.iter().filter_map(header).collect()
}

/// The parts of a flow. Dropping them drops the flow, and stops its call.
fn parts(flowing: Flowing) -> StreamParts {
    Box::pin(stream::unfold(Some(flowing), |flowing| async move {
        let mut flowing = flowing?;
        Some(match flowing.next().await {
            FlowPart::Piece(piece) => (StreamPart::Bytes(piece.into_bytes()), Some(flowing)),
            FlowPart::Last(last) => {
                let receipt = last.receipt().clone();
                (StreamPart::End(last.into_bytes(), Some(receipt)), None)
            }
            FlowPart::Broken(fault) => (StreamPart::Broken(Box::new(Problem::from(*fault))), None),
        })
    }))
}

/// Answers one request: with the status that the road gives, or, for a client that asks for a
/// stream, with 200 and signs of life if that takes too long.
pub(super) async fn answered(mut asking: Asking, form: AnswerForm) -> Result<LlmResponse, Problem> {
    let framing = form.framing;
    let reply = if form.place.is_some() {
        match tokio::time::timeout(FIRST_BYTE_WAIT, &mut asking).await {
            Ok(reply) => reply?,
            Err(_elapsed) => {
                let body = AnswerStream::of(NextPart::Asking(asking), form);
                return Ok(reply::events(framing, body.into_body()));
            }
        }
    } else {
        asking.await?
    };
    Ok(match reply {
        StreamReply::Whole(released, headers) => reply::whole(*released, &headers),
        StreamReply::Begun(head, parts) => {
            let body = AnswerStream::of(NextPart::Coming(parts), form);
            reply::begun(&head, framing, body.into_body())
        }
    })
}

/// What comes next in a stream.
enum NextPart {
    /// The road's answer.
    Asking(Asking),
    /// Parts of it.
    Coming(StreamParts),
    /// Nothing.
    Over,
}

/// What came.
enum Arrival {
    Reply(Result<StreamReply, Problem>),
    Part(Option<StreamPart>),
    Nothing,
}

/// One answer as the client takes it.
struct AnswerStream {
    next: NextPart,
    form: AnswerForm,
    /// Signs of life since the last part.
    beats: u32,
    /// The id of the response, in that dialect, once it was sent.
    response: Option<String>,
    /// The newest events.
    newest: Bytes,
    /// Whether anything of the answer was sent.
    has_begun: bool,
}

impl AnswerStream {
    const fn of(next: NextPart, form: AnswerForm) -> Self {
        Self { next, form, beats: 0, response: None, newest: Bytes::new(), has_begun: false }
    }

    fn into_body(self) -> Body {
        Body::new(StreamBody::new(stream::unfold(self, |mut answer| async move {
            let piece = answer.piece().await?;
            Some((Ok::<_, Infallible>(Frame::data(piece)), answer))
        })))
    }

    /// The next bytes for the client.
    async fn piece(&mut self) -> Option<Bytes> {
        loop {
            let arrival = match &mut self.next {
                NextPart::Asking(asking) => tokio::select! {
                    biased;
                    reply = asking => Arrival::Reply(reply),
                    () = tokio::time::sleep(BEAT) => Arrival::Nothing,
                },
                NextPart::Coming(parts) => tokio::select! {
                    biased;
                    part = parts.next() => Arrival::Part(part),
                    () = tokio::time::sleep(BEAT) => Arrival::Nothing,
                },
                NextPart::Over => return None,
            };
            if let Some(bytes) = self.taken(arrival) {
                return Some(bytes);
            }
        }
    }

    /// The bytes of what came, if it has any.
    fn taken(&mut self, arrival: Arrival) -> Option<Bytes> {
        match arrival {
            Arrival::Nothing => {
                self.beats = self.beats.saturating_add(1);
                Some(frames::beat(self.form.dialect, self.beats))
            }
            Arrival::Reply(Ok(StreamReply::Begun(head, parts))) => {
                self.beats = 0;
                self.next = NextPart::Coming(parts);
                let receipt = frames::authorized(self.form.dialect, &head.receipt);
                Some(receipt).filter(|receipt| !receipt.is_empty())
            }
            Arrival::Reply(Ok(StreamReply::Whole(..))) => {
                let message = "the recorded answer is no stream";
                self.broken(&Problem::new(Code::CallResultUnavailable, "stream", message))
            }
            Arrival::Reply(Err(problem)) => self.broken(&problem),
            Arrival::Part(Some(StreamPart::Bytes(bytes))) => {
                self.beats = 0;
                self.remember(&bytes);
                Some(bytes).filter(|bytes| !bytes.is_empty())
            }
            Arrival::Part(Some(StreamPart::End(end, receipt))) => {
                self.next = NextPart::Over;
                let with = |receipt| frames::last(self.form.dialect, &receipt, &end);
                Some(receipt.map_or_else(|| end.clone(), with))
            }
            Arrival::Part(Some(StreamPart::Broken(problem))) => self.broken(&problem),
            Arrival::Part(None) => self.broken(&Problem::of(Code::CallUnknown, "unrecorded")),
        }
    }

    /// The event that says what is wrong. Then the body ends: clients that read the event raise its
    /// error, and some lose it to a cut.
    fn broken(&mut self, problem: &Problem) -> Option<Bytes> {
        self.next = NextPart::Over;
        let next_number = frames::next_number(&self.newest);
        let list = (self.form.framing == StreamFraming::List).then_some(self.has_begun);
        let begun = BegunResponse { id: self.response.take(), next_number, list };
        Some(frames::broken(problem, self.form.dialect, &begun))
    }

    /// Remembers the id of a response and its newest event: its clients know the answer by the one,
    /// and count the others to the end.
    fn remember(&mut self, bytes: &Bytes) {
        self.has_begun |= !bytes.is_empty();
        if bytes.is_empty() || !spoken(self.form.dialect).numbers_events() {
            return;
        }
        if self.response.is_none() {
            self.response = frames::response_id(bytes);
        }
        self.newest = bytes.clone();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::BodyExt as _;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::serve::{driver, listener};

    fn form(dialect: Dialect, streams: bool) -> AnswerForm {
        let place = || Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let framing = StreamFraming::Events;
        AnswerForm { dialect, framing, place: streams.then(place) }
    }

    fn head(status: u16) -> StreamHead {
        let status = StatusCode::from_u16(status).unwrap();
        let headers = [(HeaderName::from_static("x-request-id"), HeaderValue::from_static("r"))];
        StreamHead { status, headers: headers.into_iter().collect(), receipt: "seq=1".into() }
    }

    /// Parts that come so many seconds after one another.
    fn coming(parts: Vec<(u64, StreamPart)>) -> StreamParts {
        Box::pin(stream::iter(parts).then(|(wait, part)| async move {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            part
        }))
    }

    fn asking(wait: u64, reply: Result<StreamReply, Problem>) -> Asking {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            reply
        })
    }

    fn bytes(text: &'static str) -> StreamPart {
        StreamPart::Bytes(Bytes::from_static(text.as_bytes()))
    }

    fn end(text: &'static str) -> StreamPart {
        StreamPart::End(Bytes::from_static(text.as_bytes()), None)
    }

    fn denied() -> Problem {
        Problem::new(Code::PolicyDenied, "d", "denied by a test")
    }

    /// Everything that is sent, and whether it ends well.
    async fn taken(mut response: LlmResponse) -> (String, bool) {
        let mut text = String::new();
        loop {
            match response.body_mut().frame().await {
                None => return (text, true),
                Some(Err(_)) => return (text, false),
                Some(Ok(frame)) => {
                    text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_goes_out_as_it_comes_with_signs_of_life_in_its_silence() {
        let parts = coming(vec![(0, bytes("a\n\n")), (3, bytes("b\n\n")), (12, end("c\n\n"))]);
        let reply = Ok(StreamReply::Begun(head(200), parts));
        let response =
            answered(asking(9, reply), form(Dialect::Messages, true)).await.ok().unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-request-id"], "r");
        assert_eq!(response.headers()["wicketgate-receipt"], "seq=1");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
        let (comments, more) = (":\n\n".repeat(9), ":\n\n");
        let (text, whole) = taken(response).await;
        assert!(whole);
        // WHY two forms: a beat and a part may fall into the same instant.
        let forms = [2, 3].map(|n| format!("a\n\n{}b\n\n{comments}{ping}", ":\n\n".repeat(n)));
        assert!(forms.iter().any(|form| text.starts_with(form)), "{text}");
        assert!(text.ends_with(&format!("{more}c\n\n")), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_before_the_head_has_a_status_and_a_later_one_is_an_event() {
        for dialect in Dialect::ALL {
            let early = answered(asking(9, Err(denied())), form(*dialect, true)).await;
            assert_eq!(early.err().unwrap().code, Code::PolicyDenied);
            let late = answered(asking(12, Err(denied())), form(*dialect, true)).await;
            let late = late.ok().unwrap();
            assert_eq!(late.status(), 200);
            let (text, _) = taken(late).await;
            let beat = std::str::from_utf8(spoken(*dialect).beat()).unwrap();
            assert!(text.starts_with(beat) && text.contains("denied by a test"), "{text}");
            assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{text}");
            // Who asked for one text waits for its status, however long.
            let whole = answered(asking(100, Err(denied())), form(*dialect, false)).await;
            assert!(whole.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_whose_head_comes_late_says_where_its_permission_is_recorded() {
        let parts = coming(vec![(0, bytes("a\n\n")), (0, end("b\n\n"))]);
        let reply = Ok(StreamReply::Begun(head(200), parts));
        let response = answered(asking(11, reply), form(Dialect::Chat, true)).await.ok().unwrap();
        let (text, whole) = taken(response).await;
        assert!(whole && text.ends_with(": wicketgate-authorized seq=1\n\na\n\nb\n\n"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_breaks_off_or_just_stops_never_ends_well() {
        let broken = StreamPart::Broken(Box::new(denied()));
        for parts in [vec![(0, bytes("a\n\n")), (2, broken)], vec![(0, bytes("a\n\n"))]] {
            let reply = Ok(StreamReply::Begun(head(200), coming(parts)));
            let response = answered(asking(0, reply), form(Dialect::Messages, true)).await;
            let (text, _) = taken(response.ok().unwrap()).await;
            assert!(text.contains("event: error\ndata: {") && !text.contains("stop"), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_event_of_a_response_that_fails_continues_its_id_and_its_numbers() {
        let created = "data: {\"sequence_number\":6,\"response\":{\"id\":\"resp_7\"}}\n\n";
        let delta = "data: {\"sequence_number\":7,\"delta\":\"x\"}\n\n";
        let broken = StreamPart::Broken(Box::new(denied()));
        let parts = coming(vec![(0, bytes(created)), (0, bytes(delta)), (0, broken)]);
        let reply = Ok(StreamReply::Begun(head(200), parts));
        let response = answered(asking(0, reply), form(Dialect::Responses, true)).await;
        let (text, whole) = taken(response.ok().unwrap()).await;
        let failed = text.split_once("event: response.failed\ndata: ").unwrap().1.trim_end();
        let failed: serde_json::Value = serde_json::from_str(failed).unwrap();
        assert!(whole);
        assert_eq!(failed["sequence_number"], 8, "{text}");
        assert_eq!(failed["response"]["id"], "resp_7", "{text}");
    }

    /// A server on a socket whose every answer breaks off after one part.
    async fn breaking() -> (tempfile::TempDir, tokio::net::UnixStream) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let socket = listener::socket(&path).await.unwrap();
        let limits = driver::Limits::of(8, Duration::ZERO);
        let closing = tokio_util::sync::CancellationToken::new();
        tokio::spawn(driver::run(socket, limits, closing, |io, _, closing| {
            let answer = |_: http::Request<hyper::body::Incoming>| async {
                let broken = StreamPart::Broken(Box::new(denied()));
                let parts = coming(vec![(0, bytes("data: a\n\n")), (0, broken)]);
                let reply = Ok(StreamReply::Begun(head(200), parts));
                let response = answered(asking(0, reply), form(Dialect::Chat, true)).await;
                Ok::<_, Infallible>(response.ok().unwrap())
            };
            driver::either(io, hyper::service::service_fn(answer), closing)
        }));
        let client = tokio::net::UnixStream::connect(&path).await.unwrap();
        (folder, client)
    }

    #[tokio::test]
    async fn over_http_1_the_error_arrives_and_ends_the_body() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (_folder, mut client) = breaking().await;
        client
            .write_all(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            )
            .await
            .unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("transfer-encoding: chunked"), "{answer}");
        assert!(answer.contains("data: a\n\n") && answer.contains("denied by a test"), "{answer}");
        assert!(answer.ends_with("\r\n0\r\n\r\n") && !answer.contains("[DONE]"), "{answer}");
    }

    #[tokio::test]
    async fn over_http_2_the_error_arrives_and_ends_the_stream() {
        use hyper_util::rt::{TokioExecutor, TokioIo};
        let (_folder, client) = breaking().await;
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut client, connection) = builder.handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        let empty = http_body_util::Empty::<Bytes>::new();
        let request = http::Request::post("http://a/v1/chat/completions").body(empty).unwrap();
        let response = client.send_request(request).await.unwrap();
        let (text, whole) = taken(response.map(Body::new)).await;
        assert!(
            whole && text.contains("data: a\n\n") && text.contains("denied by a test"),
            "{text}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_drops_the_call() {
        struct Dropped(Arc<AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let guard = Dropped(Arc::clone(&dropped));
        let asking: Asking = Box::pin(async move {
            let _guard = guard;
            std::future::pending().await
        });
        let response = answered(asking, form(Dialect::Chat, true)).await.ok().unwrap();
        assert!(!dropped.load(Ordering::Acquire));
        drop(response);
        assert!(dropped.load(Ordering::Acquire));
    }
}
