//! The provider behind the gate, in a process of its own: chat completions that it writes at once, at
//! the pace of a model, or as fast as they are taken.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use wicketgate_support::bench::gate::FarSide;

/// The models. Each writes `max_tokens` deltas.
pub const AT_ONCE: &str = "at-once";
pub const PACED: &str = "paced";
pub const UNTHROTTLED: &str = "unthrottled";

/// The credential of the gate.
pub const KEY: &str = "sk-provider-0123456789abcdefghij";

/// Between two deltas of the paced model: 50 a second.
pub const PACE: Duration = Duration::from_millis(20);

/// Starts the provider.
pub fn start() -> FarSide {
    FarSide::start(&["provider"])
}
/// This program as the provider, until its standard input ends.
pub fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        tokio::select! {
            () = accept(listener) => {}
            _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())) => {}
        }
    });
    runtime.shutdown_background();
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let http = hyper::server::conn::http1::Builder::new();
        tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

type Body = BoxBody<Bytes, Infallible>;

/// One request: refused in words unless it is one that a client of this bench makes.
async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (model, deltas) = (asked["model"].as_str(), asked["max_tokens"].as_u64());
    let known = [AT_ONCE, PACED, UNTHROTTLED].into_iter().find(|known| Some(*known) == model);
    let key = parts.headers.get("x-api-key").is_some_and(|key| key == KEY);
    let path = parts.uri.path() == "/v1/chat/completions";
    let (Some(model), Some(deltas), true, true) = (known, deltas, key, path) else {
        let message = format!("{} {} {model:?} {deltas:?}", parts.method, parts.uri);
        let error = json!({"error": {"type": "invalid_request_error", "message": message}});
        return Ok(response(400, "application/json", Full::from(error.to_string()).boxed()));
    };
    let usage = asked["stream_options"]["include_usage"] == true;
    let (send, pieces) = mpsc::channel(64);
    tokio::spawn(write(model, deltas, usage, send));
    let pieces = ReceiverStream::new(pieces);
    let body = StreamBody::new(pieces.map(|piece| Ok(Frame::data(Bytes::from(piece))))).boxed();
    Ok(response(200, "text/event-stream", body))
}

fn response(status: u16, media_type: &str, body: Body) -> Response<Body> {
    Response::builder().status(status).header("content-type", media_type).body(body).unwrap()
}

/// The events of one answer. A receiver that left ends it.
async fn write(model: &str, deltas: u64, usage: bool, send: mpsc::Sender<String>) {
    let mut pace = tokio::time::interval(PACE);
    // A provider that is late stays late: a burst would measure something else.
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for number in 0..deltas {
        if model == PACED {
            pace.tick().await;
        }
        let content = json!({"content": format!("{number} {} ", now())});
        if send.send(chunk(model, &content, &Value::Null)).await.is_err() {
            return;
        }
    }
    let mut end = chunk(model, &json!({}), &json!("stop"));
    if usage {
        let usage =
            json!({"prompt_tokens": 12, "completion_tokens": deltas, "total_tokens": deltas + 12});
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
            "model": model, "choices": [], "usage": usage});
        end.push_str(&format!("data: {chunk}\n\n"));
    }
    end.push_str("data: [DONE]\n\n");
    let _ = send.send(end).await;
}

fn chunk(model: &str, delta: &Value, finish: &Value) -> String {
    let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

/// Nanoseconds that all processes of this machine count alike.
pub fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}
