//! A tool that answers with what it was asked, and counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use parking_lot::Mutex;

type Seen = Arc<Mutex<BTreeMap<String, u32>>>;

/// The server; it ends with the test's runtime.
#[derive(Clone)]
pub struct Tool {
    pub port: u16,
    seen: Seen,
}

impl Tool {
    pub async fn start() -> Tool {
        let seen = Seen::default();
        let routes = Router::new().route("/do", post(work)).with_state(Arc::clone(&seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Tool { port, seen }
    }

    /// How many requests came in.
    pub fn count(&self) -> u32 {
        self.seen.lock().values().sum()
    }

    /// Calls that came in more than once.
    pub fn repeated(&self) -> Vec<String> {
        let seen = self.seen.lock();
        seen.iter().filter(|(_, n)| **n > 1).map(|(name, _)| name.clone()).collect()
    }
}

async fn work(State(seen): State<Seen>, headers: HeaderMap, body: String) -> Response {
    let call = headers.get("x-wicketgate-call").expect("every request names its call");
    *seen.lock().entry(call.to_str().unwrap().to_owned()).or_default() += 1;
    ([(CONTENT_TYPE, "application/json")], format!(r#"{{"done":true,"echo":{body}}}"#))
        .into_response()
}
