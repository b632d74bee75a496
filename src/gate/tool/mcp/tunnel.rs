//! The only exit for a server that may reach named hosts: a proxy that supports `CONNECT` (RFC
//! 9110, section 9.3.6) to these hosts, and connects as every other tool of the gate does. It does
//! not inspect the data in a tunnel.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::catalog::host::{Host, Origin};
use crate::catalog::server::Hosts;
use crate::tool::net::{ConnectError, Connector, System};
use crate::tool::sandbox::loopback;

/// Concurrent connections of one server; further ones wait.
const AT_ONCE: usize = 64;
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);
/// Bytes of one head: the minimum that hyper allows.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Refused hosts that the log names per server.
const TOLD_MAX: usize = 32;
/// The environment variables that programs read for their proxy. Node ignores them unless
/// `NODE_USE_ENV_PROXY` is set.
const VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const NODE: &str = "NODE_USE_ENV_PROXY";

/// Adds the proxy's address to a server's environment. Existing values stay.
pub(super) fn tell(env: &mut Vec<(String, String)>) {
    let proxy = format!("http://127.0.0.1:{}", loopback::PROXY);
    let all = VARIABLES.map(|name| (name, proxy.clone()));
    for (name, value) in all.into_iter().chain([(NODE, "1".to_owned())]) {
        if !env.iter().any(|(set, _)| set == name) {
            env.push((name.to_owned(), value));
        }
    }
}

/// Lets the server behind this listener reach these hosts until the returned value is dropped.
/// Needs a runtime.
///
/// # Errors
/// The listener cannot be registered with the runtime.
pub(super) fn serve(
    listener: std::net::TcpListener,
    hosts: &Hosts,
    program: &str,
) -> io::Result<JoinSet<()>> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let connector = |origin: &Origin| {
        Connector::new(origin.clone(), hosts.private_addresses.clone(), Arc::new(System))
    };
    let allowed = hosts.origins.iter().map(|origin| (origin.clone(), connector(origin)));
    let allowed = AllowedHosts {
        program: program.to_owned(),
        all: allowed.collect(),
        reported: Mutex::default(),
    };
    let mut task = JoinSet::new();
    task.spawn(accept(listener, Arc::new(allowed)));
    Ok(task)
}

/// The hosts that one server may reach.
#[derive(Debug)]
struct AllowedHosts {
    program: String,
    all: Vec<(Origin, Connector)>,
    reported: Mutex<BTreeSet<String>>,
}

impl AllowedHosts {
    /// A connection to the requested host, or the error response.
    async fn open(&self, asked: &Uri) -> Result<TcpStream, (StatusCode, String)> {
        let named = asked.authority().filter(|named| !named.as_str().contains('@'));
        let host = named.and_then(|named| Host::parse(named.host()).ok());
        let port = named.and_then(http::uri::Authority::port_u16);
        let is = |origin: &Origin| host.as_ref() == Some(&origin.host) && port == Some(origin.port);
        let Some((_, connector)) = self.all.iter().find(|(origin, _)| is(origin)) else {
            let name = named.map_or("?", |named| named.as_str());
            self.report(name);
            return Err((
                StatusCode::FORBIDDEN,
                format!("`{name}` is not among the `hosts` of this server's sandbox"),
            ));
        };
        connector.connect().await.map_err(|why| {
            let status = match why {
                ConnectError::Address(_) | ConnectError::Elsewhere => StatusCode::FORBIDDEN,
                ConnectError::Name
                | ConnectError::Answers
                | ConnectError::Unreachable(_)
                | ConnectError::Silent
                | ConnectError::Certificate
                | ConnectError::Tls => StatusCode::BAD_GATEWAY,
            };
            (status, why.to_string())
        })
    }

    fn report(&self, name: &str) {
        let mut reported = self.reported.lock();
        if reported.len() < TOLD_MAX && reported.insert(name.to_owned()) {
            let program = &self.program;
            tracing::warn!(
                program,
                host = name,
                "refused a sandboxed server's connection to a host that `sandbox.hosts` does not list"
            );
        }
    }
}

async fn accept(listener: TcpListener, hosts: Arc<AllowedHosts>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    // Dropping this future ends all connections.
    let mut open = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while open.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // A temporary error such as a lack of descriptors.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let hosts = Arc::clone(&hosts);
        open.spawn(async move {
            let _place = place;
            converse(stream, &hosts).await;
        });
    }
}

/// One request, and the tunnel that it opens.
async fn converse(stream: TcpStream, hosts: &AllowedHosts) {
    let opened: Mutex<Option<(OnUpgrade, TcpStream)>> = Mutex::new(None);
    let service = service_fn(|mut request: Request<Incoming>| {
        let opened = &opened;
        async move {
            if request.method() != Method::CONNECT {
                let why = "this proxy knows CONNECT alone: ask for https";
                return Ok(answer(StatusCode::METHOD_NOT_ALLOWED, why));
            }
            let there = match hosts.open(request.uri()).await {
                Ok(there) => there,
                Err((status, why)) => return Ok(answer(status, &why)),
            };
            *opened.lock() = Some((hyper::upgrade::on(&mut request), there));
            Ok::<_, std::convert::Infallible>(answer(StatusCode::OK, ""))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    let opened = opened.lock().take();
    if let (Ok(()), Some((upgraded, mut there))) = (served, opened)
        && let Ok(here) = upgraded.await
    {
        // Both sides are closed, however the copy ends.
        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(here), &mut there).await;
    }
}

fn answer(status: StatusCode, text: &str) -> Response<String> {
    let mut response = Response::new(text.to_owned());
    *response.status_mut() = status;
    response
}
