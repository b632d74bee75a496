//! A forwarder that adds a bearer token: the conformance suite cannot carry one.
//!
//! Bodies pass as they come, streams too, and whoever leaves takes the other side's connection along. A Host or Origin
//! that names the forwarder is made to name the gate; a foreign one is passed on, as that is what is being tested.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Either, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// One forwarder, on a port of its own. Gone when dropped.
pub struct Forwarder {
    _runtime: Runtime,
    /// Where clients connect.
    pub address: SocketAddr,
}

#[derive(Clone)]
struct Route {
    own: SocketAddr,
    gate: SocketAddr,
    authorization: HeaderValue,
}

type Answer = Response<Either<Incoming, Empty<Bytes>>>;

impl Forwarder {
    /// Forwards to this gate with this token.
    pub fn to(gate: SocketAddr, token: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let own = listener.local_addr().unwrap();
        let authorization = format!("Bearer {token}").parse().unwrap();
        runtime.spawn(accept(listener, Route { own, gate, authorization }));
        Self { _runtime: runtime, address: own }
    }
}

async fn accept(listener: TcpListener, route: Route) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let route = route.clone();
        let serve = service_fn(move |request| {
            let route = route.clone();
            async move { Ok::<_, hyper::Error>(forward(&route, request).await) }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), serve);
        // A client that leaves in the middle is nothing to complain of.
        tokio::spawn(async move { serving.await.is_ok() });
    }
}

async fn forward(route: &Route, mut request: Request<Incoming>) -> Answer {
    let headers = request.headers_mut();
    let (own, gate) = (route.own.to_string(), route.gate.to_string());
    renamed(headers, HOST, &own, &gate);
    renamed(headers, ORIGIN, &format!("http://{own}"), &format!("http://{gate}"));
    headers.insert(AUTHORIZATION, route.authorization.clone());
    let answered = async {
        let stream = TcpStream::connect(route.gate).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(async move { connection.await.is_ok() });
        sender.send_request(request).await.ok()
    };
    match answered.await {
        Some(response) => response.map(Either::Left),
        None => {
            let mut response = Response::new(Either::Right(Empty::new()));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    }
}

fn renamed(headers: &mut hyper::HeaderMap, name: HeaderName, own: &str, gate: &str) {
    if headers.get(&name).is_some_and(|value| value == own) {
        headers.insert(name, gate.parse().unwrap());
    }
}

/// A request and its whole answer, for the forwarder's own test.
#[cfg(test)]
mod tests {
    use super::*;

    /// What the far side saw of one request.
    async fn far_side(listener: TcpListener) -> Vec<String> {
        let (stream, _) = listener.accept().await.unwrap();
        let (send, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let serve = service_fn(move |request: Request<Incoming>| {
            let send = send.clone();
            async move {
                for name in ["host", "origin", "authorization"] {
                    let value = request.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
                    send.send(value.unwrap_or_default()).unwrap();
                }
                let body = request.into_body().collect().await.unwrap().to_bytes();
                send.send(String::from_utf8(body.to_vec()).unwrap()).unwrap();
                Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
            }
        });
        let serving = hyper::server::conn::http1::Builder::new();
        let _ = serving.serve_connection(TokioIo::new(stream), serve).await;
        let mut all = Vec::new();
        while let Ok(one) = seen.try_recv() {
            all.push(one);
        }
        all
    }

    #[test]
    fn its_own_name_becomes_the_gates_a_foreign_one_stays_and_the_token_is_added() {
        let runtime = Runtime::new().unwrap();
        for foreign in [None, Some("evil.example.com")] {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let gate = listener.local_addr().unwrap();
            let far = runtime.spawn(far_side(listener));
            let forwarder = Forwarder::to(gate, "secret");
            let named = foreign.map_or_else(|| forwarder.address.to_string(), str::to_owned);
            let request = format!(
                "POST /mcp HTTP/1.1\r\nhost: {named}\r\norigin: http://{named}\r\n\
                 content-length: 2\r\nconnection: close\r\n\r\n{{}}"
            );
            runtime.block_on(async {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let mut stream = TcpStream::connect(forwarder.address).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            });
            let expected = foreign.map_or_else(|| gate.to_string(), str::to_owned);
            let seen = runtime.block_on(far).unwrap();
            assert_eq!(
                seen,
                [
                    expected.clone(),
                    format!("http://{expected}"),
                    "Bearer secret".into(),
                    "{}".into()
                ]
            );
        }
    }
}
