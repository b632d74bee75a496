//! Orders: put on the list, recorded, and answered with their real outcome at each gate.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use super::api::replies::{
    Fleet, Gate, GateReport, Head, OrderDetail, OrderReply, OrderRow, Orders, Outcome, Recorded,
    SilentGate,
};
use super::api::{OperatorRequest, requests, route};
use super::approval_queue::{OpenRuns, Run};
use super::http::malformed;
use super::loosening::loosened;
use super::operators::Operator;
use super::{FRESH, OperatorApi, REPORTS_WITHIN};
use crate::approval::order::Previous;
use crate::approval::{ApprovalStatement, Approvers, Statement as _};
use crate::control::answer::{ENDED, Patience};
use crate::control::{self, Order, OrderOrigin, OrderReport, Presence, Row, Target};
use crate::domain::code::Code;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::{LedgerStatus, permit::Receipt};
use crate::record::control::{Action, ControlSet, TargetKind};
use crate::record::decided::clip;
use crate::record::{Draft, Text};
use crate::serve::problem::Problem;

/// Rows in one answer.
const ROWS_MAX: usize = 200;
/// Bytes of a reason in an entry.
const REASON_MAX: usize = 1024;

/// The gates' answers to an order on the list.
struct Reports {
    reports: Vec<OrderReport>,
    /// Gates that did not report, and when they last reported anything.
    missing: Vec<(String, Timestamp)>,
    /// Whether it is a decision about one held call, for one gate.
    one_call: bool,
}

impl Reports {
    fn sum(&self, name: &str) -> u64 {
        let of =
            |report: &OrderReport| report.done.get(name).and_then(Json::as_u64).unwrap_or_default();
        self.reports.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Whether every gate obeyed, at least one knows the target, and no call was left running; of a
    /// decision, whether it counted; of a proposal, whether the gates hold it.
    fn complete(&self) -> bool {
        let field = |report: &OrderReport, name: &str| report.done.get(name).cloned();
        if self.one_call {
            // A proposal is done once its call waits for another approver.
            let proposed = |r: &OrderReport| {
                field(r, "asked").is_some() && field(r, "call") == Some(Json::from("held"))
            };
            let counted = |r: &OrderReport| field(r, "counted") == Some(Json::Bool(true));
            return self.reports.iter().any(|r| counted(r) || proposed(r));
        }
        // If no gate knows the target, nothing was stopped.
        let known = self.reports.iter().any(|r| field(r, "known") != Some(Json::Bool(false)));
        let failed = self.reports.iter().any(|report| field(report, "error").is_some());
        let some = !self.reports.is_empty() && self.missing.is_empty();
        some && known && !failed && self.sum("left") == 0
    }

    fn outcome(&self, seq: u64) -> Outcome {
        let silent_gate = |(origin, seen): &(String, Timestamp)| SilentGate {
            origin: origin.clone(),
            last_seen: seen.to_string(),
        };
        Outcome {
            seq,
            complete: self.complete(),
            stopped_count: self.sum("stopped_count"),
            runs_sealed: self.sum("runs_sealed"),
            left: self.sum("left"),
            gates: self.reports.iter().map(GateReport::from).collect(),
            not_reached: self.missing.iter().map(silent_gate).collect(),
        }
    }
}

impl From<&OrderReport> for GateReport {
    fn from(report: &OrderReport) -> Self {
        let (origin, at) = (report.origin.clone(), report.at.to_string());
        Self { origin, at, done: report.done.to_serde() }
    }
}

impl From<Receipt> for Recorded {
    fn from(receipt: Receipt) -> Self {
        Self { origin: receipt.origin.to_string(), seq: receipt.seq, hash: receipt.leaf.hex() }
    }
}

impl OperatorApi {
    /// Stops a target.
    ///
    /// # Errors
    /// The stop cannot be read, or as [`Self::order`].
    pub(super) async fn stop(
        &self,
        request: OperatorRequest<route::Stop>,
    ) -> Result<OrderReply, Problem> {
        let requests::Stop { action, target, name, reason, expires } = &request.request;
        let wrong = |message| malformed(self, message);
        let action = control::Action::parse(action)
            .ok_or_else(|| wrong("`action` must be suspend, revoke or kill"))?;
        if action == control::Action::Reinstate {
            return Err(wrong(
                "reinstating needs a signed order: use `wicketgate control reinstate`, or POST /v1/control/reinstate",
            ));
        }
        let target = Target::parse(target, name).ok_or_else(|| wrong(Target::EXPECTED))?;
        if target.is_part() && action != control::Action::Suspend {
            return Err(wrong("a part of the gate is only suspended: what runs there goes on"));
        }
        if reason.trim().is_empty() {
            return Err(wrong("write in `reason` why the target is stopped"));
        }
        let expires = expires.as_ref().map(|text| {
            let at = Timestamp::parse(text).filter(|at| *at > self.clock.now());
            at.ok_or_else(|| wrong("`expires` must be a time in the future (RFC 3339)"))
        });
        let order = Order::Switch { action, target };
        self.order(&request.who, &order, (reason, expires.transpose()?), None).await
    }

