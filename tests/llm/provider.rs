//! A provider of models that answers what a test told it to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri, Version};
use axum::routing::post;
use futures_util::Stream;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::said::Dialect;

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub headers: Vec<(&'static str, &'static str)>,
    pub parts: Vec<Part>,
}

/// A part of an answer.
#[derive(Clone, Debug)]
pub enum Part {
    /// These bytes.
    Bytes(String),
    /// Nothing, until the test says so.
    Wait,
    /// The connection ends in the middle.
    Cut,
}

impl Answer {
    pub fn json(status: u16, body: &Value) -> Self {
        Self::of(status, "application/json", &body.to_string())
    }

    pub fn of(status: u16, kind: &'static str, body: &str) -> Self {
        Self { status, kind, headers: Vec::new(), parts: vec![Part::Bytes(body.to_owned())] }
    }

    /// A stream of these parts.
    pub fn stream(parts: Vec<Part>) -> Self {
        Self { status: 200, kind: "text/event-stream", headers: Vec::new(), parts }
    }

    /// A stream of these parts, as the providers of this dialect send it.
    pub fn streams(dialect: &Dialect, parts: Vec<Part>) -> Self {
        Self { kind: dialect.media_type(), ..Self::stream(parts) }
    }

    /// A stream of these bytes, in the same way.
    pub fn of_dialect(dialect: &Dialect, text: &str) -> Self {
        Self::streams(dialect, vec![Part::Bytes(text.to_owned())])
    }

    /// A stream of these bytes.
    pub fn events(text: &str) -> Self {
        Self::stream(vec![Part::Bytes(text.to_owned())])
    }
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub version: Version,
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Asked {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

struct Shared {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Asked>>,
    go: Semaphore,
    left: Notify,
}

/// The running provider.
#[derive(Clone)]
pub struct Provider {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Provider {
    pub async fn start() -> Self {
        let shared = Arc::new(Shared {
            answers: Mutex::default(),
            asked: Mutex::default(),
            go: Semaphore::new(0),
            left: Notify::new(),
        });
        let routes = Router::new().fallback(post(answer)).with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { port, shared }
    }

    /// Answers the next request so.
    pub fn answers(&self, answer: Answer) {
        self.shared.answers.lock().push_back(answer);
    }

    /// Lets an answer go on that waits.
    pub fn go(&self) {
        self.all_go(1);
    }

    /// Lets so many answers go on that wait.
    pub fn all_go(&self, count: usize) {
        self.shared.go.add_permits(count);
    }

    /// Waits until the gate has hung up on an answer.
    pub async fn left(&self) {
        super::within("the gate to hang up", self.shared.left.notified()).await;
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().clone()
    }

    /// The last request.
    pub fn last(&self) -> Asked {
        self.asked().pop().expect("a request")
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    version: Version,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response<Body> {
    let path = uri.path_and_query().unwrap().to_string();
    shared.asked.lock().push(Asked { version, path, headers, body });
    let next = shared.answers.lock().pop_front();
    let next = next.unwrap_or_else(|| Answer::of(500, "text/plain", "no answer is left"));
    let mut response = Response::builder().status(next.status).header("content-type", next.kind);
    for (name, value) in &next.headers {
        response = response.header(*name, *value);
    }
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    tokio::spawn(async move {
        for part in next.parts {
            match part {
                Part::Bytes(bytes) => {
                    if sender.send(Ok(bytes.into())).await.is_err() {
                        shared.left.notify_one();
                        return;
                    }
                }
                Part::Wait => {
                    tokio::select! {
                        went = shared.go.acquire() => went.unwrap().forget(),
                        () = sender.closed() => {
                            shared.left.notify_one();
                            return;
                        }
                    }
                }
                Part::Cut => {
                    let _ = sender.send(Err(std::io::ErrorKind::ConnectionReset.into())).await;
                    return;
                }
            }
        }
    });
    response.body(Body::from_stream(sent_before_a_cut(receiver))).unwrap()
}

/// The parts, each on its way before the connection ends: a server drops what it did not yet write when its body
/// fails, and it writes when the body has nothing for it.
fn sent_before_a_cut(
    mut parts: mpsc::Receiver<Result<Bytes, std::io::Error>>,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    let mut cut = None;
    futures_util::stream::poll_fn(move |context| {
        if let Some(error) = cut.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match parts.poll_recv(context) {
            Poll::Ready(Some(Err(error))) => {
                cut = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            part @ (Poll::Ready(_) | Poll::Pending) => part,
        }
    })
}
