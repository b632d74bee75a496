//! Break-glass in the operator API: opening and closing a signed order, and recording its review.
//!
//! The operator API checks a statement first, so that an invalid one raises no alarm; each gate
//! checks it again. The configured receiver must take the alarm before an order opens: while it
//! does not, the order stays closed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::api::replies::{BreakGlass, GlassReview, OpenedGlass, OrderReply};
use super::api::{OperatorRequest, requests, route};
use super::http::malformed;
use super::operators::Operator;
use super::webhook::{Webhook, WebhookMessage};
use super::{Cause, OperatorApi};
use crate::approval::approvers::Purpose;
use crate::approval::break_glass::{
    BreakGlassStatement, Open, SIGNATURES_MAX, SignedBreakGlass, Terms, check,
};
use crate::approval::{ApprovalRefusal, Approvers, RefusalReason};
use crate::control::{BreakGlassOrder, Order, Row};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::time::Timestamp;
use crate::serve::problem::Problem;
use crate::telemetry::metrics::Metrics;

/// Rows that are read at once.
const PAGE: usize = 256;
/// Bytes of the note of a review, and of why an order is closed.
const NOTE_MAX: usize = 1024;

/// Reads the current list of break-glass signers.
pub type List = Arc<dyn Fn() -> Result<Approvers, Cause> + Send + Sync>;

/// What the operator API needs for break-glass.
pub struct BreakGlassParts {
    /// The rules that a statement has to meet.
    pub terms: Terms,
    /// Who may sign.
    pub list: List,
    /// Receives the alarm before an order opens, besides the log and the metrics.
    pub alarm: Option<Webhook>,
    /// Counts the alarms.
    pub metrics: Arc<Metrics>,
}

crate::record::debug_by!(BreakGlassParts: terms);

/// One order of the list, and its later history.
struct OrderHistory {
    seq: u64,
    at: Timestamp,
    sender: String,
    statement: BreakGlassStatement,
    closed: Option<Timestamp>,
    reviewed: Option<(String, String)>,
    signatures: usize,
}

impl OperatorApi {
    /// Enables break-glass statements. The first call counts; later ones change nothing.
    pub fn allow_break_glass(&self, break_glass: BreakGlassParts) {
        drop(self.break_glass.set(break_glass));
    }

    /// Opens an order that enough approvers signed, once, after the receiver took the alarm.
    ///
    /// # Errors
    /// An error of the statement (`break_glass.*`), its nonce was used before, or the receiver did
    /// not take the alarm.
    pub(super) async fn open_break_glass(
        &self,
        sent: OperatorRequest<route::BreakGlassOpening>,
    ) -> Result<OrderReply, Problem> {
        let requests::BreakGlassStatement { statement, signatures } = sent.request;
        if signatures.len() > SIGNATURES_MAX {
            return Err(malformed(self, "`signatures` must have at most 16 items"));
        }
        let (who, signed) = (&sent.who, SignedBreakGlass { statement, signatures });
        let Some(break_glass) = self.break_glass.get() else {
            let message =
                "no break-glass signers are configured, so break-glass cannot be opened here";
            return Err(self.refused(Code::RequestMalformed, "break_glass.none", message));
        };
        let malformed = |code: &str, why: String| self.refused(Code::RequestMalformed, code, why);
        let refused = |refusal: ApprovalRefusal| malformed(refusal.code(), refusal.why.to_string());
        let list =
            (break_glass.list)().map_err(|why| malformed("break_glass.signer", why.to_string()))?;
        let open = check(&break_glass.terms, &list, &signed, self.clock.now()).map_err(refused)?;
        let past = self.past().await?;
        if past.contains_key(&open.statement.nonce) {
            return Err(refused(Purpose::BreakGlass.refusal(RefusalReason::Used)));
        }
        self.alarm(break_glass, who, &open).await?;
        let BreakGlassStatement { reason, expires, .. } = &open.statement;
        let (reason, expires) = (reason.clone(), *expires);
        self.order(who, &Order::BreakGlass(signed), (&reason, Some(expires)), None).await
    }