    /// Puts an order on the list, records it, and waits at most two seconds for the gates' answers:
    /// all of them, or that of the gate with the run (`only`).
    ///
    /// # Errors
    /// Nothing was ordered: the list or, for a loosening order, the ledger cannot be written.
    pub(super) async fn order(
        &self,
        who: &Operator,
        order: &Order,
        given: (&str, Option<Timestamp>),
        only: Option<&str>,
    ) -> Result<OrderReply, Problem> {
        self.order_within(who, order, given, (only, REPORTS_WITHIN)).await
    }

    /// As [`Self::order`], waiting at most this long.
    pub(super) async fn order_within(
        &self,
        who: &Operator,
        order: &Order,
        (reason, expires): (&str, Option<Timestamp>),
        (only, within): (Option<&str>, Duration),
    ) -> Result<OrderReply, Problem> {
        // WHY: a stop must work while the ledger fails; an order that loosens must be recorded.
        if opens(order) && !matches!(*self.ledger.status().borrow(), LedgerStatus::Ready) {
            let message = "the ledger cannot be written, and this order must be recorded first";
            return Err(Problem::new(Code::LedgerUnavailable, "", message));
        }
        let given = OrderOrigin {
            subject: who.subject.clone(),
            roles: who.role_names(),
            auth: who.auth.clone(),
            reason: clip(reason, REASON_MAX),
            expires,
        };
        let stored = self.orders.put(self.clock.now(), &given, order).await;
        let seq = stored?;
        let entry = DraftWithPayloads::bare(Draft::of(entry(seq, &given, order)));
        let receipt = match self.ledger.record(entry).await {
            Ok(receipt) => Some(receipt),
            Err(error) => {
                tracing::error!(seq, %error, "an operator's order is in force, but its ledger entry is not written");
                None
            }
        };
        let (reports, missing) = self.reported(seq, (only, within)).await?;
        let outcome = Reports { reports, missing, one_call: only.is_some() }.outcome(seq);
        Ok(OrderReply { recorded: receipt.map(Recorded::from), outcome })
    }

    /// The gates' answers to a row, once all have answered or the time is over.
    async fn reported(
        &self,
        seq: u64,
        (only, within): (Option<&str>, Duration),
    ) -> Result<(Vec<OrderReport>, Vec<(String, Timestamp)>), Problem> {
        let patience = Patience::of(within);
        loop {
            let reports = self.orders.reports(seq).await?;
            let missing = self.missing(&reports, only).await?;
            let fresh = |seen: &Timestamp| !self.is_silent(*seen);
            if patience.is_over() || !missing.iter().any(|(_, seen)| fresh(seen)) {
                return Ok((reports, missing));
            }
            patience.pause().await;
        }
    }

    /// Gates that should have reported and did not. A gate that ended in order runs no call.
    async fn missing(
        &self,
        reports: &[OrderReport],
        only: Option<&str>,
    ) -> Result<Vec<(String, Timestamp)>, Problem> {
        let seen: BTreeSet<&str> = reports.iter().map(|report| report.origin.as_str()).collect();
        let shown = self.orders.shown().await?;
        let runs = |gate: &Presence| gate.state.get(ENDED).and_then(Json::as_bool) != Some(true);
        let mut gates: BTreeMap<String, Timestamp> =
            shown.into_iter().filter(runs).map(|gate| (gate.origin, gate.at)).collect();
        if let Some(only) = only {
            gates.entry(only.to_owned()).or_insert(Timestamp::from_millis(0));
            gates.retain(|origin, _| origin == only);
        }
        gates.retain(|origin, _| !seen.contains(origin.as_str()));
        if gates.is_empty() {
            return Ok(Vec::new());
        }
        let runs = self.look().await?;
        let ended = |origin: &str| runs.origin(origin).is_some_and(|chain| chain.stopped);
        Ok(gates.into_iter().filter(|(origin, _)| !ended(origin)).collect())
    }

    /// Whether a gate that last reported at this time counts as silent.
    pub(super) fn is_silent(&self, seen: Timestamp) -> bool {
        seen.plus(FRESH) < self.clock.now()
    }

