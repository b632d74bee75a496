//! The office over gRPC: `wicketgate.v1.Approvals` and `wicketgate.v1.Control`.
//!
//! Every method is the twin of an HTTP route and has that route's right; there is no second table of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::middleware::{self, Next};
use axum::response::Response as HttpResponse;
use serde_json::Value;
use tonic::{Request, Response, Status};

use super::credential::Shown;
use super::http::{ROUTES, malformed, order};
use super::staff::{Right, Who};
use super::{Office, Sent};
use crate::approval::Signed;
use crate::domain::code::Code;
use crate::domain::json::{Json, Limits};
use crate::serve::body::Timely;
use crate::serve::misread;
use crate::serve::pb;
use crate::serve::pb::approvals_server::{Approvals, ApprovalsServer};
use crate::serve::pb::control_server::{Control, ControlServer};
use crate::serve::problem::Problem;

/// Bytes of one request message.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// How long a message may take to arrive.
const MESSAGE_WITHIN: Duration = Duration::from_secs(10);
/// Lines of a list, unless the client says how many.
const LINES: u32 = 100;

/// Every method, and the HTTP route it is the twin of.
pub const METHODS: [(&str, &str); 12] = [
    ("wicketgate.v1.Approvals/List", "GET /v1/approvals"),
    ("wicketgate.v1.Approvals/Show", "GET /v1/approvals/{run}/{call}"),
    ("wicketgate.v1.Approvals/Approve", "POST /v1/approvals/{run}/{call}"),
    ("wicketgate.v1.Approvals/Refuse", "POST /v1/approvals/{run}/{call}"),
    ("wicketgate.v1.Approvals/Modify", "POST /v1/approvals/{run}/{call}/modify"),
    ("wicketgate.v1.Control/List", "GET /v1/control"),
    ("wicketgate.v1.Control/Set", "POST /v1/control"),
    ("wicketgate.v1.Control/Head", "GET /v1/control/head"),
    ("wicketgate.v1.Control/Reinstate", "POST /v1/control/reinstate"),
    ("wicketgate.v1.Control/Get", "GET /v1/control/{seq}"),
    ("wicketgate.v1.Control/Fleet", "GET /v1/fleet"),
    ("wicketgate.v1.Control/Runs", "GET /v1/runs"),
];

/// The right that a method needs; `None` if there is no such method.
#[must_use]
pub fn right(method: &str) -> Option<Right> {
    let (_, twin) = METHODS.iter().find(|(name, _)| *name == method)?;
    ROUTES.iter().find(|(route, _)| route == twin).map(|(_, right)| *right)
}

