//! The operators' listener: liveness, readiness and metrics; and, with a credential, the operator
//! API (`crate::operator`), the only part of it that changes anything.
//!
//! It has an address of its own, so that an agent cannot reach it through its socket.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use http::header::{CACHE_CONTROL, HeaderValue, ORIGIN};
use http::{Method, StatusCode};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tonic_health::pb::health_server::{Health, HealthServer};

use super::console::{self, ConsoleSettings};
use super::driver::{self, Limits};
use super::listener::{self, Listener, Stream};
use super::probes::{livez, metrics, readyz, refusal, startupz};
use super::problem::Problem;
use super::tls::Tls;
use super::{Error, edge, grpc, guard, pb};
use crate::domain::code::Code;
use crate::operator::OperatorApi;
use crate::operator::enrolment::Registrar;
use crate::operator::http::guards;

pub use super::probes::OperatorView;

const DRAIN: Duration = Duration::from_secs(2);

/// Where operators come in.
#[derive(Clone, Debug)]
pub struct OperatorSettings {
    /// The address.
    pub addr: SocketAddr,
    /// Names of this machine besides loopback ones and `addr` that a request may use.
    pub hosts: Vec<String>,
    /// Connections of operators at the same time. Clients without a known credential have places of
    /// their own.
    pub connections_max: usize,
    /// TLS; in the clear without, which is allowed on loopback addresses only.
    pub tls: Option<Tls>,
    /// A socket that answers the same in the clear, for probes of this pod and operators on this
    /// machine; only this user can bind it.
    pub socket: Option<PathBuf>,
    /// Whether to retry an address that another process holds, for as long as it takes, instead of
    /// ending the other listeners.
    pub patient: bool,
    /// The console for browsers at the address, in front of the operator API; the socket has none.
    pub console: Option<ConsoleSettings>,
}

impl Default for OperatorSettings {
    fn default() -> Self {
        let addr = SocketAddr::from(([127, 0, 0, 1], 7301));
        let (hosts, tls, socket, console) = (Vec::new(), None, None, None);
        Self { addr, hosts, connections_max: 64, tls, socket, patient: false, console }
    }
}

/// Why the operators' address is not served now, if it is not.
#[derive(Clone, Debug, Default)]
pub struct Hindered(Arc<Mutex<Option<String>>>);

impl Hindered {
    /// The reason, for a person.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.0.lock().clone()
    }

    fn set(&self, why: Option<String>) {
        *self.0.lock() = why;
    }
}

/// The operators' listener on a thread of its own.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    hindered: Hindered,
    thread: std::thread::JoinHandle<()>,
}

impl Running {
    /// The address, with the port the system chose.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why the address is not served, if it is not.
    pub fn hindered(&self) -> Hindered {
        self.hindered.clone()
    }

    /// Whether the listener has closed for good.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the listener has closed: at most two seconds after shutdown. Blocks: not for a
    /// task.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the operator API's thread panicked");
        }
    }
}

/// Binds the operator's address and serves it until `shutdown`, on a thread and a runtime of its
/// own: operators' requests cannot starve the road, and a busy road cannot make the gate
/// unobservable.
///
/// # Errors
/// The address cannot be bound, or the thread cannot be started.
pub fn serve(
    settings: OperatorSettings,
    view: OperatorView,
    shutdown: CancellationToken,
) -> Result<Running, Error> {
    serve_with(settings, view, None, shutdown)
}

/// As [`serve`], with the operator API behind it.
///
/// # Errors
/// As [`serve`].
pub fn serve_with(
    settings: OperatorSettings,
    view: OperatorView,
    api: Option<Arc<OperatorApi>>,
    shutdown: CancellationToken,
) -> Result<Running, Error> {
    let routes = api.map_or(OperatorRoutes::Disabled, OperatorRoutes::Api);
    bind(settings, view, routes, shutdown)
}

