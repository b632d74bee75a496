//! The table of pages, and what all of them need.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware;
use axum::response::Response;
use axum::routing::{MethodFilter, get, on};
use http::request::Parts;
use http::{Method, StatusCode};

use super::oidc::{self, Oidc};
use super::pages::{self, Failure};
use super::session::{self, ConsoleSessions, SessionId};
use super::visit::Visit;
use super::{ConsoleSettings, ROOT, assets, guard};
use crate::domain::digest::Digest;
use crate::identity::certificate::ClientCertificate;
use crate::operator::OperatorApi;
use crate::operator::api::{Route as _, Row, route};
use crate::operator::operators::Operator;
use crate::serve::Access;
use crate::serve::probes::OperatorView;
use crate::serve::problem::Problem;

/// What pages are made from.
pub(super) struct Console {
    pub api: Arc<OperatorApi>,
    pub view: OperatorView,
    pub sessions: ConsoleSessions,
    /// The issuer where operators can log in, if there is one.
    pub oidc: Option<Oidc>,
    /// Its origins, if they are configured.
    pub origins: Vec<String>,
    /// Whether browsers come over TLS.
    pub secure: bool,
}

impl Console {
    /// The session of a request, and the operator whose credential opened it.
    ///
    /// # Errors
    /// Sessions cannot be looked up: the request is of an operator or of a stranger, and is answered as neither.
    pub(super) async fn session(
        &self,
        parts: &Parts,
    ) -> Result<Option<(SessionId, Operator)>, Problem> {
        let Some(id) = SessionId::of(&parts.headers, self.secure) else { return Ok(None) };
        // A stream is not the use of a session: the page of a person who has left must not keep it open.
        let login = match parts.uri.path() == pages::live::EVENTS {
            true => self.sessions.peek(&id.digest()).await?,
            false => self.sessions.find(&id).await?,
        };
        let Some(login) = login else { return Ok(None) };
        let Some(shown) = session::shown(login, certificate(parts)) else { return Ok(None) };
        let Some(who) = self.api.known(&shown) else {
            self.sessions.end(&id).await?;
            return Ok(None);
        };
        Ok(Some((id, who)))
    }

    /// Whether this is a request that the issuer sends a browser back with.
    pub(super) fn comes_back(&self, request: &Request) -> bool {
        let path = request.uri().path() == oidc::CALLBACK;
        path && self.oidc.is_some() && *request.method() == Method::GET
    }
}

impl Console {
    /// The operator of an open session on a connection with this certificate; asking does not use it. One that cannot be
    /// looked up is none.
    pub(super) async fn standing(
        &self,
        session: &Digest,
        certificate: Option<&Arc<ClientCertificate>>,
    ) -> Option<Operator> {
        let login = self.sessions.peek(session).await.ok()??;
        self.api.known(&session::shown(login, certificate)?)
    }
}

/// The certificate of the connection of a request.
pub(super) fn certificate(parts: &Parts) -> Option<&Arc<ClientCertificate>> {
    parts.extensions.get()
}

/// A page of the table: it needs the right of the route that it shows first.
#[derive(Clone, Debug)]
pub struct ConsolePage {
    /// `GET` reads, `POST` changes.
    pub method: Method,
    /// The path; a parameter stands in braces.
    pub path: &'static str,
    /// The route of the operator API whose right it needs.
    pub row: Row,
}

macro_rules! pages {
    ($($method:ident $path:literal, $route:ident, $page:path;)*) => {
        /// The pages that need a right.
        pub const PAGES: &[ConsolePage] = &[$(ConsolePage {
            method: Method::$method,
            path: $path,
            row: route::$route::ROW,
        }),*];

        fn of_table() -> Router<Arc<Console>> {
            Router::new()$(.route($path, on(
                MethodFilter::$method,
                |State(console): State<Arc<Console>>, request: Request| async move {
                    let right = Some(route::$route::ROW.right);
                    match Visit::enter(console, request, right).await {
                        Ok(mut visit) => {
                            let page = $page(&mut visit).await;
                            visit.answer(page)
                        }
                        Err(response) => *response,
                    }
                },
            )))*
        }
    };
}