    async fn alarm(
        &self,
        break_glass: &BreakGlassParts,
        who: &Operator,
        open: &Open,
    ) -> Result<(), Problem> {
        let BreakGlassStatement { agent, tools, reason, expires, nonce, .. } = &open.statement;
        let tools: Vec<&str> = tools.iter().map(ToolName::as_str).collect();
        let (by, opener) = (open.subjects(), who.subject.as_str());
        tracing::warn!(%agent, ?tools, %reason, %expires, ?by, brought = opener, "BREAK-GLASS requested");
        break_glass.metrics.break_glass_alert();
        let Some(hook) = &break_glass.alarm else { return Ok(()) };
        let expires = expires.to_string();
        let message = WebhookMessage {
            kind: "break_glass.opening",
            at: self.clock.now().to_string(),
            data: json!({"agent": agent, "tools": tools, "reason": reason, "nonce": nonce,
                "expires": expires, "signed_by": by, "brought_by": opener}),
            title: "Break-glass is opening: calls run without approval",
            facts: vec![
                ("Agent", agent.clone()),
                ("Tools", tools.join(", ")),
                ("Reason", reason.clone()),
                ("Ends", expires.clone()),
                ("Signed by", by.join(", ")),
                ("Sent by", opener.to_owned()),
            ],
            link: None,
        };
        let id = Digest::of(&[b"break-glass", nonce.as_bytes()]);
        hook.send(self, &id, &message).await.map_err(|why| {
            let message = format!(
                "the alarm webhook did not accept the notice, so break-glass was not opened: {why}"
            );
            self.refused(Code::LedgerUnavailable, "break_glass.alarm", message)
        })
    }

    /// Ends an order before its time. This needs no signature.
    ///
    /// # Errors
    /// No order has this nonce.
    pub(super) async fn close_break_glass(
        &self,
        sent: OperatorRequest<route::BreakGlassEnd>,
    ) -> Result<OrderReply, Problem> {
        let OperatorRequest { who, path, request } = sent;
        self.order_history(&path.nonce).await?;
        let order = Order::CloseBreakGlass { nonce: path.nonce };
        self.order(&who, &order, (&request.reason, None), None).await
    }

    /// Records an operator's review of what was done. An operator who signed or submitted the order
    /// may not review it.
    ///
    /// # Errors
    /// No order has this nonce, the order is still open, the reviewer took part in it, or its
    /// signers are unknown.
    pub(super) async fn review_break_glass(
        &self,
        sent: OperatorRequest<route::BreakGlassReview>,
    ) -> Result<OrderReply, Problem> {
        let (who, nonce, note) = (&sent.who, &sent.path.nonce, &sent.request.note);
        let past = self.order_history(nonce).await?;
        let malformed =
            |code: &str, why: &str| Err(self.refused(Code::RequestMalformed, code, why));
        if note.trim().is_empty() || note.len() > NOTE_MAX {
            return malformed(
                "break_glass.note",
                "`note` must state the findings in 1 to 1024 bytes",
            );
        }
        if past.is_open(self.clock.now()) {
            return malformed("break_glass.open", "it is still open: close it first");
        }
        let subject = &who.subject;
        let signed = self.signed_by(nonce).await?;
        let part = |one: &String| one.eq_ignore_ascii_case(subject);
        if signed.iter().any(part) || past.sender.eq_ignore_ascii_case(subject) {
            return malformed(
                "break_glass.self",
                "the signers and the operator who sent it cannot review it",
            );
        }
        let order = Order::ReviewBreakGlass { nonce: nonce.clone() };
        self.order(who, &order, (note, None), None).await
    }