/// A listener like [`serve`]'s, with the registrar behind it: sidecars are not operators, and have
/// an address of their own.
///
/// # Errors
/// As [`serve`].
pub fn serve_enrolment(
    settings: OperatorSettings,
    view: OperatorView,
    registrar: Arc<Registrar>,
    shutdown: CancellationToken,
) -> Result<Running, Error> {
    bind(settings, view, OperatorRoutes::Registrar(registrar), shutdown)
}

/// What serves the routes that need a credential.
enum OperatorRoutes {
    Disabled,
    Api(Arc<OperatorApi>),
    Registrar(Arc<Registrar>),
}

fn bind(
    settings: OperatorSettings,
    view: OperatorView,
    routes: OperatorRoutes,
    shutdown: CancellationToken,
) -> Result<Running, Error> {
    let failed = |source| Error::Bind { place: settings.addr.to_string(), source };
    let bound = match TcpListener::bind(settings.addr) {
        Err(error) if !settings.patient || error.kind() != ErrorKind::AddrInUse => {
            return Err(failed(error));
        }
        bound => bound,
    };
    let address = bound.as_ref().map_or(Ok(settings.addr), TcpListener::local_addr);
    let (address, bind_problem) = (address.map_err(failed)?, Hindered::default());
    bind_problem.set(bound.as_ref().err().map(|error| taken(settings.addr, error)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Error::Thread)?;
    let bound_address = BoundAddress { bound, hindered: bind_problem.clone() };
    let thread = std::thread::Builder::new()
        .name("operator".into())
        .spawn(move || runtime.block_on(open(bound_address, &settings, (view, routes), shutdown)))
        .map_err(Error::Thread)?;
    Ok(Running { address, hindered: bind_problem, thread })
}

/// The address, as far as it could be bound.
struct BoundAddress {
    bound: std::io::Result<TcpListener>,
    hindered: Hindered,
}

/// The first pause before an occupied address is tried again; it doubles up to a second.
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(1);

fn taken(addr: SocketAddr, error: &std::io::Error) -> String {
    format!(
        "operator.listen: cannot listen on `{addr}`: {error}: another process may answer there; trying again"
    )
}

impl BoundAddress {
    /// The listener, once the address is free; `None` if the end comes first.
    async fn listener(self, addr: SocketAddr, end: &CancellationToken) -> Option<Listener> {
        let Self { mut bound, hindered: bind_problem } = self;
        let mut pause = AGAIN;
        loop {
            match bound.and_then(listener::adopt) {
                Ok(listener) => {
                    bind_problem.set(None);
                    return Some(listener);
                }
                Err(error) => {
                    let why = taken(addr, &error);
                    tracing::warn!(%why, "the operator API cannot listen");
                    bind_problem.set(Some(why));
                }
            }
            tokio::select! {
                biased;
                () = end.cancelled() => return None,
                () = tokio::time::sleep(pause) => {}
            }
            pause = pause.saturating_mul(2).min(AGAIN_MAX);
            bound = TcpListener::bind(addr);
        }
    }
}

/// The socket beside it, for this user alone.
async fn own_socket(path: Option<&Path>) -> Option<Listener> {
    let path = path?;
    let listener = match listener::socket(path).await {
        Ok(listener) => listener,
        Err(why) => {
            tracing::warn!(%why, "the probe socket cannot listen");
            return None;
        }
    };
    let mode = std::fs::Permissions::from_mode(0o600);
    if let Err(why) = std::fs::set_permissions(path, mode) {
        tracing::warn!(%why, "the mode of the operators' socket cannot be restricted");
        return None;
    }
    Some(listener)
}

async fn open(
    bound_address: BoundAddress,
    settings: &OperatorSettings,
    (view, routes): (OperatorView, OperatorRoutes),
    shutdown: CancellationToken,
) {
    let limits = Limits::of(settings.connections_max, DRAIN);
    let (health, service) = tonic_health::server::health_reporter();
    let reporting = grpc::report(health, &SERVICES, view.readiness.clone(), shutdown.clone());
    let api = match &routes {
        OperatorRoutes::Api(api) => Some(Arc::clone(api)),
        OperatorRoutes::Disabled | OperatorRoutes::Registrar(_) => None,
    };
    let console = settings.console.as_ref().zip(api.as_ref());
    let console =
        console.and_then(|(of, api)| console::router(of, (api, &view), settings.tls.is_some()));
    let (tls, readiness) = (settings.tls.clone(), view.readiness.clone());
    let router = router(view, routes, service);
    let names = Names::of(settings);
    let own = guarded(router.clone(), names.clone());
    let router = match console {
        Some(console) => guarded(router.merge(console), Names { console: true, ..names }),
        None => guarded(router, names),
    };
    let at_address = async {
        let Some(listener) = bound_address.listener(settings.addr, &shutdown).await else { return };
        let serve =
            move |stream, _, closing| connection(stream, router.clone(), (tls.clone(), closing));
        driver::run(listener, limits, shutdown.clone(), serve).await;
    };
    let at_socket = async {
        let Some(listener) = own_socket(settings.socket.as_deref()).await else { return };
        let serve = move |stream, _, closing| connection(stream, own.clone(), (None, closing));
        driver::run(listener, limits, shutdown.clone(), serve).await;
    };
    let watching = async {
        let Some(api) = &api else { return };
        let _over = shutdown.run_until_cancelled(api.watch_readiness(readiness)).await;
        // Streams would keep their connections open for the whole drain.
        shutdown.cancelled().await;
        api.feed().close();
    };
    tokio::join!(at_address, at_socket, reporting, watching);
    if let Some(api) = api {
        // An operation that this timeout cuts short is recorded; the next request for it finishes
        // it.
        drop(tokio::time::timeout(DRAIN, api.finished()).await);
    }
}

/// Drives one connection; with TLS it reads nothing before the end of the handshake, and its
/// requests carry the client's certificate.
async fn connection(
    stream: Stream,
    router: Router,
    (tls, closing): (Option<Tls>, CancellationToken),
) {
    let Some(tls) = tls else {
        return driver::either(stream, TowerToHyperService::new(router), closing).await;
    };
    let Some((stream, certificate)) = tls.secured(stream, &closing).await else { return };
    let router = match certificate {
        None => router,
        Some(certificate) => router.layer(Extension(certificate)),
    };
    driver::either(stream, TowerToHyperService::new(router), closing).await;
}

/// What operators are answered over gRPC.
const SERVICES: [&str; 6] = [
    "",
    pb::approvals_server::SERVICE_NAME,
    pb::control_server::SERVICE_NAME,
    pb::firewall_server::SERVICE_NAME,
    pb::calls_server::SERVICE_NAME,
    pb::live_server::SERVICE_NAME,
];

/// The operator API over HTTP and gRPC, with health and reflection beside it.
fn served(api: Arc<OperatorApi>, health: HealthServer<impl Health>) -> Router {
    let [_, services @ ..] = SERVICES;
    let routes = crate::operator::grpc::router(&api)
        .merge(crate::operator::api::router(api))
        .route_service("/grpc.health.v1.Health/{method}", health);
    match grpc::reflected(&services) {
        Ok(reflection) => {
            routes.route_service("/grpc.reflection.v1.ServerReflection/{method}", reflection)
        }
        Err(error) => {
            tracing::error!(%error, "gRPC reflection of the operator API is unavailable");
            routes
        }
    }
}

fn router(view: OperatorView, routes: OperatorRoutes, health: HealthServer<impl Health>) -> Router {
    let open = Router::new().route("/livez", get(livez)).route("/readyz", get(readyz));
    let open = open.route("/startupz", get(startupz));
    let metrics = Router::new().route("/metrics", get(metrics));
    match routes {
        OperatorRoutes::Disabled => open.merge(metrics).with_state(view),
        OperatorRoutes::Api(api) => open.merge(metrics).with_state(view).merge(served(api, health)),
        OperatorRoutes::Registrar(registrar) => {
            open.with_state(view).merge(crate::operator::http::enrolment(registrar))
        }
    }
}

/// The routes behind the checks of every request.
fn guarded(router: Router, names: Names) -> Router {
    router.fallback(nowhere).layer(middleware::from_fn_with_state(names, guard))
}

/// Whether this is the path of a method of gRPC.
fn is_method(path: &str) -> bool {
    path.starts_with("/wicketgate.") || path.starts_with("/grpc.")
}

/// Whether a path can change anything: every route there asks for a credential first.
fn changes(path: &str) -> bool {
    path.starts_with("/v1/")
}

/// The names of this machine that a request may use.
#[derive(Clone)]
struct Names {
    hosts: Arc<[String]>,
    tls: Option<Tls>,
    addr: SocketAddr,
    /// Whether browsers are served at the paths of the console.
    console: bool,
}

impl Names {
    fn of(settings: &OperatorSettings) -> Self {
        let named = settings.console.iter().flat_map(ConsoleSettings::hosts);
        let hosts = settings.hosts.iter().cloned().chain(named).collect();
        Self { hosts, tls: settings.tls.clone(), addr: settings.addr, console: false }
    }

    fn include(&self, host: &str) -> bool {
        // WHY: a page that rebinds a name cannot make the browser send a bare address, so where the
        // operator bound the listener to the network, addresses are taken (probes use the pod's).
        let ip = host.parse::<std::net::IpAddr>();
        let bound = ip.is_ok_and(|ip| ip == self.addr.ip() || self.addr.ip().is_unspecified());
        let certified = |tls: &Tls| guard::is_local(host, &tls.names());
        bound || guard::is_local(host, &self.hosts) || self.tls.as_ref().is_some_and(certified)
    }
}

async fn guard(State(names): State<Names>, request: Request, next: Next) -> Response {
    let grpc = edge::is_grpc(&request);
    let refuse = |detail: &str, message: &'static str| match grpc {
        true => Problem::new(Code::RequestMalformed, detail, message).status().into_http(),
        false => refusal(StatusCode::FORBIDDEN, message),
    };
    let console = names.console && console::is_path(request.uri().path());
    if !console && request.headers().contains_key(ORIGIN) {
        return refuse("http.origin", "browsers are not served here");
    }
    if !guard::one_host(&request).is_some_and(|host| names.include(&host)) {
        return refuse("http.host", "the host is not a name of this machine");
    }
    if console {
        // It checks the origin itself, and has headers of its own.
        return next.run(request).await;
    }
    if is_method(request.uri().path()) {
        return match grpc {
            true => next.run(request).await,
            false => nowhere(request).await,
        };
    }
    let posted = *request.method() == Method::POST && changes(request.uri().path());
    if !posted && !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refusal(StatusCode::METHOD_NOT_ALLOWED, "nothing can be changed here");
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.extend(guards());
    response
}

/// Nothing is served at this path.
async fn nowhere(request: Request) -> Response {
    let problem = edge::nowhere();
    match edge::is_grpc(&request) {
        true => problem.status().into_http(),
        false => problem.response().map(Body::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_origin_of_the_console_is_a_name_of_this_machine() {
        let origins = ["https://hub.example.com:7301", "https://[2001:db8::1]"];
        let console = ConsoleSettings { origins: origins.map(str::to_owned).into(), oidc: None };
        let settings = OperatorSettings { console: Some(console), ..OperatorSettings::default() };
        let (with, without) = (Names::of(&settings), Names::of(&OperatorSettings::default()));
        for host in ["hub.example.com", "2001:db8::1"] {
            assert!(with.include(host) && !without.include(host), "{host}");
        }
        assert!(!with.include("example.com") && !with.include("evil.example"));
    }
}