    /// An order and its outcome.
    ///
    /// # Errors
    /// No order has this number.
    pub(super) async fn row(
        &self,
        request: OperatorRequest<route::OrderDetail>,
    ) -> Result<OrderDetail, Problem> {
        let seq = request.path.seq.get();
        let rows = self.orders.since(seq.saturating_sub(1), 1).await?;
        let Some(row) = rows.into_iter().find(|row| row.seq == seq) else {
            return Err(self.refused(Code::CallNotFound, "control.seq", "no such order"));
        };
        let reports = self.orders.reports(seq).await?;
        let one_call = matches!(
            row.order,
            None | Some(Order::ApproverStatement { .. } | Order::Modify { .. })
        );
        let missing = if one_call { Vec::new() } else { self.missing(&reports, None).await? };
        let outcome = Reports { reports, missing, one_call }.outcome(seq);
        Ok(OrderDetail { order: shown_row(&row), outcome })
    }

    /// The newest row, by number and digest: a signed order names it as its predecessor.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(super) async fn head(
        &self,
        _: OperatorRequest<route::NewestOrder>,
    ) -> Result<Head, Problem> {
        let last = self.orders.last().await?;
        let none = (Previous::NONE.seq, Previous::NONE.digest);
        let (seq, digest) = last.map_or(none, |row| (row.seq, row.digest));
        Ok(Head { tenant: self.tenant.clone(), seq, digest: digest.prefixed() })
    }

    /// Fingerprints of stopped keys that were not reinstated: none of them counts on this list.
    pub(super) async fn stopped_keys(&self, list: &Approvers) -> Result<BTreeSet<String>, Problem> {
        let whose = (self.tenant.as_str(), list);
        let stopped = control::stopped_keys(&*self.orders, whose, self.clock.now()).await;
        Ok(stopped?)
    }

    /// Rows above this number.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(super) async fn rows(
        &self,
        request: OperatorRequest<route::Orders>,
    ) -> Result<Orders, Problem> {
        let since = request.request.since;
        let rows = self.orders.since(since, ROWS_MAX).await?;
        let next = rows.last().map_or(since, |row| row.seq);
        let orders = rows.iter().map(shown_row).collect();
        Ok(Orders { orders, next, more: rows.len() == ROWS_MAX })
    }

    /// Every gate that ever reported.
    ///
    /// # Errors
    /// List or ledger cannot be read.
    pub(super) async fn fleet(&self, _: OperatorRequest<route::Fleet>) -> Result<Fleet, Problem> {
        let shown = self.orders.shown().await?;
        let runs = self.look().await?;
        let now = self.clock.now();
        let gate = |gate: &Presence| {
            let chain = runs.origin(&gate.origin);
            let state = match chain {
                Some(chain) if chain.stopped => "stopped",
                _ if self.is_silent(gate.at) => "silent",
                _ => "there",
            };
            let sum = |of: fn(&Run) -> usize| chain.map(|chain| chain.runs.values().map(of).sum());
            Gate {
                origin: gate.origin.clone(),
                writer: gate.writer.clone(),
                standing: state.to_owned(),
                last_seen: gate.at.to_string(),
                age_ms: now.millis().saturating_sub(gate.at.millis()).max(0),
                obeyed: gate.seq,
                runs: chain.map(|chain| chain.runs.len()),
                held: sum(|run| run.held.len()),
                in_flight: sum(|run| run.calls.in_flight()),
                state: gate.state.to_serde(),
            }
        };
        Ok(Fleet { gates: shown.iter().map(gate).collect(), never_seen: unseen(&runs, &shown) })
    }
}

/// Chains with open runs whose gate never reported: such a gate does not obey.
fn unseen(runs: &OpenRuns, shown: &[Presence]) -> Vec<String> {
    let known: BTreeSet<&str> = shown.iter().map(|gate| gate.origin.as_str()).collect();
    let open = runs.chains().filter(|chain| !chain.runs.is_empty() && !chain.stopped);
    let unseen = open.filter(|chain| !known.contains(chain.origin.as_str()));
    unseen.map(|chain| chain.origin.clone()).collect()
}

/// Whether an order may let something run.
const fn opens(order: &Order) -> bool {
    match order {
        Order::Switch { action, .. } => matches!(action, control::Action::Reinstate),
        Order::Loosen(_)
        | Order::ApproverStatement { .. }
        | Order::Modify { .. }
        | Order::BreakGlass(_)
        | Order::ClearTaint { .. }
        | Order::Propose { .. }
        | Order::Publish { .. }
        | Order::Activate { .. } => true,
        Order::CloseBreakGlass { .. }
        | Order::ReviewBreakGlass { .. }
        | Order::EndException { .. } => false,
    }
}

