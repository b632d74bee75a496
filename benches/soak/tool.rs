//! The tool behind the gate: one that answers at once, one that takes its time, and a list of who came.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use wicketgate_support::bench::tool::body;

/// The one that answers at once. Both names are those that the manifest of the benches grants.
pub const FAST: &str = "small";
/// The one that takes one to three seconds.
pub const SLOW: &str = "large";

/// The server; it ends with the runtime.
#[derive(Clone)]
pub struct Tool {
    pub at: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Hashes of the calls that came; whole names would be most of the memory of an hour.
    came: Mutex<BTreeSet<u64>>,
    hasher: RandomState,
    again: AtomicU64,
}

impl Tool {
    /// Different calls that came in.
    pub fn calls(&self) -> u64 {
        self.shared.came.lock().len() as u64
    }

    /// How many came in a second time.
    pub fn repeated(&self) -> u64 {
        self.shared.again.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Counts this call; how many came before it.
    fn count(&self, request: &Request<Incoming>) -> u64 {
        let call = request.headers().get("x-wicketgate-call").expect("a request names its call");
        let mut came = self.came.lock();
        let before = came.len() as u64;
        if !came.insert(self.hasher.hash_one(call.as_bytes())) {
            self.again.fetch_add(1, Ordering::Relaxed);
        }
        before
    }

    async fn answer(&self, request: Request<Incoming>) -> Bytes {
        let before = self.count(&request);
        let slow = request.uri().path().ends_with(SLOW);
        drop(request.into_body().collect().await);
        if slow {
            tokio::time::sleep(Duration::from_millis(1000 + before % 2000)).await;
        }
        body(256)
    }
}

/// Starts it.
pub async fn start() -> Tool {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tool = Tool { at: listener.local_addr().unwrap(), shared: Arc::default() };
    let shared = Arc::clone(&tool.shared);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let shared = Arc::clone(&shared);
            let service = service_fn(move |request: Request<Incoming>| {
                let shared = Arc::clone(&shared);
                async move {
                    let response = Response::builder().header("content-type", "application/json");
                    let body = Full::new(shared.answer(request).await);
                    Ok::<_, Infallible>(response.body(body).unwrap())
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    tool
}