    /// Every order with its state, the latest first.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(super) async fn list_break_glass(
        &self,
        _: OperatorRequest<route::BreakGlass>,
    ) -> Result<BreakGlass, Problem> {
        let now = self.clock.now();
        let past = self.past().await?;
        let mut all: Vec<&OrderHistory> = past.values().collect();
        all.sort_by_key(|past| std::cmp::Reverse(past.seq));
        let unreviewed = all.iter().filter(|past| past.reviewed.is_none()).count();
        Ok(BreakGlass {
            configured: self.break_glass.get().is_some(),
            orders: all.iter().take(PAGE).map(|past| past.shown(now)).collect(),
            unreviewed,
            more: all.len() > PAGE,
        })
    }

    async fn order_history(&self, nonce: &str) -> Result<OrderHistory, Problem> {
        let found = self.past().await?.remove(nonce);
        found.ok_or_else(|| {
            let message = "no such break-glass order";
            self.refused(Code::CallNotFound, "break_glass.nonce", message)
        })
    }

    /// The signers of an order, by the current list.
    ///
    /// # Errors
    /// No list of approvers is usable, or the list lacks a key that signed: the signers are then
    /// unknown.
    async fn signed_by(&self, nonce: &str) -> Result<Vec<String>, Problem> {
        let unknown = |why: &str| {
            let message = format!("the signer of the order cannot be found: {why}");
            self.refused(Code::RequestMalformed, "break_glass.signers", message)
        };
        let break_glass = self.break_glass.get();
        let break_glass =
            break_glass.ok_or_else(|| unknown("`trust.break_glass` is not configured"))?;
        let list = (break_glass.list)().map_err(|why| unknown(&why.to_string()))?;
        let mut subjects = Vec::new();
        for row in self.break_glass_rows().await? {
            let Some(BreakGlassOrder::Open(signed)) = row.break_glass() else { continue };
            if signed.statement().is_none_or(|s| s.nonce != nonce) {
                continue;
            }
            // WHY: ignore the keys' validity: a signer of that time took part in the order.
            let keys = signed.signatures.iter().filter_map(|one| {
                crate::crypto::sshsig::SshSig::parse(one).ok().map(|signature| signature.key)
            });
            for key in keys {
                let signer = list.signer(&key);
                let signer =
                    signer.ok_or_else(|| unknown("one of its keys is no longer in the list"))?;
                subjects.push(signer.subject.clone());
            }
        }
        Ok(subjects)
    }

    async fn break_glass_rows(&self) -> Result<Vec<Row>, Problem> {
        let (mut rows, mut since) = (Vec::new(), 0);
        loop {
            let page = self.orders.since(since, PAGE).await?;
            let full = page.len() >= PAGE;
            since = page.last().map_or(since, |row| row.seq);
            rows.extend(page.into_iter().filter(|row| row.break_glass().is_some()));
            if !full {
                return Ok(rows);
            }
        }
    }

    /// Every order by its nonce. The first of a nonce is the one that counts.
    async fn past(&self) -> Result<BTreeMap<String, OrderHistory>, Problem> {
        let mut all: BTreeMap<String, OrderHistory> = BTreeMap::new();
        for row in self.break_glass_rows().await? {
            match row.break_glass() {
                Some(BreakGlassOrder::Open(signed)) => {
                    let Some(statement) = signed.statement() else { continue };
                    let past = OrderHistory::of(&row, statement.clone(), signed.signatures.len());
                    all.entry(statement.nonce).or_insert(past);
                }
                Some(BreakGlassOrder::Close(nonce)) => {
                    all.get_mut(nonce).map(|past| past.closed.get_or_insert(row.at));
                }
                Some(BreakGlassOrder::Review(nonce)) => {
                    let review = (row.given.subject.clone(), row.given.reason.clone());
                    all.get_mut(nonce).map(|past| past.reviewed.get_or_insert(review));
                }
                None => {}
            }
        }
        Ok(all)
    }
}

impl OrderHistory {
    fn of(row: &Row, statement: BreakGlassStatement, signatures: usize) -> Self {
        let sender = row.given.subject.clone();
        let (seq, at) = (row.seq, row.at);
        Self { seq, at, sender, statement, closed: None, reviewed: None, signatures }
    }

    fn is_open(&self, now: Timestamp) -> bool {
        self.closed.is_none() && now < self.statement.expires
    }

    fn shown(&self, now: Timestamp) -> OpenedGlass {
        let BreakGlassStatement { agent, tools, reason, expires, nonce, .. } = &self.statement;
        let review =
            |(by, note): &(String, String)| GlassReview { by: by.clone(), note: note.clone() };
        OpenedGlass {
            seq: self.seq,
            nonce: nonce.clone(),
            agent: agent.clone(),
            tools: tools.iter().map(ToString::to_string).collect(),
            reason: reason.clone(),
            opened: self.at.to_string(),
            expires: expires.to_string(),
            brought_by: self.sender.clone(),
            signatures: self.signatures,
            open: self.is_open(now),
            closed: self.closed.map(|at| at.to_string()),
            review: self.reviewed.as_ref().map(review),
        }
    }
}

/// The agent an order is for, and the entry's text about it besides the reason.
pub(super) fn summary(signed: &SignedBreakGlass) -> (String, String) {
    let Some(statement) = signed.statement() else { return (String::new(), String::new()) };
    let tools: Vec<&str> = statement.tools.iter().map(ToolName::as_str).collect();
    let note = format!("break-glass {} for {}", statement.nonce, tools.join(", "));
    (statement.agent, note)
}
