//! The operator API over gRPC: `wicketgate.v1.Approvals`, `Control`, `Firewall`, `Calls` and `Live`.
//!
//! Every method is the twin of a route of the table: it has the right, the types and the handler of that route.

mod firewall;

use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::middleware::{self, Next};
use axum::response::Response as HttpResponse;
use futures_util::{Stream, StreamExt as _, stream};
use serde::Serialize;
use tonic::{Request, Response, Status};

use super::OperatorApi;
use super::api::replies::{HeldCall, OrderReply, Outcome};
use super::api::requests::{
    AlertSearch, CallPath, CallSearch, HeldCallPath, LiveFrom, Modification, OrderPath,
    OrdersAfter, Page, RunPath, RunSearch, SignedStatement, TaintClearing,
};
use super::api::{Input as _, Serve, ask, route};
use super::credential::ShownCredential;
use super::http::{input, malformed};
use super::live::{LiveItem, LiveStream};
use crate::approval::{ApprovalStatement, ApproverVerdict, Statement as _};
use crate::domain::code::Code;
use crate::domain::json::Json;
use crate::serve::body::Timely;
use crate::serve::misread;
use crate::serve::pb;
use crate::serve::pb::approvals_server::{Approvals, ApprovalsServer};
use crate::serve::pb::calls_server::{Calls, CallsServer};
use crate::serve::pb::control_server::{Control, ControlServer};
use crate::serve::pb::firewall_server::FirewallServer;
use crate::serve::pb::live_server::{Live, LiveServer};
use crate::serve::problem::Problem;

/// Bytes of one request message.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// How long a message may take to arrive.
const MESSAGE_WITHIN: Duration = Duration::from_secs(10);

