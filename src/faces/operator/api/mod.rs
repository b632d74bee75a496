//! The operator API as one table: each route once, with its right, its types and its gRPC twins.
//!
//! The table makes the router, and a route without a handler does not compile. The gRPC services, the client of the
//! command line, the reference (`docs/reference/api.md`) and the list of the whole surface name its rows.

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodFilter, on};
use http::{HeaderMap, Method};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::form_urlencoded::byte_serialize;

use super::OperatorApi;
use super::credential::ShownCredential;
use super::http::{HttpReply, handle};
use super::operators::{Operator, Right};
use crate::serve::problem::Problem;

#[macro_use]
pub mod replies;
pub mod alerts;
pub mod audits;
pub mod lookups;
pub mod policies;
pub mod requests;
pub mod standing;
pub mod status;

use requests::{
    BacktestPath, BundlePath, CallPath, ErasurePath, HeldCallPath, NoncePath, OrderPath,
    ReceiptPath, RunPath,
};

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// `GET` reads, `POST` changes.
    pub method: Method,
    /// The path; a parameter stands in braces.
    pub path: &'static str,
    /// What the operator has to have the right to.
    pub right: Right,
    /// What the route does, in one sentence.
    pub about: &'static str,
    /// Its methods of gRPC, as `Service/Method` of `wicketgate.v1`.
    pub twins: &'static [&'static str],
    /// The schema of its request: of the query where it reads, else of the body.
    pub request: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its answer.
    pub reply: fn(&mut SchemaGenerator) -> Schema,
}

impl Row {
    /// Method and path, as documents name a route.
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The full names of its methods of gRPC.
    pub fn methods(&self) -> impl Iterator<Item = String> {
        self.twins.iter().map(|twin| format!("wicketgate.v1.{twin}"))
    }
}

/// What a route takes besides its path.
pub trait Input: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// Bytes of a body that holds it.
    const BYTES_MAX: usize = 256 * 1024;
    /// Whether a request holds it at all.
    const CARRIED: bool = true;
    /// The members of a query that are texts; the others are numbers.
    const TEXTS: &'static [&'static str] = &[];
    /// The finer code of a request that does not hold it.
    const CAUSE: &'static str = "";

    /// Takes what a route needs of the rest of the request.
    fn complete(&mut self, _headers: &HeaderMap, _shown: &ShownCredential) {}
}

impl Input for () {
    const CARRIED: bool = false;
}

/// What a route answers with.
pub trait Reply: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// Whether all that was ordered is done; else it stands, and the answer is 202.
    fn is_complete(&self) -> bool {
        true
    }
}

