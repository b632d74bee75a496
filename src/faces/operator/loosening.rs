//! Orders that loosen: one takes the labels of a run away, others are signed.

use super::OperatorApi;
use super::api::replies::{FindingException, FindingExceptions, OrderReply};
use super::api::{OperatorRequest, requests, route};
use super::http::malformed;
use crate::approval::order::{AllowedFinding, OrderKind, OrderStatement};
use crate::approval::{SignedApproval, Statement as _};
use crate::control::{Order, Row, Target};
use crate::domain::code::Code;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::record::control::Action;
use crate::serve::problem::Problem;

/// Exceptions that one answer lists.
const PAGE: usize = 256;
/// Rows per read.
const ROWS: usize = 200;

impl OperatorApi {
    /// Takes the labels of a run away: what it has read does not count any more.
    ///
    /// # Errors
    /// There is no reason or no such id, or as [`Self::order`].
    pub(super) async fn clear_taint(
        &self,
        request: OperatorRequest<route::TaintClearing>,
    ) -> Result<OrderReply, Problem> {
        let reason = &request.request.reason;
        let Some(run) = RunId::parse(&request.path.run) else {
            return Err(malformed(self, "the path must name a run by its id"));
        };
        if reason.trim().is_empty() {
            return Err(malformed(
                self,
                "write in `reason` why what the run has read does not count",
            ));
        }
        self.order(&request.who, &Order::ClearTaint { run }, (reason, None), None).await
    }

    /// Puts a signed order that takes back a stop on the list. Every gate checks the order itself.
    ///
    /// # Errors
    /// Nothing was ordered: the statement is not for this tenant, or it cannot be recorded.
    pub(super) async fn loosen(
        &self,
        request: OperatorRequest<route::Reinstatement>,
    ) -> Result<OrderReply, Problem> {
        let kind = (OrderKind::Reinstate, "reinstates a target");
        let (order, parsed) = self.signed_order(request.request, kind)?;
        self.order(&request.who, &order, (&parsed.reason, parsed.expires), None).await
    }

    /// Puts a signed order that lets one value pass the firewall on the list. Every gate checks it itself.
    ///
    /// # Errors
    /// As [`Self::loosen`].
    pub(super) async fn allow_finding(
        &self,
        request: OperatorRequest<route::FindingAllowance>,
    ) -> Result<OrderReply, Problem> {
        let kind = (OrderKind::Allow, "lets one value pass the firewall");
        let (order, parsed) = self.signed_order(request.request, kind)?;
        self.order(&request.who, &order, (&parsed.reason, parsed.expires), None).await
    }

    /// A signed order of this kind, as far as this process can check it. `does`: what the route does.
    fn signed_order(
        &self,
        sent: requests::SignedStatement,
        (kind, does): (OrderKind, &str),
    ) -> Result<(Order, OrderStatement), Problem> {
        let requests::SignedStatement { statement, signature } = sent;
        let signed = SignedApproval { statement, signature };
        let wrong = |why: String| self.refused(Code::RequestMalformed, "", why);
        let parsed = OrderStatement::parse(signed.statement.as_bytes())
            .map_err(|why| wrong(format!("`statement`: {why}")))?;
        if parsed.order != kind {
            let order = parsed.order.as_str();
            return Err(wrong(format!("the statement orders to {order}, but this route {does}")));
        }
        if parsed.tenant != self.tenant() {
            return Err(wrong(format!("the statement is not for tenant `{}`", self.tenant())));
        }
        if Target::parse(&parsed.target, &parsed.name).is_none() {
            return Err(wrong("the statement names no target".into()));
        }
        if parsed.expires.is_some_and(|at| at <= self.clock.now()) {
            return Err(wrong("`expires` has passed".into()));
        }
        Ok((Order::Loosen(signed), parsed))
    }

    /// Ends an exception of the firewall early. This needs no signature.
    ///
    /// # Errors
    /// There is no reason, or no exception has this number.
    pub(super) async fn end_exception(
        &self,
        request: OperatorRequest<route::FindingExceptionEnd>,
    ) -> Result<OrderReply, Problem> {
        let (number, reason) = (request.path.seq.get(), &request.request.reason);
        if reason.trim().is_empty() {
            return Err(malformed(self, "write in `reason` why the value must not pass any more"));
        }
        let rows = self.orders.since(number.saturating_sub(1), 1).await?;
        let row = rows.into_iter().find(|row| row.seq == number);
        if row.as_ref().and_then(allowed).is_none() {
            let message = "no exception of the firewall has this number";
            return Err(self.refused(Code::CallNotFound, "control.seq", message));
        }
        let order = Order::EndException { order: number };
        self.order(&request.who, &order, (reason, None), None).await
    }

    /// The exceptions of the firewall, the newest first.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(super) async fn exceptions(
        &self,
        _: OperatorRequest<route::FindingAllowances>,
    ) -> Result<FindingExceptions, Problem> {
        let (mut all, mut ended, mut last) = (Vec::new(), Vec::new(), 0);
        loop {
            let rows = self.orders.since(last, ROWS).await?;
            let Some(newest) = rows.last() else { break };
            last = newest.seq;
            for row in rows {
                if let Some(Order::EndException { order }) = &row.order {
                    ended.push(*order);
                }
                all.extend(allowed(&row).map(|allowed| (row, allowed)));
            }
        }
        let (now, more) = (self.clock.now(), all.len() > PAGE);
        let mut exceptions = Vec::new();
        for (row, (statement, finding)) in all.into_iter().rev().take(PAGE) {
            let reports = self.orders.reports(row.seq).await?;
            let refuses = |done: &Json| done.get("error").is_some();
            let applied = reports.iter().filter(|report| !refuses(&report.done)).count();
            let state = match statement.expires {
                _ if ended.contains(&row.seq) => "revoked",
                Some(end) if end <= now => "over",
                _ if applied > 0 => "in force",
                _ if reports.is_empty() => "not applied",
                _ => "refused",
            };
            exceptions.push(shown(&row, (statement, finding), (state, applied)));
        }
        Ok(FindingExceptions { exceptions, more })
    }
}

fn shown(
    row: &Row,
    (statement, finding): (OrderStatement, AllowedFinding),
    (state, gates): (&str, usize),
) -> FindingException {
    FindingException {
        seq: row.seq,
        at: row.at.to_string(),
        subject: row.given.subject.clone(),
        tool: statement.name,
        direction: finding.direction,
        kind: finding.kind,
        path: finding.path,
        mark: finding.mark.to_string(),
        reason: statement.reason,
        expires: statement.expires.as_ref().map(Timestamp::to_string).unwrap_or_default(),
        state: state.to_owned(),
        gates,
    }
}

/// What a row lets pass the firewall.
fn allowed(row: &Row) -> Option<(OrderStatement, AllowedFinding)> {
    let Some(Order::Loosen(signed)) = &row.order else { return None };
    let statement = OrderStatement::parse(signed.statement.as_bytes()).ok()?;
    let finding = statement.finding.clone().filter(|_| statement.order == OrderKind::Allow)?;
    Some((statement, finding))
}

/// What a signed order does, and its subject.
pub(super) fn loosened(statement: &str) -> Option<(Action, Target)> {
    let order = OrderStatement::parse(statement.as_bytes()).ok()?;
    let action = if order.order == OrderKind::Allow { Action::Allow } else { Action::Reinstate };
    Some((action, Target::parse(&order.target, &order.name)?))
}