/// The router of [`METHODS`].
pub(crate) fn router(office: &Arc<Office>) -> Router {
    let desk = Desk { office: Arc::clone(office) };
    let approvals = ApprovalsServer::new(desk.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let control = ControlServer::new(desk).max_decoding_message_size(MESSAGE_BYTES_MAX);
    Router::new()
        .route_service("/wicketgate.v1.Approvals/{method}", approvals)
        .route_service("/wicketgate.v1.Control/{method}", control)
        .layer(middleware::from_fn_with_state(Arc::clone(office), bounded))
}

/// A message has to arrive in time, and what tonic says of one it cannot read is said in our words.
async fn bounded(
    State(office): State<Arc<Office>>,
    request: HttpRequest,
    next: Next,
) -> HttpResponse {
    let timely = request.map(|body| Body::new(Timely::new(body, MESSAGE_WITHIN)));
    let answer = next.run(timely).await;
    match misread(answer.headers(), "the message is larger than 256 KiB") {
        Some(problem) => office.refuse(problem).status().into_http(),
        None => answer,
    }
}

/// The services.
#[derive(Clone, Debug)]
struct Desk {
    office: Arc<Office>,
}

impl Desk {
    /// Who asks, if that person may ask this.
    fn admit<T>(&self, request: &Request<T>, method: &str) -> Result<Who, Status> {
        let headers = request.metadata().clone().into_headers();
        let Some(right) = right(method) else {
            return Err(Status::unimplemented("no such method"));
        };
        let shown = Shown::of(&headers, request.extensions());
        self.office.admit(&shown, right).map_err(|problem| problem.status())
    }

    fn text(&self, name: &str, bytes: Vec<u8>) -> Result<String, Status> {
        String::from_utf8(bytes)
            .map_err(|_| malformed(&self.office, &format!("`{name}` is no UTF-8")).status())
    }

    async fn word(
        &self,
        method: &str,
        verdict: &str,
        request: Request<pb::SignedWord>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let who = self.admit(&request, method)?;
        let pb::SignedWord { run, call, statement, signature } = request.into_inner();
        let statement = self.text("statement", statement)?;
        let said = Json::parse(statement.as_bytes(), &Limits::ARGUMENTS).ok();
        let said = said.as_ref().and_then(|json| json.get("verdict")?.as_str());
        if said != Some(verdict) {
            let message = format!("the statement does not say `{verdict}`");
            let problem = Problem::new(Code::RequestMalformed, "approval.statement", message);
            return Err(self.office.refuse(problem).status());
        }
        let sent = self.office.word(&who, (&run, &call), (statement, signature)).await;
        sent.map(|sent| ordered(&sent)).map_err(|problem| problem.status())
    }
}

fn ordered(sent: &Sent) -> Response<pb::OrderResponse> {
    Response::new(report(&sent.to_json()))
}

fn report(value: &Value) -> pb::OrderResponse {
    pb::OrderResponse {
        seq: number(value, "seq"),
        complete: flag(value, "complete"),
        runs_sealed: number(value, "runs_sealed"),
        stopped: number(value, "stopped_count"),
        left: number(value, "left"),
        report: value.to_string().into_bytes(),
    }
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    items(value, name).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn objects(value: &Value, name: &str) -> Vec<Vec<u8>> {
    items(value, name).map(|item| item.to_string().into_bytes()).collect()
}

fn lines(limit: u32) -> usize {
    let limit = if limit == 0 { LINES } else { limit };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn held(value: &Value) -> pb::HeldCall {
    pb::HeldCall {
        run: text(value, "run"),
        call: text(value, "call"),
        calls: texts(value, "calls"),
        tool: text(value, "tool"),
        tier: text(value, "tier"),
        agent: text(value, "agent"),
        version: text(value, "version"),
        held_at: text(value, "held"),
        expires: text(value, "expires"),
        reasons: texts(value, "reasons"),
        digest: text(value, "digest"),
        words: text(value, "words"),
        approvals: u32::try_from(number(value, "approvals")).unwrap_or(u32::MAX),
    }
}

#[tonic::async_trait]
impl Approvals for Desk {
    async fn list(
        &self,
        request: Request<pb::ListApprovalsRequest>,
    ) -> Result<Response<pb::ListApprovalsResponse>, Status> {
        self.admit(&request, "wicketgate.v1.Approvals/List")?;
        let found = self
            .office
            .held(lines(request.get_ref().limit))
            .await
            .map_err(|problem| problem.status())?;
        Ok(Response::new(pb::ListApprovalsResponse {
            held: items(&found, "held").map(held).collect(),
            asks: number(&found, "asks"),
            calls: number(&found, "calls"),
            more: flag(&found, "more"),
        }))
    }

    async fn show(
        &self,
        request: Request<pb::ShowApprovalRequest>,
    ) -> Result<Response<pb::ShowApprovalResponse>, Status> {
        self.admit(&request, "wicketgate.v1.Approvals/Show")?;
        let pb::ShowApprovalRequest { run, call } = request.get_ref();
        let shown = self.office.show(run, call).await.map_err(|problem| problem.status())?;
        let facts = shown.get("facts").map(ToString::to_string).unwrap_or_default();
        Ok(Response::new(pb::ShowApprovalResponse {
            facts: facts.into_bytes(),
            statement: text(&shown, "statement").into_bytes(),
            refusal: text(&shown, "refusal").into_bytes(),
            view: text(&shown, "view"),
        }))
    }

    async fn approve(
        &self,
        request: Request<pb::SignedWord>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        self.word("wicketgate.v1.Approvals/Approve", "approve", request).await
    }

    async fn refuse(
        &self,
        request: Request<pb::SignedWord>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        self.word("wicketgate.v1.Approvals/Refuse", "refuse", request).await
    }

    async fn modify(
        &self,
        request: Request<pb::ModifyCallRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let who = self.admit(&request, "wicketgate.v1.Approvals/Modify")?;
        let pb::ModifyCallRequest { run, call, arguments, reason, statement, signature } =
            request.into_inner();
        let arguments = self.text("arguments", arguments)?;
        let signed = (self.text("statement", statement)?, signature);
        let sent = self.office.modify(&who, (&run, &call), (&arguments, &reason), signed).await;
        sent.map(|sent| ordered(&sent)).map_err(|problem| problem.status())
    }
}

#[tonic::async_trait]
impl Control for Desk {
    async fn list(
        &self,
        request: Request<pb::ListOrdersRequest>,
    ) -> Result<Response<pb::ListOrdersResponse>, Status> {
        self.admit(&request, "wicketgate.v1.Control/List")?;
        let found =
            self.office.rows(request.get_ref().since).await.map_err(|problem| problem.status())?;
        Ok(Response::new(pb::ListOrdersResponse {
            orders: objects(&found, "orders"),
            next: number(&found, "next"),
            more: flag(&found, "more"),
        }))
    }

    async fn set(
        &self,
        request: Request<pb::SetControlRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let who = self.admit(&request, "wicketgate.v1.Control/Set")?;
        let asked = request.into_inner();
        let members = [
            ("action", asked.action),
            ("target", asked.target),
            ("name", asked.name),
            ("reason", asked.reason),
            ("expires", asked.expires),
        ];
        // Empty is absent: the same reader as over HTTP says what is wrong with the rest.
        let given = members.into_iter().filter(|(_, text)| !text.is_empty());
        let body = Json::object(given.map(|(name, text)| (name, Json::from(text))));
        let (what, reason, expires) =
            order(&self.office, &body).map_err(|problem| problem.status())?;
        let sent = self.office.order(&who, &what, (&reason, expires), None).await;
        sent.map(|sent| ordered(&sent)).map_err(|problem| problem.status())
    }

    async fn head(
        &self,
        request: Request<pb::HeadRequest>,
    ) -> Result<Response<pb::HeadResponse>, Status> {
        self.admit(&request, "wicketgate.v1.Control/Head")?;
        let head = self.office.head().await.map_err(|problem| problem.status())?;
        let text = |name| head.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let seq = head.get("seq").and_then(Value::as_u64).unwrap_or_default();
        Ok(Response::new(pb::HeadResponse { tenant: text("tenant"), seq, digest: text("digest") }))
    }

    async fn reinstate(
        &self,
        request: Request<pb::ReinstateRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let who = self.admit(&request, "wicketgate.v1.Control/Reinstate")?;
        let pb::ReinstateRequest { statement, signature } = request.into_inner();
        let sent = self.office.loosen(&who, Signed { statement, signature }).await;
        sent.map(|sent| ordered(&sent)).map_err(|problem| problem.status())
    }

    async fn get(
        &self,
        request: Request<pb::GetOrderRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        self.admit(&request, "wicketgate.v1.Control/Get")?;
        let seq = request.get_ref().seq;
        if seq == 0 {
            return Err(malformed(&self.office, "the number of an order is 1 or more").status());
        }
        let row = self.office.row(seq).await.map_err(|problem| problem.status())?;
        Ok(Response::new(report(&row)))
    }

    async fn fleet(
        &self,
        request: Request<pb::FleetRequest>,
    ) -> Result<Response<pb::FleetResponse>, Status> {
        self.admit(&request, "wicketgate.v1.Control/Fleet")?;
        let found = self.office.fleet().await.map_err(|problem| problem.status())?;
        let (gates, never_seen) = (objects(&found, "gates"), texts(&found, "never_seen"));
        Ok(Response::new(pb::FleetResponse { gates, never_seen }))
    }

    async fn runs(
        &self,
        request: Request<pb::ListRunsRequest>,
    ) -> Result<Response<pb::ListRunsResponse>, Status> {
        self.admit(&request, "wicketgate.v1.Control/Runs")?;
        let found = self
            .office
            .runs(lines(request.get_ref().limit))
            .await
            .map_err(|problem| problem.status())?;
        Ok(Response::new(pb::ListRunsResponse {
            runs: objects(&found, "runs"),
            open: number(&found, "open"),
            more: flag(&found, "more"),
        }))
    }
}