/// A route: its row, and the types of its request and its answer.
pub trait Route: Sized + Send + Sync + 'static {
    /// Its row of the table.
    const ROW: Row;
    /// The parameters of its path.
    type Path: Serialize + DeserializeOwned + Send + 'static;
    /// Its query or its body.
    type Request: Input;
    /// Its answer.
    type Reply;

    /// The path with these parameters.
    fn path(parameters: &Self::Path) -> String {
        let path = Self::ROW.path.to_owned();
        members(parameters)
            .iter()
            .fold(path, |path, (name, value)| path.replace(&format!("{{{name}}}"), &text(value)))
    }

    /// Where a request goes, and its body: path and query for one that reads, path and JSON for one that changes.
    fn target(parameters: &Self::Path, request: &Self::Request) -> (String, Option<String>) {
        let mut path = Self::path(parameters);
        if !Self::Request::CARRIED {
            return (path, None);
        }
        let sent = members(request);
        if Self::ROW.method != Method::GET {
            return (path, Some(Value::Object(sent).to_string()));
        }
        for (i, (name, value)) in sent.iter().enumerate() {
            let mark = if i == 0 { '?' } else { '&' };
            let value: String = byte_serialize(text(value).as_bytes()).collect();
            path.push_str(&format!("{mark}{name}={value}"));
        }
        (path, None)
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn members(of: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// One request of an operator who has the right to it.
pub(crate) struct OperatorRequest<R: Route> {
    pub who: Operator,
    pub path: R::Path,
    pub request: R::Request,
}

/// A route and what answers it.
pub(crate) trait Serve: Route<Reply: HttpReply> {
    fn serve(
        api: &Arc<OperatorApi>,
        request: OperatorRequest<Self>,
    ) -> impl Future<Output = Result<Self::Reply, Problem>> + Send;
}

/// The answer of a route to this operator: the one caller of a handler, over each protocol. So the table is
/// the only list of rights, for HTTP, gRPC and the console.
///
/// # Errors
/// `operator.forbidden`, or the error of the route.
pub(crate) async fn ask<R: Serve>(
    api: &Arc<OperatorApi>,
    who: &Operator,
    (path, request): (R::Path, R::Request),
) -> Result<R::Reply, Problem> {
    api.permit(who, R::ROW.right)?;
    R::serve(api, OperatorRequest { who: who.clone(), path, request }).await
}

macro_rules! routes {
    ($(
        #[doc = $about:literal]
        $name:ident: $method:ident $path:literal ($parameters:ty), $right:ident, $request:ty => $reply:ty,
        [$($twin:literal),*], $handler:path;
    )*) => {
        /// The routes, as types.
        pub mod route {
            $(
                #[doc = $about]
                #[derive(Clone, Copy, Debug)]
                pub struct $name;
            )*
        }

        $(
            impl Route for route::$name {
                const ROW: Row = Row {
                    method: Method::$method,
                    path: $path,
                    right: Right::$right,
                    about: $about.trim_ascii(),
                    twins: &[$($twin),*],
                    request: |schemas| schemas.subschema_for::<$request>(),
                    reply: <$reply as HttpReply>::schema,
                };
                type Path = $parameters;
                type Request = $request;
                type Reply = $reply;
            }

            impl Serve for route::$name {
                async fn serve(
                    api: &Arc<OperatorApi>,
                    request: OperatorRequest<Self>,
                ) -> Result<Self::Reply, Problem> {
                    $handler(api, request).await
                }
            }
        )*

        /// The table.
        pub const ROUTES: &[Row] = &[$(<route::$name as Route>::ROW),*];

        /// The path of every route, each parameter filled in.
        #[cfg(test)]
        fn paths() -> Vec<String> {
            vec![$(tests::path::<route::$name>()),*]
        }

        /// Serves the table.
        pub(crate) fn router(api: Arc<OperatorApi>) -> Router {
            Router::new()
                $(.route($path, on(MethodFilter::$method, handle::<route::$name>)))*
                .with_state(api)
        }
    };
}

routes! {
    /// Lists the alerts that match, newest first.
    Alerts: GET "/v1/alerts" (()), Look, requests::AlertSearch => alerts::Alerts, ["Calls/Alerts"], OperatorApi::alerts;
    /// Lists the proposed policy bundles and their outcomes.
    Amendments: GET "/v1/amendments" (()), Study, () => replies::Amendments, [], OperatorApi::amendments;
    /// Proposes a signed policy bundle, which every gate then tests.
    AmendmentProposal: POST "/v1/amendments" (()), Propose, requests::Proposal => replies::OrderReply,
        [], OperatorApi::propose;
    /// Shows one proposal with its files and the statements to sign.
    AmendmentDetail: GET "/v1/amendments/{bundle}" (BundlePath), Study, () => replies::AmendmentDetail,
        [], OperatorApi::amendment;
    /// Approves or refuses a proposal.
    AmendmentDecision: POST "/v1/amendments/{bundle}" (BundlePath), Publish, requests::SignedStatement => replies::OrderReply,
        [], OperatorApi::publish;
    /// Activates an approved bundle on every gate.
    AmendmentActivation: POST "/v1/amendments/{bundle}/activate" (BundlePath), Publish, requests::Empty => replies::OrderReply,
        [], OperatorApi::activate;
    /// Verifies a run, a call or a range of a chain with the checks of the offline verifier, and names a changed row.
    AuditVerification: POST "/v1/audit/verify" (()), Export, requests::AuditSelection => audits::AuditReport,
        [], OperatorApi::audit;
    /// Lists the held calls, without their arguments.
    HeldCalls: GET "/v1/approvals" (()), Look, requests::Page => replies::HeldCalls,
        ["Approvals/List"], OperatorApi::held;
    /// Shows one held call with its arguments and the statements to sign.
    HeldCallDetail: GET "/v1/approvals/{run}/{call}" (HeldCallPath), Read, () => replies::HeldCallDetail,
        ["Approvals/Show"], OperatorApi::show;
    /// Approves or refuses a held call.
    HeldCallDecision: POST "/v1/approvals/{run}/{call}" (HeldCallPath), Decide, requests::SignedStatement => replies::OrderReply,
        ["Approvals/Approve", "Approvals/Refuse"], OperatorApi::decide;
    /// Proposes other arguments for a held call.
    HeldCallProposal: POST "/v1/approvals/{run}/{call}/modify" (HeldCallPath), Decide, requests::Modification => replies::OrderReply,
        ["Approvals/Modify"], OperatorApi::modify;
    /// Lists the backtests of this process, the newest first, without their results.
    Backtests: GET "/v1/backtests" (()), Study, () => policies::BacktestJobs, [], OperatorApi::list_backtests;
    /// Begins a backtest of a bundle in a process of its own: which recorded decisions it would change.
    Backtest: POST "/v1/backtests" (()), Study, requests::BacktestRequest => policies::BacktestJob,
        [], OperatorApi::begin_backtest;
    /// Shows one backtest, with its result and the signed statement of it once it is done.
    BacktestDetail: GET "/v1/backtests/{id}" (BacktestPath), Study, () => policies::BacktestJob,
        [], OperatorApi::show_backtest;
    /// Lists the break-glass statements that were opened, and shows which of them still need a review.
    BreakGlass: GET "/v1/break-glass" (()), Look, () => replies::BreakGlass, [], OperatorApi::list_break_glass;
    /// Opens break-glass by a signed statement, if enough people signed it and the alarm webhook accepted the notice.
    BreakGlassOpening: POST "/v1/break-glass" (()), Switch, requests::BreakGlassStatement => replies::OrderReply,
        [], OperatorApi::open_break_glass;
    /// Ends an open statement early.
    BreakGlassEnd: POST "/v1/break-glass/{nonce}/close" (NoncePath), Switch, requests::BreakGlassEnd => replies::OrderReply,
        [], OperatorApi::close_break_glass;
    /// Records the review of a statement that has ended.
    BreakGlassReview: POST "/v1/break-glass/{nonce}/review" (NoncePath), Review, requests::BreakGlassReview => replies::OrderReply,
        [], OperatorApi::review_break_glass;
    /// Lists the calls that match a query, newest first, without their payloads.
    Calls: GET "/v1/calls" (()), Look, requests::CallSearch => lookups::Calls, ["Calls/List"], OperatorApi::calls;
    /// Shows one call, read from its entries, without its payloads.
    CallDetail: GET "/v1/calls/{chain}/{seq}" (CallPath), Look, () => lookups::CallDetail,
        ["Calls/Show"], OperatorApi::call;
    /// Shows the arguments and the result of one call, once an entry records who sees them.
    CallPayloads: GET "/v1/calls/{chain}/{seq}/payloads" (CallPath), Read, () => lookups::CallPayloads,
        ["Calls/Payloads"], OperatorApi::payloads;
    /// Lists the orders with numbers above `since`.
    Orders: GET "/v1/control" (()), Look, requests::OrdersAfter => replies::Orders, ["Control/List"], OperatorApi::rows;
    /// Stops a target: `suspend`, `revoke` or `kill`.
    Stop: POST "/v1/control" (()), Switch, requests::Stop => replies::OrderReply, ["Control/Set"], OperatorApi::stop;
    /// Shows the newest order, which each signed order must name.
    NewestOrder: GET "/v1/control/head" (()), Look, () => replies::Head, ["Control/Head"], OperatorApi::head;
    /// Reinstates a stopped target, by a signed order.
    Reinstatement: POST "/v1/control/reinstate" (()), Switch, requests::SignedStatement => replies::OrderReply,
        ["Control/Reinstate"], OperatorApi::loosen;
    /// Shows one order and what each gate did to carry it out.
    OrderDetail: GET "/v1/control/{seq}" (OrderPath), Look, () => replies::OrderDetail, ["Control/Get"], OperatorApi::row;
    /// Counts the calls of the last 24 hours, and says what became of them.
    Day: GET "/v1/day" (()), Look, () => status::DayCounts, [], OperatorApi::day;
    /// Lists the erasures, the newest first.
    Erasures: GET "/v1/erasures" (()), Custody, () => replies::Erasures, [], OperatorApi::erasures;
    /// Erases payloads by a signed order; with `dry_run` and a `run` or `commitments`, counts what would be erased.
    Erasure: POST "/v1/erasures" (()), Erase, requests::Erasure => replies::ErasureReply, [], OperatorApi::erase;
    /// Shows the newest entry of the fleet log, which each signed order must name.
    NewestErasure: GET "/v1/erasures/head" (()), Custody, () => replies::Head, [], OperatorApi::erasures_head;
    /// Shows one erasure with its receipt.
    ErasureDetail: GET "/v1/erasures/{seq}" (ErasurePath), Custody, () => replies::ErasureDetail, [], OperatorApi::erasure;
    /// Lists the exports that the fleet log records, the newest first.
    Exports: GET "/v1/exports" (()), Export, () => audits::Exports, [], OperatorApi::exported;
    /// Returns an evidence bundle as a zip file, with its summary in the header `wicketgate-export`.
    Export: POST "/v1/exports" (()), Export, requests::Export => super::exports::ExportedFile, [], OperatorApi::export;
    /// Lists the values that pass the firewall by a signed order, newest first.
    FindingAllowances: GET "/v1/firewall/exceptions" (()), Look, () => replies::FindingExceptions,
        ["Firewall/List"], OperatorApi::exceptions;
    /// Lets one value pass the firewall, in one place of the calls of one tool, by a signed order.
    FindingAllowance: POST "/v1/firewall/exceptions" (()), Switch, requests::SignedStatement => replies::OrderReply,
        ["Firewall/Allow"], OperatorApi::allow_finding;
    /// Ends an exception of the firewall early.
    FindingExceptionEnd: POST "/v1/firewall/exceptions/{seq}/revoke" (OrderPath), Switch, requests::ExceptionEnd => replies::OrderReply,
        ["Firewall/Revoke"], OperatorApi::end_exception;
    /// Lists the gates: version, bundle in force, newest order applied.
    Fleet: GET "/v1/fleet" (()), Look, () => replies::Fleet, ["Control/Fleet"], OperatorApi::fleet;
    /// Shows whether calls can be governed, every gate, and the changes of health that are known.
    Health: GET "/v1/health" (()), Look, () => status::Health, [], OperatorApi::health;
    /// Lists the legal holds in force.
    LegalHolds: GET "/v1/holds" (()), Custody, () => replies::LegalHolds, [], OperatorApi::holds;
    /// Places a legal hold on a `run` or a `log` for a `reason`, or lifts one by a signed order.
    LegalHold: POST "/v1/holds" (()), Hold, requests::LegalHold => replies::LegalHoldReply, [], OperatorApi::hold;
    /// Proves that one entry is in the log, under the newest signed checkpoint.
    ReceiptProof: GET "/v1/receipts/{chain}/{seq}/proof" (ReceiptPath), Look, () => lookups::ReceiptProof,
        [], OperatorApi::receipt_proof;
    /// Lists what rules would have denied or held, if observe mode did not let it run, most frequent first.
    ObservedDenials: GET "/v1/observed" (()), Study, requests::ObservedSince => policies::ObservedDenials,
        [], OperatorApi::observed;
    /// Lists held calls that people decide alike, and what keeps others from being a pattern.
    Patterns: GET "/v1/patterns" (()), Look, () => standing::Patterns, ["Calls/Patterns"],
        OperatorApi::patterns;
    /// Lists the bundle in force of each log.
    PolicyInForce: GET "/v1/policy" (()), Study, () => policies::PolicyInForce, [], OperatorApi::policy;
    /// Shows one bundle: its files, its windows, and what it would change of the bundle in force.
    BundleDetail: GET "/v1/policy/{bundle}" (BundlePath), Study, () => policies::BundleDetail, [], OperatorApi::bundle;
    /// Lists the pools with what is left of them, and the stops in force.
    Limits: GET "/v1/limits" (()), Look, () => status::LimitsState, [], OperatorApi::limits;
    /// Streams what runs and calls do, as server-sent events; `after` or `Last-Event-ID` names the last one that the client has.
    Live: GET "/v1/live" (()), Look, requests::LiveFrom => super::live::LiveStream, ["Live/Follow"], OperatorApi::live;
    /// Lists the open runs, those with held calls first; with a `state` or a query, the runs that match, newest first.
    Runs: GET "/v1/runs" (()), Look, requests::RunSearch => lookups::Runs, ["Control/Runs"], OperatorApi::runs;
    /// Shows one run: its calls in the order they began, and the runs that it delegated to.
    RunDetail: GET "/v1/runs/{run}" (RunPath), Look, requests::RunCalls => lookups::RunDetail, [], OperatorApi::run;
    /// Takes the labels of a run away: what it has read does not count any more.
    TaintClearing: POST "/v1/runs/{run}/taint/clear" (RunPath), Switch, requests::TaintClearing => replies::OrderReply,
        ["Control/ClearTaint"], OperatorApi::clear_taint;
    /// Compares a held call with the last approved one of its kind, once an entry records who sees that one's arguments.
    Similar: GET "/v1/similar/{run}/{call}" (HeldCallPath), Read, () => lookups::Similar, [], OperatorApi::similar;
    /// Shows how often the calls of each tool, and of each agent with it, ended well.
    Trust: GET "/v1/trust" (()), Look, () => standing::TrustScores, ["Calls/Trust"], OperatorApi::trust;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::requests::{Page, Stop};
    use super::*;

    /// The path of a route whose parameters are all 1.
    pub(super) fn path<R: Route>() -> String {
        let names = R::ROW.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let names: Vec<String> = names.map(str::to_owned).collect();
        let all = |value: Value| -> Value {
            names.iter().map(|name| (name.clone(), value.clone())).collect()
        };
        let texts = if names.is_empty() { Value::Null } else { all("1".into()) };
        let parameters = serde_json::from_value(texts);
        let parameters = parameters.or_else(|_| serde_json::from_value(all(1.into())));
        R::path(&parameters.unwrap_or_else(|e| panic!("{}: {e}", R::ROW.path)))
    }

    #[test]
    fn every_parameter_of_a_path_is_a_member_of_its_type() {
        let paths = paths();
        assert_eq!(paths.len(), ROUTES.len());
        assert!(!paths.iter().any(|path| path.contains(['{', '}'])), "{paths:?}");
    }

    #[test]
    fn every_route_and_every_method_is_listed_once() {
        let names: Vec<String> = ROUTES.iter().map(Row::name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let methods: Vec<String> = ROUTES.iter().flat_map(Row::methods).collect();
        assert_eq!(methods.iter().collect::<BTreeSet<_>>().len(), methods.len());
    }

    #[test]
    fn what_reads_has_a_query_and_what_changes_a_body() {
        let page = |limit| route::HeldCalls::target(&(), &Page { limit });
        assert_eq!(page(Some(3)), ("/v1/approvals?limit=3".to_owned(), None));
        assert_eq!(page(None), ("/v1/approvals".to_owned(), None));
        let stop = Stop { action: "kill".into(), target: "all".into(), ..Stop::default() };
        let body = r#"{"action":"kill","name":"","reason":"","target":"all"}"#;
        assert_eq!(route::Stop::target(&(), &stop), ("/v1/control".into(), Some(body.into())));
        let call = HeldCallPath { run: "r".into(), call: "c".into() };
        let shown = ("/v1/approvals/r/c".to_owned(), None);
        assert_eq!(route::HeldCallDetail::target(&call, &()), shown);
    }

    #[test]
    fn a_member_that_no_struct_has_is_refused_and_named() {
        let read = |text: &str| {
            let json = crate::domain::json::Json::parse(
                text.as_bytes(),
                &crate::domain::json::Limits::ARGUMENTS,
            );
            super::super::http::input::<Stop>(&json.unwrap()).unwrap_err().message
        };
        let unknown = read(r#"{"action":"kill","target":"all","reason":"r","subject":"anna"}"#);
        assert!(unknown.contains("`subject`"), "{unknown}");
        let number = read(r#"{"action":1,"target":"all","reason":"r"}"#);
        assert!(number.starts_with("`action`: "), "{number}");
        let null = read(r#"{"action":"kill","target":"all","reason":"r","expires":null}"#);
        assert!(null.starts_with("`expires`: "), "{null}");
        let missing = read(r#"{"action":"kill","target":"all"}"#);
        assert!(missing.contains("`reason`"), "{missing}");
        let list = read(r#"["kill","all","","r"]"#);
        assert_eq!(list, "the request: expected an object");
    }
}