pages! {
    GET "/console", HeldCalls, pages::home::home;
    GET "/console/approvals", HeldCalls, pages::approvals::list;
    GET "/console/approvals/{run}/{call}", HeldCallDetail, pages::approvals::one;
    POST "/console/approvals/{run}/{call}", HeldCallDecision, pages::approvals::decide;
    GET "/console/decisions/{seq}", OrderDetail, pages::decisions::one;
    GET "/console/approvals/{run}/{call}/arguments", HeldCallDetail, pages::approvals::arguments;
    GET "/console/runs", Runs, pages::runs::list;
    GET "/console/runs.csv", Runs, pages::runs::csv;
    GET "/console/runs/{run}", RunDetail, pages::runs::one;
    GET "/console/calls", Calls, pages::calls::list;
    GET "/console/calls.csv", Calls, pages::calls::csv;
    GET "/console/calls/{chain}/{seq}", CallDetail, pages::calls::one;
    GET "/console/calls/{chain}/{seq}/payloads", CallPayloads, pages::calls::payloads;
    GET "/console/receipts/{chain}/{seq}/proof", ReceiptProof, pages::calls::proof;
    GET "/console/live", Live, pages::live::page;
    GET "/console/live/events", Live, pages::live::events;
    GET "/console/alerts", Alerts, pages::alerts::list;
    GET "/console/health", Health, pages::health::health;
    GET "/console/limits", Limits, pages::limits::limits;
    GET "/console/trust", Trust, pages::trust::trust;
    GET "/console/patterns", Patterns, pages::trust::patterns;
    GET "/console/orders", Orders, pages::orders::list;
    GET "/console/orders/new", Stop, pages::orders::new;
    POST "/console/orders", Stop, pages::orders::give;
    GET "/console/orders/{seq}", OrderDetail, pages::orders::one;
    GET "/console/exceptions", FindingAllowances, pages::exceptions::list;
    POST "/console/exceptions", FindingExceptionEnd, pages::exceptions::revoke;
    GET "/console/policy", PolicyInForce, pages::policy::list;
    GET "/console/policy/observed", ObservedDenials, pages::policy::observed;
    GET "/console/policy/{bundle}", BundleDetail, pages::bundle::one;
    GET "/console/policy/{bundle}/backtest", Backtests, pages::backtest::list;
    POST "/console/policy/{bundle}/backtest", Backtest, pages::backtest::begin;
    GET "/console/evidence", Exports, pages::evidence::page;
    POST "/console/evidence/export", Export, pages::evidence::export;
    POST "/console/evidence/verify", AuditVerification, pages::evidence::verify;
    GET "/console/custody", LegalHolds, pages::custody::page;
    POST "/console/custody/hold", LegalHold, pages::custody::hold;
    POST "/console/custody/erasure", Erasure, pages::custody::count;
    GET "/console/custody/erasures/{seq}", ErasureDetail, pages::custody::erasure;
}

/// The console in front of this operator API; the listener has TLS or not.
pub(in super::super) fn router(
    settings: &ConsoleSettings,
    (api, view): (&Arc<OperatorApi>, &OperatorView),
    tls: bool,
) -> Option<Router> {
    let console = Arc::new(Console {
        api: Arc::clone(api),
        view: view.clone(),
        sessions: ConsoleSessions::new(api.sessions()),
        oidc: settings.oidc.clone().map(Oidc::new),
        origins: settings.origins.clone(),
        secure: tls,
    });
    let open = Router::new()
        .route("/console/login", get(pages::login::form).post(pages::login::log_in))
        .route("/console/logout", get(pages::login::session).post(pages::login::log_out))
        .route(oidc::START, get(pages::oidc::start))
        .route(oidc::CALLBACK, get(pages::oidc::callback))
        .route("/console/me", get(pages::me::me))
        .route("/console/static/{digest}/{name}", get(assets::serve))
        .route("/console/", get(nowhere).post(nowhere))
        .route("/console/{*rest}", get(nowhere).post(nowhere));
    let checked = middleware::from_fn_with_state(Arc::clone(&console), guard::guard);
    Some(open.merge(of_table()).layer(checked).with_state(console))
}

async fn nowhere(State(console): State<Arc<Console>>) -> Response {
    no_page(&console)
}

/// The answer at an address without a page.
pub(super) fn no_page(console: &Console) -> Response {
    let message = "the console has no page at this address";
    Failure::new(StatusCode::NOT_FOUND, message).page(console)
}

/// The pages in the list of the whole surface.
pub(in super::super) fn surface() -> impl Iterator<Item = (String, Access)> {
    let open = [
        "GET login",
        "POST login",
        "GET login/oidc",
        "GET login/oidc/callback",
        "GET static/{digest}/{name}",
    ];
    let open = open.into_iter().map(|one| (one, Access::Open));
    let own =
        ["GET logout", "POST logout", "GET me"].into_iter().map(|one| (one, Access::Operated));
    let name = |one: &str| one.replacen(' ', &format!(" {ROOT}/"), 1);
    let pages =
        PAGES.iter().map(|page| (format!("{} {}", page.method, page.path), Access::Operated));
    open.chain(own).map(move |(one, access)| (name(one), access)).chain(pages)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::operator::api::ROUTES;

    #[test]
    fn every_page_is_listed_once_below_the_root_and_has_the_right_of_a_route() {
        let names: Vec<String> = surface().map(|(name, _)| name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for page in PAGES {
            assert!(super::super::is_path(page.path), "{}", page.path);
            assert!(ROUTES.iter().any(|row| row.name() == page.row.name()), "{}", page.path);
            // What is sent reaches a route that changes something.
            let changes = page.row.method == Method::POST;
            assert!(page.method == Method::GET || changes, "{}", page.path);
        }
    }
}