/// The router of the services.
pub(crate) fn router(api: &Arc<OperatorApi>) -> Router {
    let services = Services { operator_api: Arc::clone(api) };
    let approvals =
        ApprovalsServer::new(services.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let control = ControlServer::new(services.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let calls = CallsServer::new(services.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let firewall =
        FirewallServer::new(services.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let live = LiveServer::new(services).max_decoding_message_size(MESSAGE_BYTES_MAX);
    Router::new()
        .route_service("/wicketgate.v1.Approvals/{method}", approvals)
        .route_service("/wicketgate.v1.Control/{method}", control)
        .route_service("/wicketgate.v1.Firewall/{method}", firewall)
        .route_service("/wicketgate.v1.Calls/{method}", calls)
        .route_service("/wicketgate.v1.Live/{method}", live)
        .layer(middleware::from_fn_with_state(Arc::clone(api), bounded))
}

/// Enforces a deadline for reading a message, and replaces tonic's error for an unreadable one by a
/// `Problem`.
async fn bounded(
    State(api): State<Arc<OperatorApi>>,
    request: HttpRequest,
    next: Next,
) -> HttpResponse {
    let timely = request.map(|body| Body::new(Timely::new(body, MESSAGE_WITHIN)));
    let answer = next.run(timely).await;
    match misread(answer.headers(), "the message is larger than 256 KiB") {
        Some(problem) => api.refuse(problem).status().into_http(),
        None => answer,
    }
}

/// The services.
#[derive(Clone, Debug)]
struct Services {
    operator_api: Arc<OperatorApi>,
}

impl Services {
    /// Answers as the route does, once the operator's right to it is known.
    async fn answer<R: Serve, M>(
        &self,
        request: Request<M>,
        read: impl FnOnce(&OperatorApi, M) -> Result<(R::Path, R::Request), Problem> + Send,
    ) -> Result<R::Reply, Status>
    where
        M: Send,
    {
        let shown = ShownCredential::of(request.metadata().as_ref(), request.extensions());
        let answered = async {
            let who = self.operator_api.admit(&shown, R::ROW.right)?;
            let headers = request.metadata().as_ref().clone();
            let (path, mut request) = read(&self.operator_api, request.into_inner())?;
            request.complete(&headers, &shown);
            ask::<R>(&self.operator_api, &who, (path, request)).await
        };
        answered.await.map_err(|problem| problem.status())
    }

    async fn decide(
        &self,
        verdict: ApproverVerdict,
        request: Request<pb::SignedWord>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let decided = self.answer::<route::HeldCallDecision, _>(request, |api, sent| {
            let pb::SignedWord { run, call, statement, signature } = sent;
            let statement = text(api, "statement", statement)?;
            let read = ApprovalStatement::parse(statement.as_bytes()).ok();
            if read.is_none_or(|read| read.verdict != verdict) {
                let message = format!("the statement does not say `{}`", verdict.as_str());
                return Err(api.refused(Code::RequestMalformed, "approval.statement", message));
            }
            Ok((HeldCallPath { run, call }, SignedStatement { statement, signature }))
        });
        decided.await.map(|reply| ordered(&reply))
    }
}

fn text(api: &OperatorApi, name: &str, bytes: Vec<u8>) -> Result<String, Problem> {
    String::from_utf8(bytes).map_err(|_| malformed(api, &format!("`{name}` is not UTF-8")))
}

/// The number of an order.
fn number(api: &OperatorApi, seq: u64) -> Result<NonZeroU64, Problem> {
    let wrong = || malformed(api, "the number of an order must be 1 or more");
    NonZeroU64::new(seq).ok_or_else(wrong)
}

/// Zero is absent.
fn page(limit: u32) -> Page {
    Page { limit: NonZeroU64::new(limit.into()).map(NonZeroU64::get) }
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    // As over HTTP, where the members are sorted.
    serde_json::to_value(value).unwrap_or_default().to_string().into_bytes()
}

fn objects(items: &[impl Serialize]) -> Vec<Vec<u8>> {
    items.iter().map(bytes).collect()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn ordered(reply: &OrderReply) -> Response<pb::OrderResponse> {
    Response::new(report(&reply.outcome, bytes(reply)))
}

fn report(outcome: &Outcome, report: Vec<u8>) -> pb::OrderResponse {
    pb::OrderResponse {
        seq: outcome.seq,
        complete: outcome.complete,
        runs_sealed: outcome.runs_sealed,
        stopped: outcome.stopped_count,
        left: outcome.left,
        report,
    }
}

fn held(call: HeldCall) -> pb::HeldCall {
    pb::HeldCall {
        run: call.run.unwrap_or_default(),
        call: call.call,
        calls: call.calls,
        tool: call.tool.unwrap_or_default(),
        tier: call.tier.unwrap_or_default(),
        agent: call.agent,
        version: call.version,
        held_at: call.held,
        expires: call.expires.unwrap_or_default(),
        reasons: call.reasons,
        digest: call.digest.unwrap_or_default(),
        words: call.words.unwrap_or_default(),
        approvals: u32::try_from(call.approvals).unwrap_or(u32::MAX),
    }
}

#[tonic::async_trait]
impl Approvals for Services {
    async fn list(
        &self,
        request: Request<pb::ListApprovalsRequest>,
    ) -> Result<Response<pb::ListApprovalsResponse>, Status> {
        let found = self
            .answer::<route::HeldCalls, _>(request, |_, message| Ok(((), page(message.limit))))
            .await?;
        Ok(Response::new(pb::ListApprovalsResponse {
            held: found.held.into_iter().map(held).collect(),
            asks: count(found.asks),
            calls: count(found.calls),
            more: found.more,
        }))
    }

    async fn show(
        &self,
        request: Request<pb::ShowApprovalRequest>,
    ) -> Result<Response<pb::ShowApprovalResponse>, Status> {
        let shown = self.answer::<route::HeldCallDetail, _>(request, |_, message| {
            Ok((HeldCallPath { run: message.run, call: message.call }, ()))
        });
        let shown = shown.await?;
        Ok(Response::new(pb::ShowApprovalResponse {
            facts: bytes(&shown.facts),
            statement: shown.statement.into_bytes(),
            refusal: shown.refusal.into_bytes(),
            view: shown.view,
        }))
    }

    async fn approve(
        &self,
        request: Request<pb::SignedWord>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        self.decide(ApproverVerdict::Approve, request).await
    }

    async fn refuse(
        &self,
        request: Request<pb::SignedWord>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        self.decide(ApproverVerdict::Refuse, request).await
    }

    async fn modify(
        &self,
        request: Request<pb::ModifyCallRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let sent = self.answer::<route::HeldCallProposal, _>(request, |api, sent| {
            let pb::ModifyCallRequest { run, call, arguments, reason, statement, signature } = sent;
            let arguments = text(api, "arguments", arguments)?;
            let statement = text(api, "statement", statement)?;
            let modification = Modification { arguments, reason, statement, signature };
            Ok((HeldCallPath { run, call }, modification))
        });
        sent.await.map(|reply| ordered(&reply))
    }
}

#[tonic::async_trait]
impl Control for Services {
    async fn list(
        &self,
        request: Request<pb::ListOrdersRequest>,
    ) -> Result<Response<pb::ListOrdersResponse>, Status> {
        let found = self.answer::<route::Orders, _>(request, |_, message| {
            Ok(((), OrdersAfter { since: message.since }))
        });
        let found = found.await?;
        let (orders, next, more) = (objects(&found.orders), found.next, found.more);
        Ok(Response::new(pb::ListOrdersResponse { orders, next, more }))
    }

    async fn set(
        &self,
        request: Request<pb::SetControlRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let sent = self.answer::<route::Stop, _>(request, |api, sent| {
            let members = [
                ("action", sent.action),
                ("target", sent.target),
                ("name", sent.name),
                ("reason", sent.reason),
                ("expires", sent.expires),
            ];
            // An empty field counts as absent: the HTTP reader reports errors in the rest.
            let given = members.into_iter().filter(|(_, text)| !text.is_empty());
            let body = Json::object(given.map(|(name, text)| (name, Json::from(text))));
            Ok(((), input(&body).map_err(|problem| api.refuse(problem))?))
        });
        sent.await.map(|reply| ordered(&reply))
    }

    async fn head(
        &self,
        request: Request<pb::HeadRequest>,
    ) -> Result<Response<pb::HeadResponse>, Status> {
        let head = self.answer::<route::NewestOrder, _>(request, |_, _| Ok(((), ()))).await?;
        let (tenant, seq, digest) = (head.tenant, head.seq, head.digest);
        Ok(Response::new(pb::HeadResponse { tenant, seq, digest }))
    }

    async fn reinstate(
        &self,
        request: Request<pb::ReinstateRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let sent = self.answer::<route::Reinstatement, _>(request, |_, sent| {
            let pb::ReinstateRequest { statement, signature } = sent;
            Ok(((), SignedStatement { statement, signature }))
        });
        sent.await.map(|reply| ordered(&reply))
    }

    async fn clear_taint(
        &self,
        request: Request<pb::ClearTaintRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let sent = self.answer::<route::TaintClearing, _>(request, |_, sent| {
            let pb::ClearTaintRequest { run, reason } = sent;
            Ok((RunPath { run }, TaintClearing { reason }))
        });
        sent.await.map(|reply| ordered(&reply))
    }

    async fn get(
        &self,
        request: Request<pb::GetOrderRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let shown = self.answer::<route::OrderDetail, _>(request, |api, message| {
            Ok((OrderPath { seq: number(api, message.seq)? }, ()))
        });
        let shown = shown.await?;
        Ok(Response::new(report(&shown.outcome, bytes(&shown))))
    }

    async fn fleet(
        &self,
        request: Request<pb::FleetRequest>,
    ) -> Result<Response<pb::FleetResponse>, Status> {
        let found = self.answer::<route::Fleet, _>(request, |_, _| Ok(((), ()))).await?;
        let (gates, never_seen) = (objects(&found.gates), found.never_seen);
        Ok(Response::new(pb::FleetResponse { gates, never_seen }))
    }

    async fn runs(
        &self,
        request: Request<pb::ListRunsRequest>,
    ) -> Result<Response<pb::ListRunsResponse>, Status> {
        let found = self
            .answer::<route::Runs, _>(request, |_, message| {
                let limit = page(message.limit).limit;
                Ok(((), RunSearch { limit, ..RunSearch::default() }))
            })
            .await?;
        let (runs, open, more) = (objects(&found.runs), found.open, found.more);
        Ok(Response::new(pb::ListRunsResponse { runs, open, more }))
    }
}

/// An empty text is absent.
fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

#[tonic::async_trait]
impl Calls for Services {
    async fn list(
        &self,
        request: Request<pb::ListCallsRequest>,
    ) -> Result<Response<pb::ListCallsResponse>, Status> {
        let found = self.answer::<route::Calls, _>(request, |_, sent| {
            let pb::ListCallsRequest { query, since, until, cursor, limit } = sent;
            let limit = page(limit).limit;
            let (q, since) = (given(query), given(since));
            Ok(((), CallSearch { q, since, until: given(until), cursor: given(cursor), limit }))
        });
        let found = found.await?;
        Ok(Response::new(pb::ListCallsResponse {
            calls: objects(&found.calls),
            next: found.next.unwrap_or_default(),
            as_of: found.as_of,
            behind: found.behind,
        }))
    }

    async fn show(
        &self,
        request: Request<pb::CallRequest>,
    ) -> Result<Response<pb::CallResponse>, Status> {
        let shown = self.answer::<route::CallDetail, _>(request, |_, sent| Ok((named(sent), ())));
        Ok(Response::new(pb::CallResponse { call: bytes(&shown.await?) }))
    }

    async fn payloads(
        &self,
        request: Request<pb::CallRequest>,
    ) -> Result<Response<pb::CallPayloadsResponse>, Status> {
        let shown = self.answer::<route::CallPayloads, _>(request, |_, sent| Ok((named(sent), ())));
        let payloads = objects(&shown.await?.payloads);
        Ok(Response::new(pb::CallPayloadsResponse { payloads }))
    }

    async fn alerts(
        &self,
        request: Request<pb::ListAlertsRequest>,
    ) -> Result<Response<pb::ListAlertsResponse>, Status> {
        let found =
            self.answer::<route::Alerts, _>(request, |_, sent| Ok(((), alerts_wanted(sent))));
        let found = found.await?;
        let (alerts, more) = (objects(&found.alerts), found.more);
        Ok(Response::new(pb::ListAlertsResponse { alerts, more }))
    }

    async fn trust(
        &self,
        request: Request<pb::TrustRequest>,
    ) -> Result<Response<pb::TrustResponse>, Status> {
        let found = self.answer::<route::Trust, _>(request, |_, _| Ok(((), ()))).await?;
        Ok(Response::new(pb::TrustResponse {
            scores: objects(&found.scores),
            drops: objects(&found.drops),
            window: found.window,
            days: found.days,
            as_of: found.as_of,
            behind: found.behind,
        }))
    }

    async fn patterns(
        &self,
        request: Request<pb::PatternsRequest>,
    ) -> Result<Response<pb::PatternsResponse>, Status> {
        let found = self.answer::<route::Patterns, _>(request, |_, _| Ok(((), ()))).await?;
        Ok(Response::new(pb::PatternsResponse {
            patterns: objects(&found.patterns),
            more: found.more,
            lacking: objects(&found.lacking),
            unread: found.unread,
        }))
    }
}

fn alerts_wanted(sent: pb::ListAlertsRequest) -> AlertSearch {
    let pb::ListAlertsRequest { run, agent, tool, alert, severity, since, limit } = sent;
    AlertSearch {
        run: given(run),
        agent: given(agent),
        tool: given(tool),
        alert: given(alert),
        severity: given(severity),
        since: given(since),
        limit: page(limit).limit,
    }
}

fn named(sent: pb::CallRequest) -> CallPath {
    CallPath { chain: sent.chain, seq: sent.seq.to_string() }
}

/// One item of the feed as a message.
fn live(item: &LiveItem) -> pb::LiveMessage {
    let id = item.place().to_string();
    let content = match item {
        LiveItem::Event(event) => pb::live_message::Content::Event(bytes(&event.line)),
        LiveItem::More(_, more) => {
            pb::live_message::Content::LeftOut(pb::LeftOut { events: *more })
        }
    };
    pb::LiveMessage { id, content: Some(content) }
}

#[tonic::async_trait]
impl Live for Services {
    type FollowStream = Pin<Box<dyn Stream<Item = Result<pb::LiveMessage, Status>> + Send>>;

    async fn follow(
        &self,
        request: Request<pb::FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let answered = self.answer::<route::Live, _>(request, |_, sent| {
            Ok(((), LiveFrom { after: given(sent.after), ..LiveFrom::default() }))
        });
        let LiveStream(reader) = answered.await?;
        let rounds = stream::unfold(reader, |mut reader| async move {
            let items = reader.round().await?;
            Some((items, reader))
        });
        let messages = rounds
            .flat_map(|items| stream::iter(items.iter().map(live).map(Ok).collect::<Vec<_>>()));
        Ok(Response::new(Box::pin(messages)))
    }
}
