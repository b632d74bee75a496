//! A tool over HTTP that counts for itself what reached it, and can be made to wait inside a call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::within;

/// The server; it ends with the test's runtime.
#[derive(Clone)]
pub struct Tool {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// Whether an answer repeats what was asked.
    echoes: bool,
    /// Requests by `X-Wicketgate-Call`.
    seen: Mutex<BTreeMap<String, u32>>,
    waiting: watch::Sender<usize>,
    open: watch::Sender<bool>,
    /// Whether work fails.
    broken: AtomicBool,
}

impl Tool {
    pub async fn start() -> Tool {
        Self::serving(false).await
    }

    /// A tool whose answers repeat what it was asked.
    pub async fn echoing() -> Tool {
        Self::serving(true).await
    }

    async fn serving(echoes: bool) -> Tool {
        let shared = Arc::new(Shared {
            echoes,
            seen: Mutex::default(),
            waiting: watch::Sender::new(0),
            open: watch::Sender::new(true),
            broken: AtomicBool::new(false),
        });
        let routes = Router::new()
            .route("/do", post(work))
            .route("/fail", post(fail))
            .route("/large", post(large))
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Tool { port, shared }
    }

    /// From now on a call stays inside the tool until [`Self::release`].
    pub fn hold(&self) {
        self.shared.open.send_replace(false);
    }

    /// From now on work fails.
    pub fn break_down(&self) {
        self.shared.broken.store(true, Ordering::SeqCst);
    }

    /// Lets everything go on.
    pub fn release(&self) {
        self.shared.open.send_replace(true);
    }

    /// Waits until so many calls are inside.
    pub async fn entered(&self, count: usize) {
        let mut waiting = self.shared.waiting.subscribe();
        within("a call inside the tool", waiting.wait_for(|inside| *inside >= count))
            .await
            .unwrap();
    }

    /// Waits until exactly so many calls are inside.
    pub async fn inside(&self, count: usize) {
        let mut waiting = self.shared.waiting.subscribe();
        within("calls that leave the tool", waiting.wait_for(|inside| *inside == count))
            .await
            .unwrap();
    }

    /// Counts calls that other tools of the gate completed.
    pub fn did(&self, calls: u32) {
        let mut seen = self.shared.seen.lock();
        for _ in 0..calls {
            let number = seen.len();
            seen.insert(format!("elsewhere {number}"), 1);
        }
    }

    /// How many requests came in.
    pub fn count(&self) -> u32 {
        self.shared.seen.lock().values().sum()
    }

    /// How many requests came in for calls whose name ends so.
    pub fn count_of(&self, call: &str) -> u32 {
        let seen = self.shared.seen.lock();
        seen.iter().filter(|(name, _)| name.ends_with(call)).map(|(_, n)| n).sum()
    }

    /// Calls that came in more than once.
    pub fn repeated(&self) -> Vec<String> {
        let seen = self.shared.seen.lock();
        seen.iter().filter(|(_, n)| **n > 1).map(|(name, _)| name.clone()).collect()
    }
}

impl Shared {
    async fn enter(&self, headers: &HeaderMap) {
        let call = headers.get("x-wicketgate-call").expect("every request names its call");
        *self.seen.lock().entry(call.to_str().unwrap().to_owned()).or_default() += 1;
        let inside = Inside::new(self);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
        drop(inside);
    }
}

/// Counts one call inside, also when its request is dropped.
struct Inside<'a>(&'a Shared);

impl<'a> Inside<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.waiting.send_modify(|n| *n += 1);
        Self(shared)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|n| *n -= 1);
    }
}

async fn work(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Response {
    shared.enter(&headers).await;
    if shared.broken.load(Ordering::SeqCst) {
        return (StatusCode::INTERNAL_SERVER_ERROR, r#"{"done":false}"#).into_response();
    }
    let answer = if shared.echoes {
        format!(r#"{{"done":true,"echo":{body}}}"#)
    } else {
        r#"{"done":true}"#.to_owned()
    };
    ([(CONTENT_TYPE, "application/json")], answer).into_response()
}

async fn fail(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> (StatusCode, String) {
    shared.enter(&headers).await;
    (StatusCode::INTERNAL_SERVER_ERROR, r#"{"done":false}"#.to_owned())
}

/// Three mebibytes: more than one message carries and more than the ledger stores.
async fn large(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.enter(&headers).await;
    // Prose: the search reads a letter again and again as something encoded, which an unoptimised gate takes seconds for.
    let body = format!(r#"{{"text":"{}"}}"#, "One line of a report. ".repeat((3 << 20) / 22 + 1));
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
