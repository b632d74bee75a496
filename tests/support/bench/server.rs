//! HTTP/1.1 servers that answer at once.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Serves this listener until it fails: every request is read to its end and answered with this media type and with what
/// `body` gives for its path.
pub async fn serve<B>(listener: TcpListener, media_type: &'static str, body: B)
where
    B: Fn(&str) -> Bytes + Clone + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let body = body.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let body = body(request.uri().path());
            async move {
                drop(request.into_body().collect().await);
                let response = Response::builder().header("content-type", media_type);
                Ok::<_, Infallible>(response.body(Full::new(body)).unwrap())
            }
        });
        let http = hyper::server::conn::http1::Builder::new();
        tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
    }
}

/// Starts one on a thread of its own that answers every path with these bytes.
pub fn start(media_type: &'static str, body: &'static [u8]) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            serve(listener, media_type, move |_| Bytes::from_static(body)).await;
        });
    });
    address
}
