//! The tool behind the gate: an HTTP/1.1 server in this process that answers at once.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

/// Starts it; `/small` answers 256 bytes, `/large` 8 KiB, both JSON.
pub async fn start() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (small, large) = (body(256), body(8192));
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            stream.set_nodelay(true).unwrap();
            let (small, large) = (small.clone(), large.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (small, large) = (small.clone(), large.clone());
                async move {
                    let body = if request.uri().path() == "/large" { large } else { small };
                    drop(request.into_body().collect().await);
                    let response = Response::builder().header("content-type", "application/json");
                    Ok::<_, Infallible>(response.body(Full::new(body)).unwrap())
                }
            });
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(serving);
        }
    });
    addr
}

/// A JSON object of exactly this many bytes.
pub fn body(bytes: usize) -> Bytes {
    let frame = r#"{"text":""}"#;
    format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes - frame.len())).into()
}