/// The verdict in a statement about a held call: `approve` or `refuse`.
fn verdict(statement: &str) -> &'static str {
    let parsed = ApprovalStatement::parse(statement.as_bytes());
    parsed.map_or("word about", |statement| statement.verdict.as_str())
}

/// `data` of `control.set`.
fn entry(seq: u64, given: &OrderOrigin, order: &Order) -> ControlSet {
    let (action, target, name, note) = match order {
        Order::Switch { action, target } => {
            ((*action).into(), target.recorded(), target.name(), String::new())
        }
        Order::Loosen(signed) => {
            let subject = loosened(&signed.statement);
            let (action, target, name) = subject
                .map_or((Action::Reinstate, TargetKind::All, String::new()), |(action, target)| {
                    (action, target.recorded(), target.name())
                });
            (action, target, name, String::new())
        }
        Order::ApproverStatement { run, call, statement, .. } => (
            Action::Note,
            TargetKind::Run,
            run.to_string(),
            format!("{} call {call}", verdict(statement)),
        ),
        Order::Modify { run, call, .. } => {
            (Action::Note, TargetKind::Run, run.to_string(), format!("modify call {call}"))
        }
        Order::BreakGlass(signed) => {
            let (agent, note) = super::break_glass::summary(signed);
            (Action::BreakGlass, TargetKind::Agent, agent, note)
        }
        Order::CloseBreakGlass { nonce } => {
            (Action::Note, TargetKind::All, String::new(), format!("close break-glass {nonce}"))
        }
        Order::ReviewBreakGlass { nonce } => {
            (Action::Note, TargetKind::All, String::new(), format!("review break-glass {nonce}"))
        }
        Order::EndException { order } => {
            (Action::Note, TargetKind::All, String::new(), format!("end exception {order}"))
        }
        Order::ClearTaint { run } => {
            (Action::Note, TargetKind::Run, run.to_string(), "clear the labels".to_owned())
        }
        Order::Propose { bundle, .. }
        | Order::Publish { bundle, .. }
        | Order::Activate { bundle } => {
            let note = format!("{} policy {}", order.kind(), bundle.prefixed());
            (Action::Note, TargetKind::All, String::new(), note)
        }
    };
    let reason = match (note.is_empty(), given.reason.is_empty()) {
        (true, _) => given.reason.clone(),
        (false, true) => note,
        (false, false) => format!("{note}: {}", given.reason),
    };
    ControlSet {
        action,
        auth: given.auth.as_str().into(),
        expires: given.expires,
        name: name.into(),
        reason: reason.into(),
        roles: given.roles.iter().map(Text::from).collect(),
        seq: seq.into(),
        subject: given.subject.as_str().into(),
        target,
    }
}

/// A row without the arguments of a modified call: viewers of rows may not see arguments.
fn shown_row(row: &Row) -> OrderRow {
    let (kind, body) = match &row.order {
        None => ("unknown", json!({})),
        Some(Order::Modify { run, call, arguments, .. }) => {
            let bytes = arguments.len();
            ("modify", json!({"run": run.to_string(), "call": call.as_str(), "bytes": bytes}))
        }
        Some(order @ Order::ApproverStatement { statement, .. }) => {
            let mut body = order.to_json().to_serde();
            if let Some(members) = body.as_object_mut() {
                members.insert("verdict".into(), verdict(statement).into());
            }
            ("approval", body)
        }
        Some(order @ Order::Loosen(signed)) => {
            let mut body = order.to_json().to_serde();
            if let (Some(members), Some((action, target))) =
                (body.as_object_mut(), loosened(&signed.statement))
            {
                members.insert("action".into(), action.as_str().into());
                members.insert("target".into(), target.kind().into());
                members.insert("name".into(), target.name().into());
            }
            ("loosen", body)
        }
        Some(Order::Propose { bundle, base, version, files, .. }) => {
            let (bundle, base, bytes) = (bundle.prefixed(), base.prefixed(), files.len());
            let shown = json!({"bundle": bundle, "base": base, "version": version, "bytes": bytes});
            ("propose", shown)
        }
        Some(
            order @ (Order::Switch { .. }
            | Order::BreakGlass(_)
            | Order::CloseBreakGlass { .. }
            | Order::ReviewBreakGlass { .. }
            | Order::ClearTaint { .. }
            | Order::EndException { .. }
            | Order::Publish { .. }
            | Order::Activate { .. }),
        ) => (order.kind(), order.to_json().to_serde()),
    };
    let OrderOrigin { subject, roles, auth, reason, expires } = row.given.clone();
    OrderRow {
        seq: row.seq,
        at: row.at.to_string(),
        subject,
        roles,
        auth,
        reason,
        expires: expires.map(|at| at.to_string()),
        kind: kind.to_owned(),
        body,
    }
}
